#include "actors/session/stop_strings.hpp"

#include <algorithm>
#include <utility>

#include "core/check.hpp"

namespace troupe::actors {

stop_strings::stop_strings(std::vector<std::string> stops) : stops_(std::move(stops)) {
    for (const auto& s : stops_) CHECK(!s.empty(), "an empty stop string matches everywhere");
}

std::string stop_strings::push(std::string_view text) {
    if (matched_) return {};
    if (stops_.empty()) return std::string(text);
    buffer_ += text;
    auto best_begin = std::string::npos, best_end = std::string::npos;
    for (const auto& s : stops_) {
        const auto begin = buffer_.find(s);
        if (begin == std::string::npos) continue;
        const auto end = begin + s.size();
        if (end < best_end || (end == best_end && begin < best_begin)) {
            best_begin = begin;
            best_end = end;
            which_ = s;
        }
    }
    matched_ = best_begin != std::string::npos;
    const std::size_t certain = matched_ ? best_begin : buffer_.size() - held_back();
    std::string out = buffer_.substr(0, certain);
    buffer_ = matched_ ? std::string() : buffer_.substr(certain);
    return out;
}

/// Length of the longest end of the buffer that begins a stop string.
std::size_t stop_strings::held_back() const {
    std::size_t longest = 0;
    const std::string_view b = buffer_;
    for (const auto& s : stops_) {
        for (auto n = std::min(s.size() - 1, b.size()); n > longest; --n)
            if (b.substr(b.size() - n) == std::string_view(s).substr(0, n)) {
                longest = n;
                break;
            }
    }
    return longest;
}

std::string stop_strings::flush() { return std::exchange(buffer_, {}); }

}  // namespace troupe::actors
