// Shapes -> rules. A place that is reached again (recursion) is a reference to the rule it already has.
#include "model/grammar/json_schema.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "core/limits.hpp"
#include "model/grammar/gbnf.hpp"
#include "model/grammar/pattern.hpp"
#include "model/grammar/schema_shape.hpp"
#include "model/tokenizers/utf8.hpp"

namespace troupe::model {
namespace json = boost::json;
namespace {

constexpr std::size_t most_schema_rules = 20'000;
constexpr std::int64_t most_listed_numbers = 1000;
constexpr std::int64_t most_divisor = 100, most_multiple = 1'000'000'000;
constexpr int most_nesting = 200;          ///< of schemas that are rules of their own
constexpr std::size_t longest_name = 256;  ///< of a property beside which others are allowed

/// Without Feb 29: which years have one is more than it is worth.
constexpr std::string_view date_rule =
    R"([0-9]{4} "-" (("0" [13578] | "1" [02]) "-" ("0" [1-9] | [12] [0-9] | "3" [01]) | ("0" [469] | "11") "-" ("0" [1-9] | [12] [0-9] | "30") | "02-" ("0" [1-9] | "1" [0-9] | "2" [0-8])))";
constexpr std::string_view time_rule =
    R"(([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{1,9})? ("Z" | [-+] ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9]))";
constexpr std::string_view uuid_rule =
    R"([0-9a-f]{8} "-" [0-9a-f]{4} "-" [0-9a-f]{4} "-" [0-9a-f]{4} "-" [0-9a-f]{12})";

/// Compact JSON whose numbers look as people write them.
std::string compact(const json::value& v) {
    if (v.is_string()) return json_quoted(std::string_view(v.get_string()));
    if (v.is_double()) {
        const auto d = v.get_double();
        return d == std::floor(d) && std::abs(d) < 1e15 ? fmt::format("{:.0f}", d) : fmt::format("{}", d);
    }
    std::vector<std::string> parts;
    if (v.is_array()) {
        for (const auto& e : v.get_array()) parts.push_back(compact(e));
        return fmt::format("[{}]", fmt::join(parts, ","));
    }
    if (v.is_object()) {
        for (const auto& e : v.get_object())
            parts.push_back(json_quoted(std::string_view(e.key())) + ":" + compact(e.value()));
        return fmt::format("{{{}}}", fmt::join(parts, ","));
    }
    return json::serialize(v);
}

class writer {
 public:
    writer(const json::value& document, rule_book& rules) : reader_(document), rules_(rules) {}

    result<std::string> rule_for(const schema_list& all, unsigned types = json_types::all) {
        std::vector<const json::value*> key;
        for (const auto& p : all) {
            if (p.schema->is_bool() && p.schema->get_bool()) continue;
            key.push_back(p.schema);
        }
        std::sort(key.begin(), key.end());
        key.erase(std::unique(key.begin(), key.end()), key.end());
        if (key.empty() && types == json_types::all) return rules_.common("value");
        const auto [known, fresh] = done_.emplace(std::pair(types, key), std::string());
        if (!fresh) return known->second;
        const auto name = known->second = rules_.reserve();
        if (done_.size() > most_schema_rules || rules_.bytes() > limits::max_grammar_bytes)
            return fail(errc::unsupported_parameter, "the schema makes too large a grammar");
        if (++nesting_ > most_nesting) return unsupported("so deep a nest of schemas", all[0].path);
        TROUPE_TRY(const auto shapes, reader_.shapes(all));
        std::vector<std::string> ways;
        for (auto s : shapes) {
            s.types &= types;
            TROUPE_TRYV(add_ways(s, ways));
        }
        std::sort(ways.begin(), ways.end());
        ways.erase(std::unique(ways.begin(), ways.end()), ways.end());
        if (ways.empty()) ways.push_back(rules_.common("never"));
        rules_.set(name, fmt::format("{}", fmt::join(ways, " | ")));
        --nesting_;
        return name;
    }

 private:
    static error unsupported(const std::string& what, const std::string& path) {
        return fail(errc::unsupported_parameter, fmt::format("{} at {} is not supported", what, path));
    }
    const std::string& ws() { return rules_.common("ws"); }

    result<void> add_ways(const schema_shape& s, std::vector<std::string>& ways) {
        if (s.values) {
            for (const auto& v : *s.values) {
                TROUPE_TRY(const bool good, reader_.holds(v, s));
                if (good) ways.push_back(gbnf_literal(compact(v)));
            }
            return {};
        }
        if (s.types & json_types::null) ways.emplace_back("\"null\"");
        if (s.types & json_types::boolean) ways.emplace_back("\"true\" | \"false\"");
        if (s.types & json_types::number) {
            TROUPE_TRY(auto n, number(s));
            if (!n.empty()) ways.push_back(std::move(n));
        }
        if (s.types & json_types::string) {
            TROUPE_TRY(ways.emplace_back(), text(s));
        }
        if (s.types & json_types::array) {
            TROUPE_TRY(ways.emplace_back(), array(s));
        }
        if (s.types & json_types::object) {
            TROUPE_TRY(ways.emplace_back(), object(s));
        }
        return {};
    }

    // -- numbers
    result<std::string> number(const schema_shape& s) {
        if (!s.multiples.empty()) return multiples(s);
        if (s.types & json_types::fraction) {
            // "number" with fractions; schemas cannot ask for fractions alone.
            if (!s.minimum && !s.maximum) return rules_.common("number");
            return numbers_between(s.minimum, s.maximum);
        }
        const auto lo = first_integer(s.minimum), hi = last_integer(s.maximum);
        if (lo > hi) return std::string();
        if (!s.minimum && !s.maximum) return rules_.common("integer");
        return integers_between(lo, hi);
    }

    result<std::string> multiples(const schema_shape& s) {
        std::int64_t m = 1;
        for (const auto x : s.multiples) {
            m = std::lcm(m, x);
            if (m > most_multiple) return unsupported("so large a 'multipleOf'", s.path);
        }
        const auto lo = first_integer(s.minimum), hi = last_integer(s.maximum);
        if (lo > hi) return std::string();
        // Multiples k * m with lo <= k * m <= hi.
        const auto first = lo >= 0 ? (lo + m - 1) / m : -(-lo / m), last = hi >= 0 ? hi / m : -((-hi + m - 1) / m);
        if (first > last) return std::string();
        if (last - first < most_listed_numbers) {
            std::vector<std::string> ways;
            for (auto k = first; k <= last; ++k) ways.push_back(fmt::format("\"{}\"", k * m));
            return fmt::format("{}", fmt::join(ways, " | "));
        }
        const bool upper = s.maximum.has_value();
        const bool lower = s.minimum && lo != 0 && lo != 1;
        if (m > most_divisor || upper || lower) return unsupported("'multipleOf' with these bounds", s.path);
        return multiples_of(m, !s.minimum, !s.minimum || lo == 0, rules_);
    }

    // -- strings
    result<std::string> text(const schema_shape& s) {
        const bool lengths = s.min_length > 0 || s.max_length >= 0;
        if (s.patterns.size() > 1) return unsupported("more than one 'pattern'", s.path);
        if (!s.patterns.empty()) {
            if (lengths) return unsupported("'pattern' together with a length", s.patterns[0].path);
            const auto made = grammar_of_pattern(std::string_view(s.patterns[0].schema->get_string()), rules_);
            if (!made) return fail(made.error().code, made.error().message + " at " + s.patterns[0].path + "/pattern");
            return "\"\\\"\" " + *made + " \"\\\"\"";
        }
        if (lengths) {
            if (s.max_length >= 0 && s.max_length < s.min_length) return rules_.common("never");
            if (std::max(s.min_length, s.max_length) > limits::max_grammar_repeat)
                return unsupported("so long a string", s.path);
            const auto times = s.max_length < 0 ? fmt::format("{{{},}}", s.min_length)
                                                : fmt::format("{{{},{}}}", s.min_length, s.max_length);
            return fmt::format("{}", rules_.define(R"("\"" )" + rules_.common("char") + times + R"( "\"")"));
        }
        for (const auto& f : s.formats) {
            const std::string_view name = f.schema->get_string();
            const auto quoted = [&](std::string_view body) {
                return rules_.define(fmt::format(R"("\"" {} "\"")", body));
            };
            if (name == "date") return quoted(date_rule);
            if (name == "time") return quoted(time_rule);
            if (name == "uuid") return quoted(uuid_rule);
            if (name == "date-time") return quoted(fmt::format("{} \"T\" {}", date_rule, time_rule));
        }
        return rules_.common("string");
    }

    // -- arrays
    result<std::string> array(const schema_shape& s) {
        std::size_t listed = 0;
        for (const auto& a : s.arrays) listed = std::max(listed, a.prefix ? a.prefix->size() : 0);
        auto max = s.max_items;
        if (s.unique && (max < 0 || max > 1)) return unsupported("keyword 'uniqueItems'", s.path);
        if (max >= 0 && static_cast<std::size_t>(max) < listed) listed = static_cast<std::size_t>(max);
        if (max >= 0 && max < s.min_items) return rules_.common("never");
        if (std::max(max, s.min_items) > limits::max_grammar_repeat) return unsupported("so long an array", s.path);
        const auto n = static_cast<std::int64_t>(listed);
        std::string tail;  // what follows the listed elements; each with its comma
        if (max < 0 || max > n) {
            TROUPE_TRY(const auto rest, rule_for(element(s, listed)));
            if (n == 0) return repeated(rest, s.min_items, max);
            const auto least = std::max<std::int64_t>(s.min_items - n, 0);
            tail = fmt::format("({} \",\" {} {}){}", ws(), ws(), rest,
                max < 0 ? fmt::format("{{{},}}", least) : fmt::format("{{{},{}}}", least, max - n));
        }
        if (n == 0) return R"("[" )" + ws() + R"( "]")";
        for (auto i = n - 1; i >= 1; --i) {
            TROUPE_TRY(const auto e, rule_for(element(s, static_cast<std::size_t>(i))));
            const auto item = fmt::format("{} \",\" {} {} {}", ws(), ws(), e, tail);
            tail = rules_.define(i < s.min_items ? item : "(" + item + ")?");
        }
        TROUPE_TRY(const auto first, rule_for(element(s, 0)));
        const auto all = fmt::format("{} {} {}", first, tail, ws());
        return fmt::format("\"[\" {} {} \"]\"", ws(), s.min_items > 0 ? all : "(" + all + ")?");
    }
    static schema_list element(const schema_shape& s, std::size_t i) { return schema_reader::element(s, i); }

    std::string repeated(const std::string& item, std::int64_t min, std::int64_t max) {
        if (max == 0) return fmt::format("\"[\" {} \"]\"", ws());
        const auto more = max < 0 ? fmt::format("{{{},}}", std::max<std::int64_t>(min - 1, 0))
                                  : fmt::format("{{{},{}}}", std::max<std::int64_t>(min - 1, 0), max - 1);
        const auto all = fmt::format("{} ({} \",\" {} {}){} {}", item, ws(), ws(), item, more, ws());
        return fmt::format("\"[\" {} {} \"]\"", ws(), min > 0 ? all : "(" + all + ")?");
    }

    // -- objects
    struct member {
        std::string rule;  ///< name, colon and value
        bool required = false;
    };

    result<std::string> object(const schema_shape& s) {
        std::vector<std::string> names;
        const auto add = [&](const std::string& n) {
            if (std::find(names.begin(), names.end(), n) == names.end()) names.push_back(n);
        };
        for (const auto& o : s.objects)
            if (o.properties)
                for (const auto& item : *o.properties) add(std::string(item.key()));
        for (const auto& n : s.required) add(n);
        std::vector<member> members;
        for (const auto& n : names) {
            if (n.size() > longest_name) return unsupported("so long a name", s.path);
            const bool required = std::find(s.required.begin(), s.required.end(), n) != s.required.end();
            TROUPE_TRY(const auto value, rule_for(schema_reader::property(s, n)));
            members.push_back(
                {rules_.define(fmt::format("{} {} \":\" {} {}", gbnf_literal(json_quoted(n)), ws(), ws(), value)),
                    required});
        }
        std::string further;
        if (const auto more = schema_reader::additional(s)) {
            TROUPE_TRY(const auto value, rule_for(*more));
            further = rules_.define(fmt::format("{} {} \":\" {} {}", other_name(names), ws(), ws(), value));
        }
        const auto fixed = static_cast<std::int64_t>(s.required.size());
        const auto most = static_cast<std::int64_t>(members.size());
        if (s.max_properties >= 0 && s.max_properties < fixed) return rules_.common("never");
        const bool bounded = s.max_properties >= 0 && (!further.empty() || s.max_properties < most);
        if (s.min_properties > most && further.empty()) return rules_.common("never");
        // One of free names is one; more could be the same name twice.
        if (s.min_properties > std::max<std::int64_t>(fixed, members.empty() ? 1 : 0))
            return unsupported("'minProperties' that 'required' does not already give", s.path);
        if (bounded && !members.empty()) return unsupported("'maxProperties' beside named properties", s.path);
        if (members.empty() && !further.empty()) return free_object(further, s.min_properties, s.max_properties);
        return fmt::format("\"{{\" {} {} {} \"}}\"", ws(), chain(members, further), ws());
    }

    std::string free_object(const std::string& item, std::int64_t min, std::int64_t max) {
        if (max == 0) return fmt::format("\"{{\" {} \"}}\"", ws());
        const auto all = fmt::format("{} ({} \",\" {} {}){} {}", item, ws(), ws(), item,
            max < 0 ? "*" : fmt::format("{{0,{}}}", std::min<std::int64_t>(max - 1, limits::max_grammar_repeat)), ws());
        return fmt::format("\"{{\" {} {} \"}}\"", ws(), min > 0 ? all : "(" + all + ")?");
    }

    /// The members in order: `first` where nothing stands before, `rest` where a comma is due.
    std::string chain(const std::vector<member>& members, const std::string& further) {
        const auto comma = fmt::format("{} \",\" {} ", ws(), ws());
        std::string rest = further.empty() ? "\"\"" : rules_.define("(" + comma + further + ")*");
        std::string first = further.empty() ? "\"\"" : further + " " + rest + " | \"\"";
        for (auto m = members.rbegin(); m != members.rend(); ++m) {
            first = m->rule + " " + rest + (m->required ? "" : " | " + rules_.define(first));
            rest = rules_.define(m->required ? comma + m->rule + " " + rest : "(" + comma + m->rule + ")? " + rest);
        }
        return rules_.define(first);
    }

    /// A name that is none of `names`, without escapes (which could spell one of them).
    std::string other_name(const std::vector<std::string>& names) {
        if (names.empty()) return rules_.common("string");
        std::set<std::string> sorted(names.begin(), names.end());
        const auto body = not_among({sorted.begin(), sorted.end()}, 0);
        return rules_.define("\"\\\"\" " + body + " \"\\\"\"");
    }

    /// Texts that are none of the words' remainders from byte `at` on; the words share what is before.
    std::string not_among(const std::vector<std::string>& words, std::size_t at) {
        static const code_set plain = complement(normalized({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}));
        bool taken = false;
        std::map<std::uint32_t, std::vector<std::string>> next;
        for (const auto& w : words) {
            if (w.size() == at) {
                taken = true;
                continue;
            }
            next[static_cast<std::uint32_t>(utf8::decode(w.data() + at).value)].push_back(w);
        }
        std::vector<code_range> used;
        for (const auto& [code, list] : next) used.push_back({code, code});
        const auto others = intersection(plain, complement(normalized(std::move(used))));
        std::vector<std::string> ways{gbnf_class(others) + " " + gbnf_class(plain) + "*"};
        if (!taken) ways.emplace_back("\"\"");
        for (const auto& [code, list] : next) {
            std::string letter;
            append_utf8(letter, code);
            if (!contains(plain, code)) continue;
            ways.push_back(gbnf_literal(letter) + " " + not_among(list, at + letter.size()));
        }
        return rules_.define(fmt::format("{}", fmt::join(ways, " | ")));
    }

    schema_reader reader_;
    rule_book& rules_;
    int nesting_ = 0;
    std::map<std::pair<unsigned, std::vector<const json::value*>>, std::string> done_;
};

error about(error e, const std::string& param) {
    e.message = param + ": " + e.message;
    e.param = param;
    return e;
}

}  // namespace

result<json::value> parse_schema(std::string_view text, const std::string& param) {
    if (text.size() > limits::max_schema_bytes)
        return about(
            fail(errc::invalid_request, fmt::format("the schema is larger than {} bytes", limits::max_schema_bytes)),
            param);
    boost::system::error_code ec;
    json::parse_options options;
    options.max_depth = limits::max_json_depth;
    auto v = json::parse(text, ec, {}, options);
    if (ec) return about(fail(errc::invalid_request, "the schema is not valid JSON"), param);
    if (!v.is_object() && !v.is_bool())
        return about(fail(errc::invalid_request, "a schema must be an object, true or false"), param);
    return v;
}

result<std::string> add_schema(
    const json::value& document, rule_book& rules, const std::string& param, bool only_objects) {
    writer w(document, rules);
    auto name = w.rule_for({{&document, "#"}}, only_objects ? json_types::object : json_types::all);
    if (!name) return about(name.error(), param);
    return name;
}

result<std::string> grammar_of_schema(std::string_view schema, const std::string& param) {
    TROUPE_TRY(const auto document, parse_schema(schema, param));
    rule_book rules;
    TROUPE_TRY(const auto root, add_schema(document, rules, param));
    auto text = rules.text(root);
    const auto checked = parse_gbnf(text);
    if (!checked) {
        const bool empty = checked.error().message.find("no finite text") != std::string::npos;
        return about(empty ? fail(errc::invalid_request, "the schema allows no value at all") : checked.error(), param);
    }
    return text;
}

}  // namespace troupe::model
