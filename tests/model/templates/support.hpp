// Data and short-hands the template tests share.
#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include "model/templates/chat_template.hpp"

namespace troupe::model::testing {

namespace json = boost::json;

/// 2024-07-26 12:34:56 UTC, the clock of the goldens.
constexpr std::int64_t golden_now = 1721997296;

inline std::string environment(const char* name) {
    const char* v = std::getenv(name);
    return v == nullptr ? "" : v;
}

/// The whole file; a missing one fails the test.
inline std::string read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    EXPECT_TRUE(in.good()) << path;
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

inline json::value read_json(const std::string& name) {
    json::parse_options options;
    options.max_depth = 200;
    return json::parse(read_file(environment("TROUPE_SOURCE_DIR") + "/tests/data/templates/" + name), {}, options);
}

/// Source of a golden template: the project's own lie with the tests, third-party ones come out of the test cache
/// (tests/data/templates/published.json says from which file). Empty if it is missing, which fails the test.
std::string template_source(const std::string& name);

/// Renders `source`; a parse failure is returned as the error too.
inline result<std::vector<text_part>> render(
    const std::string& source, const json::object& context, template_budget budget = {}) {
    TROUPE_TRY(const auto parsed, chat_template::parse(source, budget));
    return parsed->render(context, golden_now);
}

inline std::string render_text(const std::string& source, const json::object& context = {}) {
    const auto r = render(source, context);
    return r ? join(*r) : "ERROR " + r.error().message;
}

/// The parts with the user's in angle quotes.
inline std::string render_marked(const std::string& source, const json::object& context) {
    const auto r = render(source, context);
    if (!r) return "ERROR " + r.error().message;
    std::string out;
    for (const auto& p : *r) out += p.from_user ? "‹" + p.text + "›" : p.text;
    return out;
}

}  // namespace troupe::model::testing
