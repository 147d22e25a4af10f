#include "net/access.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

namespace troupe::net {
namespace {

std::string lower(std::string_view text) {
    std::string r(text);
    std::transform(r.begin(), r.end(), r.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return r;
}

struct host_parts {
    std::string name;
    bool good = false;
};

/// "name", "name:port", "[v6]", "[v6]:port"; anything else is not a host.
host_parts split_host(std::string_view host) {
    const auto digits = [](std::string_view s) {
        return !s.empty() && s.size() <= 5 &&
               std::all_of(s.begin(), s.end(), [](unsigned char c) { return std::isdigit(c); });
    };
    std::string_view name = host, rest;
    if (host.starts_with('[')) {
        const auto end = host.find(']');
        if (end == std::string_view::npos) return {};
        name = host.substr(0, end + 1);
        rest = host.substr(end + 1);
    } else if (const auto colon = host.find(':'); colon != std::string_view::npos) {
        name = host.substr(0, colon);
        rest = host.substr(colon);
    }
    if (!rest.empty() && (rest[0] != ':' || !digits(rest.substr(1)))) return {};
    return {lower(name), !name.empty()};
}

/// A bare IP address cannot be the work of DNS rebinding.
bool is_ip_literal(std::string_view name) {
    if (name.starts_with('[')) return true;
    return !name.empty() &&
           std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) || c == '.'; });
}

std::string digest(std::string_view text) {
    std::array<unsigned char, SHA256_DIGEST_LENGTH> hash;
    SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
    std::string hex;
    for (int i = 0; i < 6; ++i) hex += fmt::format("{:02x}", hash[i]);
    return hex;
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
    std::array<unsigned char, SHA256_DIGEST_LENGTH> x, y;
    SHA256(reinterpret_cast<const unsigned char*>(a.data()), a.size(), x.data());
    SHA256(reinterpret_cast<const unsigned char*>(b.data()), b.size(), y.data());
    return CRYPTO_memcmp(x.data(), y.data(), x.size()) == 0;
}

}  // namespace

bool is_loopback_host(std::string_view host) {
    const auto h = lower(host);
    return h == "localhost" || h == "::1" || h == "[::1]" || (h.starts_with("127.") && is_ip_literal(h));
}

result<std::vector<access_rules::key>> access_rules::read_keys(const config& c) {
    auto texts = c.api_keys;
    if (!c.api_key_file.empty()) {
        std::ifstream file(c.api_key_file);
        if (!file)
            return fail(errc::usage, fmt::format("--api-key-file: cannot open '{}'", c.api_key_file), "api-key-file");
        for (std::string line; std::getline(file, line);) {
            while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
            if (!line.empty() && line[0] != '#') texts.push_back(line);
        }
        // An editor that truncates before it writes must not open the server to everybody.
        if (texts.empty())
            return fail(errc::usage, fmt::format("--api-key-file: '{}' holds no key", c.api_key_file), "api-key-file");
    }
    std::vector<key> keys;
    bool any_admin = false;
    for (auto& text : texts) {
        key k;
        k.who.admin = text.ends_with(":admin");
        k.text = k.who.admin ? text.substr(0, text.size() - 6) : text;
        if (k.text.empty()) return fail(errc::usage, "--api-key: a key must not be empty", "api-key");
        k.who.name = "key:" + digest(k.text);
        any_admin |= k.who.admin;
        keys.push_back(std::move(k));
    }
    if (!keys.empty() && !any_admin) keys.front().who.admin = true;
    return keys;
}

result<std::shared_ptr<access_rules>> access_rules::make(const config& c, bool tls) {
    auto rules = std::make_shared<access_rules>();
    rules->config_ = c;
    rules->tls_ = tls;
    TROUPE_TRY(rules->keys_, read_keys(c));
    if (!is_loopback_host(c.host) && rules->keys_.empty())
        return fail(errc::usage,
            fmt::format("--host {} is reachable from other machines: give --api-key or --api-key-file as well", c.host),
            "host");
    return rules;
}

result<void> access_rules::reload() {
    TROUPE_TRY(auto keys, read_keys(config_));
    const std::lock_guard lock(mutex_);
    keys_ = std::move(keys);
    return {};
}

bool access_rules::host_allowed(std::string_view host) const {
    const auto parts = split_host(host);
    if (!parts.good) return false;
    if (parts.name == "127.0.0.1" || parts.name == "localhost" || parts.name == "[::1]") return true;
    for (const auto& allowed : config_.allowed_hosts)
        if (parts.name == lower(allowed) || lower(host) == lower(allowed)) return true;
    if (parts.name == lower(config_.host)) return true;
    if (is_loopback_host(config_.host)) return false;
    return is_ip_literal(parts.name);
}

bool access_rules::origin_allowed(std::string_view origin, std::string_view host) const {
    if (origin.empty()) return true;
    if (lower(origin) == (tls_ ? "https://" : "http://") + lower(host)) return true;
    return std::any_of(config_.allowed_origins.begin(), config_.allowed_origins.end(),
        [&](const std::string& allowed) { return lower(allowed) == lower(origin); });
}

bool access_rules::keys_set() const {
    const std::lock_guard lock(mutex_);
    return !keys_.empty();
}

std::optional<access_rules::identity> access_rules::authenticate(std::string_view text) const {
    const std::lock_guard lock(mutex_);
    if (keys_.empty()) return identity{"", true};
    std::optional<identity> found;
    for (const auto& k : keys_)  // every key is compared, so that time tells nothing
        if (equal_in_constant_time(k.text, text)) found = k.who;
    return found;
}

std::string_view access_rules::bearer(std::string_view authorization) {
    constexpr std::string_view scheme = "bearer ";
    if (authorization.size() < scheme.size() || lower(authorization.substr(0, scheme.size())) != scheme) return {};
    auto key = authorization.substr(scheme.size());
    while (key.starts_with(' ')) key.remove_prefix(1);
    return key;
}

}  // namespace troupe::net
