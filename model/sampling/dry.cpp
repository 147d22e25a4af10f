#include "model/sampling/dry.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::model {
namespace {

/// Tokens after the last complete breaker of the window; all of it if there is none.
std::int64_t reach(std::span<const token_id> window, const std::vector<std::vector<token_id>>& breakers) {
    const auto n = static_cast<std::int64_t>(window.size());
    if (breakers.empty()) return n;
    const auto by_head = [](const auto& breaker, token_id head) { return breaker.front() < head; };
    for (std::int64_t behind = 0; behind < n; ++behind) {
        const auto rest = window.subspan(static_cast<std::size_t>(n - 1 - behind));
        std::int64_t longest = 0;
        auto it = std::lower_bound(breakers.begin(), breakers.end(), rest.front(), by_head);
        for (; it != breakers.end() && it->front() == rest.front(); ++it) {
            const bool complete = it->size() <= rest.size() && std::equal(it->begin(), it->end(), rest.begin());
            if (complete) longest = std::max(longest, static_cast<std::int64_t>(it->size()));
        }
        if (longest > 0) return behind + 1 - longest;
    }
    return n;
}

/// overlap[k]: how many tokens before position n - k equal the window's last ones (Z function of the reversed window).
void overlaps(std::span<const token_id> window, std::vector<std::int32_t>& overlap) {
    const std::size_t n = window.size();
    const auto reversed = [&](std::size_t i) { return window[n - 1 - i]; };
    overlap.assign(n, 0);
    std::size_t left = 0, right = 0;
    for (std::size_t k = 1; k < n; ++k) {
        std::size_t m = k < right ? std::min(static_cast<std::size_t>(overlap[k - left]), right - k) : 0;
        while (k + m < n && reversed(m) == reversed(k + m)) ++m;
        overlap[k] = static_cast<std::int32_t>(m);
        if (k + m > right) left = k, right = k + m;
    }
}

bool is_breaker(const std::vector<std::vector<token_id>>& breakers, token_id id) {
    const auto it = std::lower_bound(breakers.begin(), breakers.end(), id,
        [](const auto& breaker, token_id head) { return breaker.front() < head; });
    return it != breakers.end() && it->size() == 1 && it->front() == id;  // of one head the shortest stands first
}

}  // namespace

void apply_dry(std::span<float> logits, const dry_params& params, std::span<const token_id> history,
    std::span<std::int32_t> longest, std::vector<std::int32_t>& overlap) {
    if (!params.active()) return;
    auto window = history;
    if (params.last_n > 0 && window.size() > static_cast<std::size_t>(params.last_n))
        window = window.last(static_cast<std::size_t>(params.last_n));
    const auto n = static_cast<std::int64_t>(window.size());
    if (n <= params.allowed_length) return;
    const std::int64_t limit = reach(window, params.breakers);
    if (limit < params.allowed_length) return;
    overlaps(window, overlap);
    const auto next_of = [&](std::size_t k) { return window[static_cast<std::size_t>(n) - k]; };
    const auto in_range = [&](token_id id) { return id >= 0 && static_cast<std::size_t>(id) < longest.size(); };
    for (std::size_t k = 1; k < static_cast<std::size_t>(n); ++k) {
        const auto m = std::min<std::int64_t>(overlap[k], limit);
        if (m < params.allowed_length || !in_range(next_of(k))) continue;
        auto& best = longest[static_cast<std::size_t>(next_of(k))];
        best = std::max(best, static_cast<std::int32_t>(m) + 1);  // + 1: 0 means not met
    }
    constexpr double float_max_log = 88.7228391;
    const double base = params.base;
    const double most = base > 1.000001 ? std::floor(float_max_log / std::log(base)) : 1e9;
    for (std::size_t k = 1; k < static_cast<std::size_t>(n); ++k) {
        const token_id id = next_of(k);
        if (!in_range(id)) continue;
        const std::int32_t m = std::exchange(longest[static_cast<std::size_t>(id)], 0) - 1;
        if (m < 0 || is_breaker(params.breakers, id)) continue;
        const double exponent = std::min<double>(m - params.allowed_length, most);
        logits[static_cast<std::size_t>(id)] -= static_cast<float>(params.multiplier * std::pow(base, exponent));
    }
}

std::vector<std::vector<token_id>> dry_breakers(const tokenizer& vocabulary, std::span<const std::string> texts) {
    constexpr std::size_t longest_tail = 20;  // tokens; a breaker is a mark, not a text
    std::vector<std::vector<token_id>> found;
    for (const auto& text : texts) {
        if (text.empty()) continue;
        for (token_id id = 0; id < vocabulary.n_tokens(); ++id) {
            const std::string_view piece = vocabulary.piece(id);
            if (piece.find(text) != std::string_view::npos) {
                found.push_back({id});
                continue;
            }
            for (std::size_t n = std::min(piece.size(), text.size() - 1); n > 0; --n) {
                if (piece.substr(piece.size() - n) != std::string_view(text).substr(0, n)) continue;
                std::vector<token_id> sequence{id};
                const auto tail = vocabulary.encode(std::string_view(text).substr(n), false, false);
                sequence.insert(sequence.end(), tail.begin(),
                    tail.begin() + static_cast<std::ptrdiff_t>(std::min(tail.size(), longest_tail)));
                found.push_back(std::move(sequence));
            }
        }
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
}

}  // namespace troupe::model
