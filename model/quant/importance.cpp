// The files are hostile: lengths are compared with what is left before anything is allocated.
#include "model/quant/importance.hpp"

#include <cmath>
#include <cstring>

#include "model/formats/gguf_parse.hpp"
#include "model/formats/mapped_file.hpp"

namespace troupe::model {
namespace {

error malformed(const std::string& what) {
    return fail(errc::model_malformed, "importance matrix: " + what, "imatrix");
}

result<void> check_values(const std::string& name, const std::vector<float>& values) {
    for (const float v : values)
        if (!std::isfinite(v) || v < 0)
            return malformed("the entry of " + detail::printable_name(name) + " holds a value that no mean square is");
    return {};
}

/// Sums of squares and the number of rows they were taken over, for each expert.
result<std::vector<float>> means(const std::string& name, const model_tensor& sums, const model_tensor& counts) {
    if (sums.type != kernels::dtype::f32 || counts.type != kernels::dtype::f32)
        return malformed("sums and counts of " + detail::printable_name(name) + " are not f32");
    const auto n = static_cast<std::size_t>(sums.cols() * sums.rows());
    const auto experts = static_cast<std::size_t>(counts.cols() * counts.rows());
    if (n % experts != 0) return malformed("sums and counts of " + detail::printable_name(name) + " do not match");
    std::vector<float> values(n), rows(experts);
    std::memcpy(values.data(), sums.data.data(), n * sizeof(float));
    std::memcpy(rows.data(), counts.data.data(), experts * sizeof(float));
    const std::size_t cols = n / experts;
    // An expert that was never chosen has no sums: its columns count alike.
    for (std::size_t i = 0; i < n; ++i) values[i] = rows[i / cols] > 0 ? values[i] / rows[i / cols] : 1.0f;
    return values;
}

result<importance_matrix> from_gguf(const gguf_file& file) {
    importance_matrix m;
    TROUPE_TRY(const auto kind, file.get_string("general.type"));
    if (kind && *kind != "imatrix") return malformed("the file is a " + detail::printable_name(*kind));
    TROUPE_TRY(const auto sets, file.get_strings("imatrix.datasets"));
    if (sets && !sets->empty()) m.dataset = sets->front();
    TROUPE_TRY(const auto chunks, file.get_uint("imatrix.chunk_count"));
    m.chunks = static_cast<std::uint32_t>(chunks.value_or(0));
    constexpr std::string_view sums_end = ".in_sum2", counts_end = ".counts";
    for (const model_tensor& t : file.tensors()) {
        if (!t.name.ends_with(sums_end)) continue;
        const std::string name = t.name.substr(0, t.name.size() - sums_end.size());
        const model_tensor* counts = file.tensor(name + std::string(counts_end));
        if (counts == nullptr) return malformed("no counts for " + detail::printable_name(name));
        TROUPE_TRY(auto values, means(name, t, *counts));
        TROUPE_TRYV(check_values(name, values));
        m.entries.emplace(name, std::move(values));
    }
    if (m.entries.empty()) return malformed("the file holds no '*.in_sum2' tensor");
    return m;
}

/// Reads the old format front to back.
class old_reader {
 public:
    explicit old_reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    bool at_end() const { return bytes_.empty(); }
    result<std::int32_t> number() {
        TROUPE_TRY(const auto taken, take(sizeof(std::int32_t)));
        return detail::load_le<std::int32_t>(taken.data());
    }
    /// A length that is at least `lowest`.
    result<std::size_t> length(std::int32_t lowest) {
        TROUPE_TRY(const auto n, number());
        if (n < lowest) return malformed("a length of " + std::to_string(n));
        return static_cast<std::size_t>(n);
    }
    result<std::span<const std::byte>> take(std::size_t n) {
        if (n > bytes_.size()) return malformed("the file ends too early");
        const auto taken = bytes_.first(n);
        bytes_ = bytes_.subspan(n);
        return taken;
    }

 private:
    std::span<const std::byte> bytes_;
};

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

result<importance_matrix> from_old_format(std::span<const std::byte> bytes) {
    importance_matrix m;
    old_reader in(bytes);
    TROUPE_TRY(const auto n_entries, in.length(1));
    for (std::size_t i = 0; i < n_entries; ++i) {
        TROUPE_TRY(const auto name_bytes, in.length(1));
        TROUPE_TRY(const auto name_text, in.take(name_bytes));
        TROUPE_TRY(const auto calls, in.number());
        TROUPE_TRY(const auto n, in.length(1));
        TROUPE_TRY(const auto data, in.take(n * sizeof(float)));
        std::vector<float> values(n);
        std::memcpy(values.data(), data.data(), n * sizeof(float));
        if (calls > 0)
            for (float& v : values) v /= static_cast<float>(calls);
        const std::string name = text_of(name_text);
        TROUPE_TRYV(check_values(name, values));
        if (!m.entries.emplace(name, std::move(values)).second)
            return malformed(detail::printable_name(name) + " occurs twice");
    }
    if (in.at_end()) return m;
    TROUPE_TRY(const auto chunks, in.length(0));
    m.chunks = static_cast<std::uint32_t>(chunks);
    if (in.at_end()) return m;
    TROUPE_TRY(const auto dataset_bytes, in.length(0));
    TROUPE_TRY(const auto dataset, in.take(dataset_bytes));
    m.dataset = text_of(dataset);
    return m;
}

}  // namespace

std::span<const float> importance_matrix::find(std::string_view tensor) const {
    const auto found = entries.find(tensor);
    return found == entries.end() ? std::span<const float>() : std::span<const float>(found->second);
}

result<importance_matrix> parse_importance(std::span<const std::byte> bytes) {
    if (bytes.size() >= 4 && std::memcmp(bytes.data(), "GGUF", 4) == 0) {
        TROUPE_TRY(const auto file, gguf_file::parse(bytes));
        return from_gguf(*file);
    }
    return from_old_format(bytes);
}

result<importance_matrix> read_importance(const std::filesystem::path& path) {
    TROUPE_TRY(const auto file, mapped_file::open(path));
    return parse_importance(file->bytes());
}

}  // namespace troupe::model
