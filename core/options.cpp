#include "core/options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

#include "core/service_environment.hpp"

namespace troupe {
namespace {

constexpr double big = 9e15;

const std::vector<option>& build() {
    using c = config;
    using g = generation_params;
    static const std::vector<option> table{
        {"model", "m", "PATH", "Model file or folder, or NAME=PATH; repeatable.", &c::models, 0, 0, {},
            "Model and device"},
        {"device", "", "DEVICE", "Where the model runs: auto, cpu, cuda or cuda:N.", &c::device},
        {"kernels", "", "TABLE", "Kernel table; auto takes the best the processor has.", &c::kernels, 0, 0,
            {"auto", "ref", "avx2", "avx512"}},
        {"threads", "t", "N", "Threads of the executor; 0 = one a core.", &c::threads, 0, 1024},
        {"ctx-size", "c", "TOKENS", "Context of one sequence; 0 = what the model was trained for.", &c::ctx_size, 0,
            1 << 24},
        {"max-seqs", "", "N", "Sequences computed in one step.", &c::max_seqs, 1, 64},
        {"kv-type", "", "TYPE", "Type of the key/value memory.", &c::kv_type, 0, 0, {"f16", "bf16", "f32", "q8_0"}},
        {"kv-memory", "", "SIZE", "Bound of the key/value memory; 0 = a quarter of the available memory.",
            &c::kv_memory, 0, big},
        {"deterministic", "", "on|off",
            "Batch-invariant arithmetic: the same answer whatever the neighbours; this version has no other.",
            &c::deterministic, 0, 0, {"on", "off"}},
        {"executor", "", "KIND", "Run the model in a process of its own, or inline (tests and debugging).",
            &c::executor, 0, 0, {"process", "inline"}, "Executor"},
        {"executor-nice", "", "N", "Niceness of the executor process.", &c::executor_nice, 0, 19},
        {"replicas", "", "N", "Executors of the same model.", &c::replicas, 1, 1},
        {"step-budget-ms", "", "MS", "Time a step may take when prompts are read beside running answers.",
            &c::step_budget_ms, 1, 10000},
        {"run-ahead", "", "N", "Plans sent before the result of the one before is back.", &c::run_ahead, 1, 4},
        {"speculate", "", "KIND", "Speculative decoding.", &c::speculate, 0, 0, {"off"}},
        {"host", "", "ADDRESS", "Address to listen on; anything but loopback needs a key.", &c::host, 0, 0, {},
            "Serving"},
        {"port", "", "PORT", "Port to listen on; 0 = any free one.", &c::port, 0, 65535},
        {"api-key", "", "KEY", "Key that clients must send; repeatable. KEY:admin makes it an administrator's.",
            &c::api_keys},
        {"api-key-file", "", "PATH", "File with one key a line; read again on SIGHUP.", &c::api_key_file},
        {"allowed-origin", "", "ORIGIN", "Further Origin to accept; repeatable.", &c::allowed_origins},
        {"allowed-host", "", "HOST", "Further Host to accept; repeatable.", &c::allowed_hosts},
        {"max-body", "", "SIZE", "Largest request body.", &c::max_body, 1024, 1u << 30},
        {"websocket-silence", "", "SECONDS",
            "A WebSocket peer that says nothing and answers no ping for so long is gone; pings go out three times as "
            "often.",
            &c::websocket_silence, 1, 3600},
        {"tls-cert", "", "PATH", "Certificate chain (PEM); with --tls-key the server speaks TLS.", &c::tls_cert},
        {"tls-key", "", "PATH", "Private key (PEM).", &c::tls_key},
        {"queue-limit", "", "N", "Requests that may wait.", &c::queue_limit, 0, 100000},
        {"queue-timeout", "", "SECONDS", "How long a request may wait.", &c::queue_timeout, 1, 86400},
        {"metrics-compat", "", "NAMES", "Alias families in /metrics.", &c::metrics_compat, 0, 0,
            {"llamacpp,vllm", "vllm,llamacpp", "llamacpp", "vllm", "none"}},
        {"data-dir", "", "DIR", "Where sessions are kept; empty = the user's data directory.", &c::data_dir, 0, 0, {},
            "Unattended"},
        {"kv-disk", "", "SIZE", "Key/value memory of idle sessions kept as files below the data directory; 0 = none.",
            &c::kv_disk, 0, big},
        {"idle-shrink-after", "", "SECONDS", "Idle time after which key/value memory goes back; 0 = never.",
            &c::idle_shrink_after, 0, 1e7},
        {"idle-unload-after", "", "SECONDS", "Idle time after which the weights go too; 0 = never.",
            &c::idle_unload_after, 0, 1e7},
        {"resume-unfinished", "", "", "After a restart, answers that were being made go on.", &c::resume_unfinished},
        {"fault-injection", "", "", "Accept POST /admin/faults.", &c::fault_injection},
        {"log-level", "", "LEVEL", "What goes to the log.", &c::log_level, 0, 0,
            {"trace", "debug", "info", "warn", "error", "off"}},
        {"temperature", "", "T", "Default temperature; 0 = always the likeliest token.", &g::temperature, 0, 5, {},
            "Sampling defaults"},
        {"top-k", "", "K", "Default top-k; 0 = off.", &g::top_k, -1, 1 << 24},
        {"top-p", "", "P", "Default top-p; 1 = off.", &g::top_p, 1e-6, 1},
        {"min-p", "", "P", "Default min-p; 0 = off.", &g::min_p, 0, 1},
        {"repeat-penalty", "", "X", "Default repetition penalty; 1 = off.", &g::repeat_penalty, 1e-6, 2},
        {"repeat-last-n", "", "N", "Default window of penalties; -1 = the whole context.", &g::penalty_last_n, -1,
            1 << 24},
        {"presence-penalty", "", "X", "Default presence penalty; 0 = off.", &g::presence_penalty, -2, 2},
        {"frequency-penalty", "", "X", "Default frequency penalty; 0 = off.", &g::frequency_penalty, -2, 2},
        {"typical-p", "", "P", "Default locally typical sampling; 1 = off.", &g::typical_p, 1e-6, 1},
        {"top-n-sigma", "", "N", "Default top-n-sigma; -1 = off.", &g::top_n_sigma, -1, 100},
        {"xtc-probability", "", "P", "Default XTC probability; 0 = off.", &g::xtc_probability, 0, 1},
        {"xtc-threshold", "", "P", "Default XTC threshold; above 0.5 = off.", &g::xtc_threshold, 0, 1},
        {"dynatemp-range", "", "X", "Default range of the dynamic temperature; 0 = off.", &g::dynatemp_range, 0, 5},
        {"dynatemp-exponent", "", "X", "Default exponent of the dynamic temperature.", &g::dynatemp_exponent, 0, 100},
        {"dry-multiplier", "", "X", "Default DRY multiplier; 0 = off.", &g::dry_multiplier, 0, 100},
        {"dry-base", "", "X", "Default DRY base.", &g::dry_base, 0, 100},
        {"dry-allowed-length", "", "N", "Default length of repetitions that DRY allows.", &g::dry_allowed_length, 0,
            1 << 24},
        {"dry-penalty-last-n", "", "N", "Default window of DRY; -1 = the whole context.", &g::dry_penalty_last_n, -1,
            1 << 24},
        {"mirostat", "", "N", "Default mirostat: 0 = off, 2 = version 2.", &g::mirostat, 0, 2, {"0", "2"}},
        {"mirostat-tau", "", "X", "Default surprise mirostat aims at, in bits.", &g::mirostat_tau, 0, 1000},
        {"mirostat-eta", "", "X", "Default learning rate of mirostat.", &g::mirostat_eta, 0, 1},
        {"pooling", "", "KIND", "How /v1/embeddings makes one vector of a text's: mean or last.", &c::pooling, 0, 0,
            {"mean", "last"}},
    };
    return table;
}

error out_of_range(const option& o, std::string_view text, std::string_view allowed) {
    return fail(errc::usage, fmt::format("--{}: '{}' is not allowed; {}", o.name, text, allowed), std::string(o.name));
}

std::string range_text(const option& o) { return fmt::format("a number from {} to {}", o.min, o.max); }

template <class N> result<N> parse_number(const option& o, std::string_view text) {
    N value{};
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (ec != std::errc{} || end != text.data() + text.size()) return out_of_range(o, text, range_text(o));
    if constexpr (std::is_floating_point_v<N>)
        if (!std::isfinite(value)) return out_of_range(o, text, range_text(o));
    if (static_cast<double>(value) < o.min || static_cast<double>(value) > o.max)
        return out_of_range(o, text, range_text(o));
    return value;
}

result<bool> parse_bool(const option& o, std::string_view text) {
    if (text == "on" || text == "true" || text == "1" || text == "yes") return true;
    if (text == "off" || text == "false" || text == "0" || text == "no") return false;
    return out_of_range(o, text, "on or off");
}

result<void> check_choice(const option& o, std::string_view text) {
    if (o.choices.empty()) return {};
    std::string allowed = "one of";
    for (const auto choice : o.choices) {
        if (choice == text) return {};
        allowed += fmt::format(" {}", choice);
    }
    return out_of_range(o, text, allowed);
}

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

std::filesystem::path user_directory(const char* variable, const char* below_home) {
    if (auto dir = environment(variable); !dir.empty()) return dir;
    auto home = environment("HOME");
    return std::filesystem::path(home.empty() ? "/" : home) / below_home;
}

result<void> apply_environment(config& c) {
    for (const auto& o : options()) {
        const auto text = environment(o.variable().c_str());
        if (text.empty()) continue;
        if (o.repeatable()) {
            c.*std::get<option::text_list config::*>(o.where) = {};
            for (std::size_t at = 0; at <= text.size();) {
                const auto comma = std::min(text.find(',', at), text.size());
                TROUPE_TRYV(set_option(c, o, std::string_view(text).substr(at, comma - at)));
                at = comma + 1;
            }
        } else if (auto set = set_option(c, o, text); !set) {
            return fail(errc::usage, fmt::format("{}: {}", o.variable(), set.error().message), set.error().param);
        }
    }
    return {};
}

config built_in() {
    config c;
    c.defaults.temperature = 0.8;
    c.defaults.top_k = 40;
    c.defaults.top_p = 0.95;
    c.defaults.min_p = 0.05;
    c.defaults.repeat_penalty = 1;
    c.defaults.penalty_last_n = 64;
    c.defaults.presence_penalty = 0;
    c.defaults.frequency_penalty = 0;
    c.defaults.typical_p = 1;
    c.defaults.top_n_sigma = -1;
    c.defaults.xtc_probability = 0;
    c.defaults.xtc_threshold = 0.1;
    c.defaults.dynatemp_range = 0;
    c.defaults.dynatemp_exponent = 1;
    c.defaults.dry_multiplier = 0;
    c.defaults.dry_base = 1.75;
    c.defaults.dry_allowed_length = 2;
    c.defaults.dry_penalty_last_n = 64;
    c.defaults.mirostat = 0;
    c.defaults.mirostat_tau = 5;
    c.defaults.mirostat_eta = 0.1;
    return c;
}

result<std::string> read_file(const std::filesystem::path& path) {
    std::FILE* f = std::fopen(path.c_str(), "rb");
    if (!f) return fail(errc::usage, fmt::format("--config: cannot open '{}'", path.string()), "config");
    std::string text;
    char buffer[4096];
    while (const auto n = std::fread(buffer, 1, sizeof buffer, f)) text.append(buffer, n);
    std::fclose(f);
    return text;
}

}  // namespace

service_environment read_service_environment() {
    service_environment e{environment("NOTIFY_SOCKET")};
    const auto number = [](const std::string& text) {
        std::int64_t value = 0;
        const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
        return ec == std::errc{} && end == text.data() + text.size() ? value : 0;
    };
    const auto meant_for = environment("WATCHDOG_PID");
    if (meant_for.empty() || number(meant_for) == ::getpid())
        e.watchdog = std::chrono::microseconds(std::max<std::int64_t>(0, number(environment("WATCHDOG_USEC"))));
    return e;
}

std::string option::key() const {
    std::string k(name);
    for (char& ch : k)
        if (ch == '-') ch = '_';
    return k;
}

std::string option::variable() const {
    std::string v = "TROUPE_";
    for (const char ch : name) v += ch == '-' ? '_' : static_cast<char>(ch >= 'a' && ch <= 'z' ? ch - 'a' + 'A' : ch);
    return v;
}

std::span<const option> options() { return build(); }

const option* find_option(std::string_view name) {
    for (const auto& o : options())
        if (o.name == name) return &o;
    return nullptr;
}

result<std::uint64_t> parse_size(std::string_view text) {
    std::uint64_t scale = 1;
    std::string_view digits = text;
    if (!digits.empty()) {
        switch (digits.back()) {
        case 'k':
        case 'K':
            scale = 1u << 10;
            break;
        case 'm':
        case 'M':
            scale = 1u << 20;
            break;
        case 'g':
        case 'G':
            scale = 1u << 30;
            break;
        default:
            break;
        }
        if (scale != 1) digits.remove_suffix(1);
    }
    std::uint64_t n = 0;
    const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    if (digits.empty() || ec != std::errc{} || end != digits.data() + digits.size() || n > UINT64_MAX / scale)
        return fail(errc::usage, fmt::format("'{}' is not a size: bytes, or a number with K, M or G", text));
    return n * scale;
}

result<void> set_option(config& c, const option& o, std::string_view text) {
    if (auto good = check_choice(o, text); !good) return good;
    if (const auto* p = std::get_if<std::string config::*>(&o.where)) {
        c.** p = std::string(text);
    } else if (const auto* list = std::get_if<option::text_list config::*>(&o.where)) {
        if (text.empty()) return out_of_range(o, text, "it must not be empty");
        (c.**list).emplace_back(text);
    } else if (const auto* number = std::get_if<std::int64_t config::*>(&o.where)) {
        TROUPE_TRY(c.**number, parse_number<std::int64_t>(o, text));
    } else if (const auto* size = std::get_if<std::uint64_t config::*>(&o.where)) {
        const auto bytes = parse_size(text);
        if (!bytes)
            return fail(errc::usage, fmt::format("--{}: {}", o.name, bytes.error().message), std::string(o.name));
        if (static_cast<double>(*bytes) < o.min || static_cast<double>(*bytes) > o.max)
            return out_of_range(o, text, range_text(o));
        c.** size = *bytes;
    } else if (const auto* flag = std::get_if<bool config::*>(&o.where)) {
        TROUPE_TRY(c.**flag, parse_bool(o, text));
    } else if (const auto* real = std::get_if<std::optional<double> generation_params::*>(&o.where)) {
        TROUPE_TRY(c.defaults.**real, parse_number<double>(o, text));
    } else {
        TROUPE_TRY(c.defaults.*std::get<std::optional<std::int32_t> generation_params::*>(o.where),
            parse_number<std::int32_t>(o, text));
    }
    return {};
}

std::string get_option(const config& c, const option& o) {
    struct printer {
        const config& c;
        const option& o;
        std::string operator()(std::string config::*p) const { return c.*p; }
        std::string operator()(std::int64_t config::*p) const { return std::to_string(c.*p); }
        std::string operator()(std::uint64_t config::*p) const { return std::to_string(c.*p); }
        std::string operator()(bool config::*p) const {
            return o.choices.empty() ? (c.*p ? "true" : "false") : (c.*p ? "on" : "off");
        }
        std::string operator()(option::text_list config::*p) const { return fmt::format("{}", fmt::join(c.*p, ",")); }
        std::string operator()(std::optional<double> generation_params::*p) const {
            return c.defaults.*p ? fmt::format("{}", *(c.defaults.*p)) : "";
        }
        std::string operator()(std::optional<std::int32_t> generation_params::*p) const {
            return c.defaults.*p ? std::to_string(*(c.defaults.*p)) : "";
        }
    };
    return std::visit(printer{c, o}, o.where);
}

result<config> resolve_config(const flag_values& flags, const std::optional<std::filesystem::path>& file) {
    config c = built_in();
    if (file) {
        TROUPE_TRY(const auto text, read_file(*file));
        TROUPE_TRYV(apply_toml(c, text, file->string()));
    }
    TROUPE_TRYV(apply_environment(c));
    for (const auto& [o, values] : flags) {
        if (o->repeatable()) c.*std::get<option::text_list config::*>(o->where) = {};
        for (const auto& value : values) TROUPE_TRYV(set_option(c, *o, value));
    }
    if (c.data_dir.empty()) c.data_dir = (user_directory("XDG_DATA_HOME", ".local/share") / "troupe").string();
    return c;
}

std::string default_toml() {
    std::string text =
        "# Every option of `troupe serve` with its default. Written by `troupe serve --print-default-config`.\n";
    const config c = built_in();
    for (const auto& o : options()) {
        if (!o.section.empty()) text += fmt::format("\n# -- {} --\n", o.section);
        text += fmt::format("# {}\n", o.help);
        const auto value = get_option(c, o);
        const bool on_or_off = std::holds_alternative<bool config::*>(o.where) && !o.is_switch();
        const bool bare = !std::holds_alternative<std::string config::*>(o.where) && !o.repeatable() && !on_or_off;
        if (o.repeatable())
            text += fmt::format("{} = []\n", o.key());
        else
            text += bare ? fmt::format("{} = {}\n", o.key(), value) : fmt::format("{} = \"{}\"\n", o.key(), value);
    }
    return text;
}

}  // namespace troupe
