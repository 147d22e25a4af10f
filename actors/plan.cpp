#include "actors/plan.hpp"

#include <bit>
#include <cstring>

#include "core/check.hpp"

namespace troupe::actors {

static_assert(std::endian::native == std::endian::little, "ids travel in the machine's order");

namespace {

template <class T> std::string pack(const std::vector<T>& values) {
    std::string bytes(values.size() * sizeof(T), '\0');
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

template <class T> std::vector<T> unpack(const std::string& bytes) {
    CHECK(bytes.size() % sizeof(T) == 0);
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

template <class T> void append(std::string& bytes, T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

std::string pack_ids(const std::vector<token_id>& ids) { return pack(ids); }
std::vector<token_id> unpack_ids(const std::string& bytes) { return unpack<token_id>(bytes); }
std::string pack_floats(const std::vector<float>& values) { return pack(values); }
std::vector<float> unpack_floats(const std::string& bytes) { return unpack<float>(bytes); }

void append_score(std::string& bytes, const token_score& s) {
    append(bytes, s.logprob);
    append(bytes, static_cast<std::int32_t>(s.top.size()));
    for (const auto& e : s.top) {
        append(bytes, e.id);
        append(bytes, e.logprob);
    }
}

std::vector<token_score> unpack_scores(const std::string& bytes) {
    std::vector<token_score> scores;
    std::size_t at = 0;
    const auto take = [&](auto& x) {
        CHECK(bytes.size() - at >= sizeof x);
        std::memcpy(&x, bytes.data() + at, sizeof x);
        at += sizeof x;
    };
    while (at < bytes.size()) {
        auto& s = scores.emplace_back();
        std::int32_t n = 0;
        take(s.logprob);
        take(n);
        CHECK(n >= 0);
        for (; n > 0; --n) {
            auto& e = s.top.emplace_back();
            take(e.id);
            take(e.logprob);
        }
    }
    return scores;
}

model::kv_layout layout_of(const executor_info& info) {
    const std::size_t n = info.group_window.size();
    CHECK(info.group_layers.size() == n && info.group_block_bytes.size() == n && info.group_latent.size() == n);
    model::kv_layout layout;
    layout.type = static_cast<kernels::dtype>(info.kv_type);
    layout.segment_bytes = info.segment_bytes;
    for (std::size_t g = 0; g < n; ++g) {
        const auto bytes = info.group_block_bytes[g];
        CHECK(bytes > 0 && bytes <= info.segment_bytes);
        layout.groups.push_back({info.group_window[g], info.group_layers[g], bytes,
            static_cast<std::uint32_t>(info.segment_bytes / bytes), info.group_latent[g]});
    }
    return layout;
}

}  // namespace troupe::actors
