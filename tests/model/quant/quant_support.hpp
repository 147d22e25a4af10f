// Folders that go away, small GGUF files with chosen values, and quantizing with one call.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "model/quant/quantize_model.hpp"
#include "tests/support/gguf_builder.hpp"

namespace troupe::testing {

class temporary_folder {
 public:
    temporary_folder() {
        std::string name = (std::filesystem::temp_directory_path() / "troupe-quant-XXXXXX").string();
        EXPECT_NE(::mkdtemp(name.data()), nullptr);
        path_ = name;
    }
    temporary_folder(const temporary_folder&) = delete;
    ~temporary_folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
    std::size_t n_files() const {
        return static_cast<std::size_t>(
            std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator()));
    }

 private:
    std::filesystem::path path_;
};

inline std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    const std::vector<char> chars{std::istreambuf_iterator<char>(in), {}};
    std::vector<std::byte> bytes(chars.size());
    std::memcpy(bytes.data(), chars.data(), chars.size());
    return bytes;
}
inline void write_bytes(const std::filesystem::path& path, const std::vector<std::byte>& bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

/// A file with one f32 matrix; `values` must be a multiple of 8 long.
inline std::vector<std::byte> one_matrix(
    gguf_builder& w, std::uint64_t cols, std::uint64_t rows, const std::vector<float>& values) {
    w.tensor("blk.0.ffn_up.weight", {cols, rows}, 0, 4 * values.size());
    std::vector<std::byte> bytes = w.bytes();
    std::memcpy(bytes.data() + bytes.size() - 4 * values.size(), values.data(), 4 * values.size());
    return bytes;
}

inline result<model::quantize_summary> quantize_file(const std::filesystem::path& in, const std::filesystem::path& out,
    model::file_type type, model::quantize_options o = {}) {
    o.input = in;
    o.output = out;
    o.choice.type = type;
    return model::quantize_model(o, [](const model::quantize_step&) {});
}

}  // namespace troupe::testing
