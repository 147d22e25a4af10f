// Metadata for people and for cache keys.
#include "model/model_info.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>

#include "core/check.hpp"

namespace troupe::model {
namespace {

struct file_type {
    std::int64_t number;
    std::string_view name;
};
/// general.file_type, the mixture a quantizer was asked for (source: llama_ftype of the ggml project).
constexpr std::array<file_type, 13> file_types{
    {{0, "F32"}, {1, "F16"}, {2, "Q4_0"}, {3, "Q4_1"}, {7, "Q8_0"}, {8, "Q5_0"}, {9, "Q5_1"}, {14, "Q4_K_S"},
        {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"}, {18, "Q6_K"}, {32, "BF16"}}};

std::string most_frequent_type(const model_file& file) {
    std::array<int, static_cast<std::size_t>(kernels::dtype::count_)> counts{};
    for (const model_tensor& t : file.tensors())
        if (t.rows() > 1) ++counts[static_cast<std::size_t>(t.type)];
    const auto most = std::max_element(counts.begin(), counts.end()) - counts.begin();
    std::string name(kernels::info(static_cast<kernels::dtype>(most)).name);
    std::transform(
        name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return name;
}

std::string quantization(const model_file& file) {
    const auto number = file.get_int("general.file_type");
    if (number && *number)
        for (const file_type& t : file_types)
            if (t.number == **number) return std::string(t.name);
    return most_frequent_type(file);
}

class sha256 {
 public:
    sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
        CHECK(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
    }
    void add(std::span<const std::byte> bytes) {
        CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
    }
    std::string hex() {
        std::array<unsigned char, 32> digest;
        CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1);
        std::string text;
        for (const unsigned char byte : digest) text += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
        return text;
    }

 private:
    std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

std::string model_hash(const model_file& file) {
    constexpr std::uint64_t pages = 64, page = 4096;
    sha256 hash;
    for (const auto& [header, data] : file.regions()) {
        hash.add(header);
        const std::uint64_t size = header.size() + data.size();
        hash.add(std::as_bytes(std::span(&size, 1)));
        for (std::uint64_t i = 0; i < pages && !data.empty(); ++i) {
            const std::uint64_t last = data.size() - std::min<std::uint64_t>(page, data.size());
            hash.add(data.subspan(last / (pages - 1) * i + last % (pages - 1) * i / (pages - 1),
                std::min<std::uint64_t>(page, data.size())));
        }
    }
    return hash.hex();
}

model_info read_info(const model_file& file, std::string_view architecture, const decoder_dims& d) {
    model_info info;
    info.architecture = architecture;
    const auto name = file.get_string("general.name");
    info.name = name && *name ? std::string(**name) : info.architecture;
    info.quantization = quantization(file);
    for (const model_tensor& t : file.tensors()) {
        info.n_params += t.rows() * t.cols();
        info.weight_bytes += static_cast<std::int64_t>(t.bytes());
    }
    info.n_layers = d.n_layers;
    info.n_embd = d.n_embd;
    info.n_heads = d.n_heads;
    info.n_kv_heads = d.n_kv_heads;
    info.head_dim = d.head_dim;
    info.n_ff = d.n_ff;
    info.n_vocab = d.n_vocab;
    info.n_ctx_train = d.n_ctx_train;
    info.model_hash = model_hash(file);
    return info;
}

}  // namespace troupe::model
