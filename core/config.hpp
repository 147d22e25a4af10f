// The engine's settings as one struct, filled from the option table (core/options.hpp) and const from then on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/limits.hpp"
#include "core/requests.hpp"

namespace troupe {

struct config {
    // -- model and device ---------------------------------------------------------------------------------------------
    std::vector<std::string> models;  ///< PATH or NAME=PATH
    std::string device = "auto";      ///< auto, cpu, cuda[:N]
    std::string kernels = "auto";     ///< auto, ref, avx2, avx512
    std::int64_t threads = 0;         ///< 0: one a core
    std::int64_t ctx_size = 0;        ///< tokens of one sequence; 0: the model's
    std::int64_t max_seqs = 16;       ///< sequences in one step
    std::string kv_type = "f16";
    std::uint64_t kv_memory = 0;  ///< bytes; 0: 25 % of available memory
    bool deterministic = true;
    // -- executor -----------------------------------------------------------------------------------------------------
    std::string executor = "process";  ///< process, inline
    std::int64_t executor_nice = 0;
    std::int64_t replicas = 1;
    std::int64_t step_budget_ms = 50;
    std::int64_t run_ahead = 2;
    std::string speculate = "off";
    // -- serving ------------------------------------------------------------------------------------------------------
    std::string host = "127.0.0.1";
    std::int64_t port = 8080;
    std::vector<std::string> api_keys;
    std::string api_key_file;
    std::vector<std::string> allowed_origins, allowed_hosts;
    std::uint64_t max_body = limits::max_body_default;
    std::int64_t websocket_silence = 60;  ///< seconds
    std::string tls_cert, tls_key;
    std::int64_t queue_limit = 64;     ///< waiting requests
    std::int64_t queue_timeout = 300;  ///< seconds a request may wait
    std::string metrics_compat = "llamacpp,vllm";
    // -- unattended ---------------------------------------------------------------------------------------------------
    std::string data_dir;                                        ///< resolved: ${XDG_DATA_HOME:-~/.local/share}/troupe
    std::uint64_t kv_disk = 4ull << 30;                          ///< bytes of KV images; 0: none
    std::int64_t idle_shrink_after = 60, idle_unload_after = 0;  ///< seconds; 0: never
    bool resume_unfinished = true;
    bool fault_injection = false;
    std::string log_level = "info";
    // -- sampling defaults --------------------------------------------------------------------------------------------
    std::string pooling = "mean";  ///< of /v1/embeddings: mean, last
    generation_params defaults;    ///< temperature, top_k, top_p, min_p set
};

}  // namespace troupe
