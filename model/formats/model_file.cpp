// Which format a path holds, and what all formats share.
#include "model/formats/model_file.hpp"

#include "model/formats/gguf.hpp"
#include "model/formats/hf_folder.hpp"

namespace troupe::model {

std::int64_t model_tensor::rows() const {
    std::int64_t product = 1;
    for (std::size_t i = 1; i < shape.size(); ++i) product *= shape[i];
    return product;
}

std::uint64_t model_tensor::bytes() const {
    return kernels::row_bytes(type, cols()) * static_cast<std::uint64_t>(rows());
}

std::span<const std::byte> model_tensor::contents(std::vector<std::byte>& buffer) const {
    if (!source) return data;
    buffer.resize(bytes());
    source->read_rows(0, rows(), buffer.data());
    return buffer;
}

result<std::shared_ptr<const model_file>> model_file::open(const std::filesystem::path& path) {
    std::error_code failure;
    if (std::filesystem::is_directory(path, failure)) return open_hf_folder(path);
    TROUPE_TRY(auto file, gguf_file::open(path));
    return std::shared_ptr<const model_file>(std::move(file));
}

std::uint64_t model_file::file_bytes() const {
    std::uint64_t sum = 0;
    for (const region& r : regions()) sum += r.header.size() + r.data.size();
    return sum;
}

}  // namespace troupe::model
