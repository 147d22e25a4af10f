// Each source is a small class behind a factory.
#include "model/formats/hf_sources.hpp"

#include <cstring>

#include "core/check.hpp"
#include "model/formats/gguf_parse.hpp"

namespace troupe::model::detail {

namespace {

std::size_t row_size(const model_tensor& t) { return kernels::row_bytes(t.type, t.cols()); }

void read(const model_tensor& t, std::int64_t first, std::int64_t n, std::byte* out) {
    if (t.source) return t.source->read_rows(first, n, out);
    const auto size = row_size(t);
    std::memcpy(out, t.data.data() + static_cast<std::size_t>(first) * size, static_cast<std::size_t>(n) * size);
}

/// Where value or row r of heads in GGUF's order lies in Hugging Face's.
std::int64_t before_pairing(std::int64_t r, std::int64_t head) {
    const std::int64_t within = r % head;
    return r - within + within % 2 * (head / 2) + within / 2;
}

class fixed_values final : public tensor_source {
 public:
    explicit fixed_values(std::vector<float> numbers) : numbers_(std::move(numbers)) {}
    void read_rows(std::int64_t first, std::int64_t n, std::byte* out) const override {
        CHECK(first == 0 && n == 1, "a vector is one row");
        std::memcpy(out, numbers_.data(), numbers_.size() * sizeof(float));
    }

 private:
    std::vector<float> numbers_;
};

class incremented final : public tensor_source {
 public:
    explicit incremented(model_tensor t) : from_(std::move(t)) {}
    void read_rows(std::int64_t first, std::int64_t n, std::byte* out) const override {
        std::vector<float> values(static_cast<std::size_t>(n * from_.cols()));
        kernels::dequantize(from_.type, from_.data.data() + static_cast<std::size_t>(first) * row_size(from_),
            n * from_.cols(), values.data());
        for (float& v : values) v += 1;
        std::memcpy(out, values.data(), values.size() * sizeof(float));
    }

 private:
    model_tensor from_;
};

class paired final : public tensor_source {
 public:
    paired(model_tensor t, std::int64_t head) : from_(std::move(t)), head_(head) {}
    void read_rows(std::int64_t first, std::int64_t n, std::byte* out) const override {
        const auto size = row_size(from_);
        for (std::int64_t r = first; r < first + n; ++r, out += size) read(from_, before_pairing(r, head_), 1, out);
    }

 private:
    model_tensor from_;
    std::int64_t head_;
};

class paired_vector final : public tensor_source {
 public:
    paired_vector(model_tensor t, std::int64_t head) : from_(std::move(t)), head_(head) {}
    void read_rows(std::int64_t first, std::int64_t n, std::byte* out) const override {
        CHECK(first == 0 && n == 1, "a vector is one row");
        const std::size_t size = kernels::row_bytes(from_.type, 1);
        for (std::int64_t i = 0; i < from_.cols(); ++i, out += size)
            std::memcpy(out, from_.data.data() + static_cast<std::size_t>(before_pairing(i, head_)) * size, size);
    }

 private:
    model_tensor from_;
    std::int64_t head_;
};

class stack final : public tensor_source {
 public:
    explicit stack(std::vector<model_tensor> tensors) : tensors_(std::move(tensors)) {}
    void read_rows(std::int64_t first, std::int64_t n, std::byte* out) const override {
        const std::int64_t each = tensors_[0].rows();
        while (n > 0) {
            const std::int64_t within = first % each, count = std::min(n, each - within);
            read(tensors_[static_cast<std::size_t>(first / each)], within, count, out);
            first += count;
            n -= count;
            out += static_cast<std::size_t>(count) * row_size(tensors_[0]);
        }
    }

 private:
    std::vector<model_tensor> tensors_;
};

class awq_source final : public tensor_source {
 public:
    explicit awq_source(const awq_parts& parts) : p_(parts), type_(awq_type(parts.group)) {}
    void read_rows(std::int64_t first, std::int64_t n, std::byte* out) const override;

 private:
    /// The 4 bits of output r in row `line` of qweight or qzeros.
    std::uint32_t nibble(std::span<const std::byte> words, std::int64_t line, std::int64_t r) const {
        const std::int64_t word = line * (p_.rows / 8) + r / 8, column = r % 8;
        const std::int64_t position = column % 2 * 4 + column / 2;
        return load_le<std::uint32_t>(words.data() + word * 4) >> (4 * position) & 15;
    }

    awq_parts p_;
    kernels::dtype type_;
};

void awq_source::read_rows(std::int64_t first, std::int64_t n, std::byte* out) const {
    const std::size_t row = kernels::row_bytes(type_, p_.cols), block = kernels::row_bytes(type_, p_.group);
    std::memset(out, 0, static_cast<std::size_t>(n) * row);
    for (std::int64_t g = 0; g < p_.cols / p_.group; ++g) {
        for (std::int64_t i = 0; i < n; ++i) {
            std::byte* b = out + static_cast<std::size_t>(i) * row + static_cast<std::size_t>(g) * block;
            std::memcpy(b, p_.scales.data() + (g * p_.rows + first + i) * 2, 2);
            b[2] = static_cast<std::byte>(p_.zeros.empty() ? 8 : nibble(p_.zeros, g, first + i));
        }
        // Input by input, so that the words of neighbouring outputs are read while they are in the cache.
        for (std::int64_t k = 0; k < p_.group; ++k) {
            const std::size_t at =
                static_cast<std::size_t>(g) * block + 4 + static_cast<std::size_t>(k / 32 * 16 + k % 16);
            const int shift = k % 32 < 16 ? 0 : 4;
            for (std::int64_t i = 0; i < n; ++i)
                out[static_cast<std::size_t>(i) * row + at] |=
                    static_cast<std::byte>(nibble(p_.weight, g * p_.group + k, first + i) << shift);
        }
    }
}

}  // namespace

source values(std::vector<float> numbers) { return std::make_shared<fixed_values>(std::move(numbers)); }
source plus_one(const model_tensor& t) { return std::make_shared<incremented>(t); }
source paired_rows(const model_tensor& t, std::int64_t head) { return std::make_shared<paired>(t, head); }
source paired_values(const model_tensor& t, std::int64_t head) { return std::make_shared<paired_vector>(t, head); }
source stacked(std::vector<model_tensor> tensors) { return std::make_shared<stack>(std::move(tensors)); }
source awq_matrix(const awq_parts& parts) { return std::make_shared<awq_source>(parts); }

kernels::dtype awq_type(std::int64_t group) {
    CHECK(group == 32 || group == 64 || group == 128);
    return group == 32 ? kernels::dtype::awq_32 : group == 64 ? kernels::dtype::awq_64 : kernels::dtype::awq_128;
}

}  // namespace troupe::model::detail
