// One declaration an option: flag, TOML key, environment variable, help and configs/default.toml all come from this
// table.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/config.hpp"
#include "core/result.hpp"

namespace troupe {

struct option {
    using text_list = std::vector<std::string>;
    /// Where the value goes. A uint64 is a SIZE (bytes, or a number with K, M, G: powers of 1024).
    using target = std::variant<std::string config::*, std::int64_t config::*, std::uint64_t config::*, bool config::*,
        text_list config::*, std::optional<double> generation_params::*,
        std::optional<std::int32_t> generation_params::*>;

    std::string_view name;         ///< flag without dashes: "kv-type"; TOML key and variable follow from it
    std::string_view short_name;   ///< "m", or empty
    std::string_view placeholder;  ///< "PATH"; empty for a switch
    std::string_view help;         ///< one sentence, also the comment in default.toml
    target where;
    double min = 0, max = 0;                     ///< numbers: allowed range, both ends included
    std::vector<std::string_view> choices = {};  ///< texts: allowed values; empty: any
    std::string_view section = {};               ///< heading in help and default.toml

    std::string key() const;       ///< "kv_type"
    std::string variable() const;  ///< "TROUPE_KV_TYPE"
    bool repeatable() const { return std::holds_alternative<text_list config::*>(where); }
    bool is_switch() const { return std::holds_alternative<bool config::*>(where) && choices.empty(); }
};

std::span<const option> options();
const option* find_option(std::string_view name);  ///< by flag name; null if unknown

/// Parses `text` and stores it. errc::usage naming option, value and allowed range. Repeatable options append.
result<void> set_option(config& c, const option& o, std::string_view text);
/// The value as set_option would read it back; repeatable ones joined by commas.
std::string get_option(const config& c, const option& o);

/// Bytes, or a number with K, M, G.
result<std::uint64_t> parse_size(std::string_view text);

using flag_values = std::vector<std::pair<const option*, std::vector<std::string>>>;
/// Flag over environment over file over default. Unknown keys, wrong types and values out of range are errc::usage.
/// Directories left empty are resolved from the environment (XDG).
result<config> resolve_config(const flag_values& flags, const std::optional<std::filesystem::path>& file);

/// Applies a TOML text (keys of the table only).
result<void> apply_toml(config& c, std::string_view text, std::string_view file_name);
/// What configs/default.toml holds.
std::string default_toml();

}  // namespace troupe
