#include "model/evaluation/logits_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "core/check.hpp"

namespace troupe::model {
namespace {

constexpr std::string_view magic = "_logits_";
constexpr float depth = 16;        ///< log-probabilities further below the best one are cut off
constexpr float levels = 65535;    ///< steps between the lowest and the best
constexpr std::size_t n_head = 4;  ///< uint16 values that step and lowest take

error bad_file(const std::string& path, const std::string& what) {
    return fail(errc::usage, "'" + path + "' " + what, "kl-divergence-base");
}

template <class T> void put(std::ofstream& out, const T* values, std::size_t n) {
    out.write(reinterpret_cast<const char*>(values), static_cast<std::streamsize>(n * sizeof(T)));
}

template <class T> bool get(std::ifstream& in, T* values, std::size_t n) {
    in.read(reinterpret_cast<char*>(values), static_cast<std::streamsize>(n * sizeof(T)));
    return in.good();
}

}  // namespace

void pack_log_probabilities(std::span<const float> logits, std::span<std::uint16_t> row) {
    CHECK(row.size() >= logits.size() + n_head);
    const auto [low, high] = std::minmax_element(logits.begin(), logits.end());
    const float best = *high, lowest = std::max(*low, best - depth);
    double sum = 0;
    for (const float z : logits) sum += std::exp(z - best);
    const float head[2] = {(best - lowest) / levels, lowest - best - static_cast<float>(std::log(sum))};
    std::memcpy(row.data(), head, sizeof head);
    const float scale = head[0] > 0 ? 1 / head[0] : 0;
    auto* value = row.data() + n_head;
    for (const float z : logits)
        *value++ = static_cast<std::uint16_t>(std::min(std::max(scale * (z - lowest), 0.0f) + 0.5f, levels));
    std::fill(value, row.data() + row.size(), std::uint16_t{0});
}

packed_row::packed_row(std::span<const std::uint16_t> row) : values_(row.data() + n_head) {
    float head[2];
    std::memcpy(head, row.data(), sizeof head);
    step_ = head[0];
    lowest_ = head[1];
}

result<logits_writer> logits_writer::create(const std::string& path, const logits_header& header) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    if (!out) return fail(errc::io, "cannot write '" + path + "'", "kl-divergence-base");
    logits_writer w(path, std::move(out));
    put(w.out_, magic.data(), magic.size());
    const std::int32_t numbers[3] = {header.n_ctx, header.n_vocab, header.n_chunks};
    put(w.out_, numbers, 3);
    put(w.out_, header.tokens.data(), header.tokens.size());
    TROUPE_TRYV(w.checked());
    return w;
}

result<void> logits_writer::write(std::span<const std::uint16_t> rows) {
    put(out_, rows.data(), rows.size());
    return checked();
}

result<void> logits_writer::finish() {
    out_.flush();
    return checked();
}

result<void> logits_writer::checked() {
    if (out_) return {};
    return fail(errc::io, "writing '" + path_ + "' failed; is the disk full?", "kl-divergence-base");
}

result<logits_reader> logits_reader::open(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::error_code ec;
    const auto bytes = std::filesystem::file_size(path, ec);
    if (!in || ec) return bad_file(path, "cannot be read");
    char start[8] = {};
    std::int32_t numbers[3] = {};
    if (!get(in, start, sizeof start) || std::string_view(start, sizeof start) != magic)
        return bad_file(path, "holds no log-probabilities of llama-perplexity's format");
    if (!get(in, numbers, 3)) return bad_file(path, "is cut off");
    logits_header h;
    h.n_ctx = numbers[0];
    h.n_vocab = numbers[1];
    h.n_chunks = numbers[2];
    constexpr std::int32_t most = 1 << 24;
    if (h.n_ctx < 4 || h.n_ctx > most || h.n_vocab < 1 || h.n_vocab > most || h.n_chunks < 1 || h.n_chunks > most)
        return bad_file(path, "names a context, vocabulary or number of chunks that cannot be");
    const auto chunks = static_cast<std::uint64_t>(h.n_chunks);
    const std::uint64_t chunk_bytes =
        static_cast<std::uint64_t>(h.n_ctx) * sizeof(token_id) +
        static_cast<std::uint64_t>(h.rows_per_chunk()) * h.row_words() * sizeof(std::uint16_t);
    if (bytes < sizeof start + sizeof numbers + chunks * chunk_bytes) return bad_file(path, "is cut off");
    h.tokens.resize(chunks * static_cast<std::uint64_t>(h.n_ctx));
    if (!get(in, h.tokens.data(), h.tokens.size())) return bad_file(path, "is cut off");
    for (const auto id : h.tokens)
        if (id < 0 || id >= h.n_vocab) return bad_file(path, "holds a token that its vocabulary does not have");
    return logits_reader(path, std::move(in), std::move(h));
}

result<void> logits_reader::read(std::span<std::uint16_t> rows) {
    if (!get(in_, rows.data(), rows.size())) return bad_file(path_, "is cut off");
    return {};
}

}  // namespace troupe::model
