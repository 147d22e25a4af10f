#include "cli/bench.hpp"

#include <cmath>
#include <fstream>

#include <boost/json.hpp>
#include <fmt/format.h>

namespace troupe::cli {
namespace json = boost::json;
namespace {

std::string cpu_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    return "unknown";
}

json::object row_json(const bench_row& r, const std::string& version) {
    json::array ns, ts;
    double mean_ns = 0;
    for (const double s : r.seconds) {
        ns.push_back(static_cast<std::int64_t>(s * 1e9));
        ts.push_back(r.tokens() / s);
        mean_ns += s * 1e9 / static_cast<double>(r.seconds.size());
    }
    double variance = 0;
    for (const double s : r.seconds) variance += (s * 1e9 - mean_ns) * (s * 1e9 - mean_ns);
    const double stddev_ns = r.seconds.size() > 1 ? std::sqrt(variance / static_cast<double>(r.seconds.size() - 1)) : 0;
    return {{"build_commit", version}, {"build_number", 0}, {"cpu_info", cpu_name()}, {"gpu_info", ""},
        {"backends", "CPU"}, {"model_filename", r.model_file}, {"model_type", r.model_type},
        {"model_size", r.model_size}, {"model_n_params", r.model_n_params}, {"n_batch", 512},
        {"n_threads", r.n_threads}, {"type_k", r.kv_type}, {"type_v", r.kv_type}, {"kernels", r.kernels},
        {"n_prompt", r.n_prompt}, {"n_gen", r.n_gen}, {"n_depth", r.n_depth}, {"test_time", r.test_time},
        {"avg_ns", static_cast<std::int64_t>(mean_ns)}, {"stddev_ns", static_cast<std::int64_t>(stddev_ns)},
        {"avg_ts", r.mean_rate()}, {"stddev_ts", r.stddev_rate()}, {"samples_ns", std::move(ns)},
        {"samples_ts", std::move(ts)}, {"gbps", r.gbps()}, {"pct_peak", r.pct_peak()}};
}

std::string csv_line(const json::object& o, bool names) {
    std::string line;
    for (const auto& [key, value] : o) {
        if (value.is_array()) continue;
        if (!line.empty()) line += ',';
        line += names ? std::string(key)
                      : (value.is_string() ? "\"" + std::string(value.as_string()) + "\"" : json::serialize(value));
    }
    return line + "\n";
}

std::string markdown(const std::vector<bench_row>& rows, const std::string& version) {
    std::string text = "| model | size | params | backend | threads | type_k | test | t/s | gbps | pct_peak |\n"
                       "| --- | ---: | ---: | --- | ---: | --- | ---: | ---: | ---: | ---: |\n";
    for (const auto& r : rows) {
        const double gib = static_cast<double>(r.model_size) / (1 << 30);
        const double params = static_cast<double>(r.model_n_params);
        text += fmt::format("| {} | {} | {} | CPU {} | {} | {} | {} | {:.2f} ± {:.2f} | {} | {:.0f} % |\n",
            r.model_type, gib >= 1 ? fmt::format("{:.2f} GiB", gib) : fmt::format("{:.2f} MiB", gib * 1024),
            params >= 1e9 ? fmt::format("{:.2f} B", params / 1e9) : fmt::format("{:.2f} M", params / 1e6), r.kernels,
            r.n_threads, r.kv_type, r.test_name(), r.mean_rate(), r.stddev_rate(),
            r.gbps() > 0 ? fmt::format("{:.2f}", r.gbps()) : "-", r.pct_peak());
    }
    if (!rows.empty())
        text +=
            fmt::format("\nmachine: {} | memory read {:.1f} GB/s | product in cache {:.0f} GMAC/s\nbuild: troupe {}\n",
                cpu_name(), rows[0].peak.bytes_per_second / 1e9, rows[0].peak.macs_per_second / 1e9, version);
    return text;
}

}  // namespace

double bench_row::mean_rate() const {
    double sum = 0;
    for (const double s : seconds) sum += tokens() / s;
    return sum / static_cast<double>(seconds.size());
}

double bench_row::stddev_rate() const {
    if (seconds.size() < 2) return 0;
    const double mean = mean_rate();
    double sum = 0;
    for (const double s : seconds) sum += (tokens() / s - mean) * (tokens() / s - mean);
    return std::sqrt(sum / static_cast<double>(seconds.size() - 1));
}

double bench_row::gbps() const { return n_prompt == 0 ? mean_rate() * bytes_per_token / 1e9 : 0; }

double bench_row::pct_peak() const {
    if (n_prompt == 0)
        return peak.bytes_per_second > 0 ? 100 * mean_rate() * bytes_per_token / peak.bytes_per_second : 0;
    return peak.macs_per_second > 0 ? 100 * mean_rate() * macs_per_token / peak.macs_per_second : 0;
}

std::string bench_row::test_name() const {
    std::string name;
    if (n_prompt > 0) name = fmt::format("pp{}", n_prompt);
    if (n_gen > 0) name += fmt::format("{}tg{}", name.empty() ? "" : "+", n_gen);
    return n_depth > 0 ? fmt::format("{} @ d{}", name, n_depth) : name;
}

std::string print_rows(const std::vector<bench_row>& rows, const std::string& format, const std::string& version) {
    if (format == "md") return markdown(rows, version);
    if (format == "json") {
        json::array list;
        for (const auto& r : rows) list.push_back(row_json(r, version));
        return json::serialize(list) + "\n";
    }
    std::string text;
    for (const auto& r : rows) {
        const auto o = row_json(r, version);
        if (format == "jsonl")
            text += json::serialize(o) + "\n";
        else
            text += (text.empty() ? csv_line(o, true) : "") + csv_line(o, false);
    }
    return text;
}

}  // namespace troupe::cli
