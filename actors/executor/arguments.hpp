// What `troupe executor` is told on its command line. Both sides are here, so that they cannot drift apart.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/result.hpp"

namespace troupe::actors {

/// Secrets are not among them: the cookie and the epoch come over the inherited socket.
struct executor_arguments {
    std::string model;             ///< path of the GGUF file
    std::string kernels = "auto";  ///< auto, ref, avx2, avx512
    std::int32_t threads = 0;      ///< 0: one a core
    std::int32_t ctx = 0;          ///< tokens of one sequence; 0: the model's
    std::string kv_type = "f16";   ///< f16, bf16, f32, q8_0
    std::uint64_t kv_memory = 0;   ///< bytes; 0: 25 % of available memory
    std::string kv_folder;         ///< where KV images are kept; empty: nowhere
    std::uint64_t kv_disk = 0;     ///< bytes of them
    std::int32_t max_rows = 512;   ///< of one forward pass
    std::int32_t nice = 0;
    std::string log_level = "info";
    std::int32_t socket_fd = -1;  ///< inherited socketpair: its end of file means that the front is gone
    std::int32_t page_fd = -1;    ///< inherited memory of the progress page
    std::int32_t parent = 0;      ///< pid of the front; another getppid() means it is gone already
};

/// `--model PATH --threads N ...`, every field; the words after `troupe executor`.
std::vector<std::string> to_words(const executor_arguments& arguments);
/// errc::usage names the word. A field that is absent keeps its default; `--model` is required.
result<executor_arguments> parse_words(std::span<const std::string> words);

}  // namespace troupe::actors
