// The commands of the binary; main.cpp parses flags, each command has a file of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config.hpp"
#include "core/result.hpp"

namespace troupe::cli {

std::string version_text();

/// Prints `e` as the last line on stderr and returns its exit code.
int report(const error& e);

int serve(const config& c);
int executor(const std::vector<std::string>& words);

struct generate_options {
    std::string model, prompt, kernels = "auto", kv_type = "f16";
    std::int64_t n = 128, threads = 0, ctx = 0;
    generation_params params;
    bool ignore_eos = false;
};
int generate(const generate_options& o);

struct chat_options {
    config settings;
    std::string server;  ///< URL of a running server; empty: the model is loaded here
    std::string key, system = "You are a helpful assistant.";
};
int chat(const chat_options& o);

struct bench_options {
    std::vector<std::string> models, kv_types{"f16"};
    std::vector<std::int64_t> n_prompt{512}, n_gen{128}, depths{0}, threads{0};
    std::vector<std::pair<std::int64_t, std::int64_t>> prompt_gen;
    std::int64_t repetitions = 5;
    std::string kernels = "auto", output = "md";
};
int bench(const bench_options& o);
/// "512", "1,2,4", "16-64+16", "1-8*2" as llama-bench reads them.
result<std::vector<std::int64_t>> parse_range_list(const std::string& text);

struct quantize_arguments {
    std::vector<std::string> words;  ///< IN [OUT] TYPE [THREADS]
    bool allow_requantize = false, leave_output_tensor = false, pure = false, dry_run = false;
    std::string imatrix, output_tensor_type, token_embedding_type;
    std::vector<std::string> include_weights, exclude_weights, tensor_types;
};
int quantize(const quantize_arguments& a);

struct perplexity_options {
    std::string model, file, kernels = "auto", kv_type = "f16";
    std::string base;  ///< llama-perplexity's file of log-probabilities: written, or read with `compare`
    bool compare = false;
    std::int64_t ctx = 512, chunks = -1, threads = 0;  ///< chunks below 1: all
};
int perplexity(const perplexity_options& o);

struct inspect_options {
    std::string model, kv_type = "f16";
    bool plan = false, json = false;
    std::int64_t ctx = 0, max_seqs = 16;
};
int inspect(const inspect_options& o);

}  // namespace troupe::cli
