#include "net/url.hpp"

#include <algorithm>

namespace troupe::net {
namespace {

int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

std::string decode(std::string_view text, bool plus_is_space) {
    std::string r;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0) {
            r += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
            i += 2;
        } else {
            r += plus_is_space && text[i] == '+' ? ' ' : text[i];
        }
    }
    return r;
}

}  // namespace

url_target split_target(std::string_view target) {
    url_target u;
    target = target.substr(0, target.find('#'));
    // The absolute form (RFC 9112, 3.2.2): what it says of the host is checked through the Host field.
    for (const std::string_view scheme : {"http://", "https://"})
        if (target.starts_with(scheme)) {
            const auto slash = target.find('/', scheme.size());
            target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
            break;
        }
    const auto question = target.find('?');
    u.path = decode(target.substr(0, question), false);
    if (question == std::string_view::npos) return u;
    auto rest = target.substr(question + 1);
    while (!rest.empty()) {
        const auto end = std::min(rest.find('&'), rest.size());
        const auto pair = rest.substr(0, end);
        const auto equals = std::min(pair.find('='), pair.size());
        if (!pair.empty())
            u.query[decode(pair.substr(0, equals), true)] =
                decode(pair.substr(std::min(equals + 1, pair.size())), true);
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return u;
}

}  // namespace troupe::net
