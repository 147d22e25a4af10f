// The names under which an answer's form and tools are asked for, and contradictions among them.
#include "net/output_format.hpp"

#include <gtest/gtest.h>

#include "net/body.hpp"

namespace troupe::net {
namespace {

result<generation_params> format(const std::string& text) {
    const auto b = *json_body::parse(text);
    generation_params p;
    if (auto r = read_output_format(b.object, p); !r) return r.error();
    return p;
}

TEST(output_format, all_its_names) {
    for (const auto* text :
        {R"({"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"a":1}}}})",
            R"({"response_format":{"type":"json_schema","schema":{"a":1}}})",
            R"({"response_format":{"type":"json_object","schema":{"a":1}}})", R"({"json_schema":{"a":1}})",
            R"({"guided_json":{"a":1}})", R"({"guided_json":"{\"a\":1}"})",
            R"({"structured_outputs":{"json":{"a":1}}})"}) {
        const auto p = format(text);
        ASSERT_TRUE(p.ok()) << text;
        EXPECT_EQ(p->json_schema, R"({"a":1})") << text;
        EXPECT_FALSE(p->grammar) << text;
    }
    EXPECT_EQ(format(R"({"response_format":{"type":"json_object"}})")->json_schema, R"({"type":"object"})");
    EXPECT_EQ(format(R"({"response_format":{"type":"text"}})")->json_schema, "") << "takes back what a session says";
    EXPECT_EQ(format(R"({"grammar":"root ::= x"})")->grammar, "root ::= x");
    EXPECT_EQ(format(R"({"structured_outputs":{"grammar":"g"}})")->grammar, "g");
    EXPECT_EQ(format(R"({"grammar":"","json_schema":null})")->format_field, std::nullopt);
    EXPECT_EQ(format(R"({"guided_json":{}})")->format_field, "guided_json");
}

TEST(output_format, errors_name_their_field) {
    const auto expect = [](const char* text, errc code, const char* param) {
        const auto p = format(text);
        ASSERT_FALSE(p.ok()) << text;
        EXPECT_EQ(p.error().code, code) << text;
        EXPECT_EQ(p.error().param, param) << text;
    };
    expect(R"({"response_format":"x"})", errc::invalid_request, "response_format");
    expect(R"({"response_format":{"type":5}})", errc::invalid_request, "type");
    expect(R"({"response_format":{}})", errc::invalid_request, "response_format");
    expect(R"({"response_format":{"type":"json_schema"}})", errc::invalid_request, "response_format");
    expect(R"({"response_format":{"type":"json_schema","json_schema":{"name":"x"}}})", errc::invalid_request,
        "response_format");
    expect(R"({"response_format":{"type":"regex"}})", errc::unsupported_parameter, "response_format");
    expect(R"({"structured_outputs":{"choice":["a"]}})", errc::unsupported_parameter, "structured_outputs");
    expect(R"({"grammar":5})", errc::invalid_request, "grammar");
    expect(R"({"json_schema":"x"})", errc::invalid_request, "json_schema");
    expect(R"({"grammar":"g","json_schema":{}})", errc::invalid_request, "json_schema");
    expect(R"({"response_format":{"type":"json_object"},"grammar":"g"})", errc::invalid_request, "grammar");
}

TEST(output_format, tools) {
    const auto read = [](const std::string& text) -> result<completion_request> {
        const auto b = *json_body::parse(text);
        completion_request r;
        if (auto done = read_tools(b.object, r); !done) return done.error();
        return r;
    };
    const auto r = read(R"({"tools":[{"type":"function"}],"parallel_tool_calls":false})");
    EXPECT_EQ(r->tools, R"([{"type":"function"}])");
    EXPECT_EQ(r->tool_choice, "auto");
    EXPECT_FALSE(r->parallel_tool_calls);
    EXPECT_EQ(read(R"({"tools":[{}],"tool_choice":{"type":"function","function":{"name":"f"}}})")->tool_choice, "f");
    EXPECT_EQ(read(R"({"tools":[{}],"tool_choice":"required"})")->tool_choice, "required");
    EXPECT_EQ(read(R"({"tools":[{}],"tool_choice":"none"})")->tools, "");
    EXPECT_EQ(read(R"({"tools":[]})")->tools, "");
    EXPECT_EQ(read(R"({"tools":{}})").error().param, "tools");
    EXPECT_EQ(read(R"({"tool_choice":"required"})").error().param, "tool_choice");
    EXPECT_EQ(read(R"({"tools":[{}],"tool_choice":"any"})").error().param, "tool_choice");
    EXPECT_EQ(read(R"({"tools":[{}],"tool_choice":{"name":"f"}})").error().param, "tool_choice");
}

}  // namespace
}  // namespace troupe::net
