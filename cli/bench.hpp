// What a benchmark run measured, and its printing in llama-bench's formats.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::cli {

struct machine_peak {
    double bytes_per_second = 0;  ///< streaming read of memory larger than the caches, all threads
    double macs_per_second = 0;   ///< this table's matrix product on operands in cache, all threads
};

struct bench_row {
    std::string model_file, model_type, kernels, kv_type, test_time;
    std::uint64_t model_size = 0, model_n_params = 0;
    std::int64_t n_threads = 0, n_prompt = 0, n_gen = 0, n_depth = 0;
    std::vector<double> seconds;  ///< one a repetition
    double bytes_per_token = 0;   ///< read from memory for one generated token
    double macs_per_token = 0;
    machine_peak peak;

    double tokens() const { return static_cast<double>(n_prompt + n_gen); }
    double mean_rate() const;  ///< tokens per second
    double stddev_rate() const;
    double gbps() const;            ///< generation: memory read, GB/s; 0 for prompts
    double pct_peak() const;        ///< of bandwidth (generation) or multiply rate (prompt)
    std::string test_name() const;  ///< "pp512", "tg128 @ d4096", "pp512+tg128"
};

/// "md" prints header with the first row; "json" needs all rows.
std::string print_rows(const std::vector<bench_row>& rows, const std::string& format, const std::string& version);

}  // namespace troupe::cli
