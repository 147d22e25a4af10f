#include "actors/session/conversation.hpp"

#include <gtest/gtest.h>

#include "actors/session/portable.hpp"

namespace troupe::actors {
namespace {

stored_message message(std::string id, std::string parent, std::string role, std::string content) {
    return {{std::move(id), std::move(parent), std::move(role), std::move(content), 1, "", {}}, {}};
}

conversation with_branches() {
    conversation c;
    c.add(message("u1", "", "user", "hello"));
    c.add(message("a1", "u1", "assistant", "hi"));
    c.add(message("u2", "a1", "user", "how?"));
    c.add(message("a2", "u2", "assistant", "fine"));
    c.add(message("u2b", "a1", "user", "why?"));
    c.add(message("a2b", "u2b", "assistant", "because"));
    return c;
}

TEST(Conversation, BranchesShareTheirPastAndLoseNothing) {
    const auto c = with_branches();
    EXPECT_EQ(c.leaf(), "a2b");
    EXPECT_EQ(c.messages().size(), 6u);
    const auto context = c.context("a2", "be kind");
    ASSERT_EQ(context.size(), 5u);
    EXPECT_EQ(context[0].role, "system");
    EXPECT_EQ(context[1].content, "hello");
    EXPECT_EQ(context[4].content, "fine");
    EXPECT_EQ(c.context("a2b", "").back().content, "because");
    EXPECT_TRUE(c.context("", "").empty());
}

TEST(Conversation, ParentsAreChecked) {
    const auto c = with_branches();
    EXPECT_EQ(*c.parent_for({}), "a2b");
    EXPECT_EQ(*c.parent_for("a1"), "a1");
    EXPECT_EQ(*c.parent_for(""), "");
    EXPECT_EQ(c.parent_for("nope").error().code, errc::not_found);
}

TEST(Portable, ExportAndImportLoseNothing) {
    auto c = with_branches();
    auto* m = c.find("a2");
    m->view.finish_reason = "length";
    m->usage = {1, 2, 3};
    c.find("a2b")->view.err = fail(errc::executor_poisoned, "it died", "x");
    session_view view{"ses_a", "A title \"quoted\"", {}, 10, 20};
    view.settings.system = "sys";
    view.settings.params.temperature = 0.1;
    view.settings.params.stop = {{"a", "b"}};
    view.settings.params.seed = -5;
    const auto text = export_session(view, c.messages(), "a2");
    const auto back = import_session(text);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(back->info, view);
    EXPECT_EQ(back->messages, c.messages());
    EXPECT_EQ(back->leaf, "a2");
}

TEST(Portable, BrokenDocumentsAreNamedErrors) {
    const auto code = [](const std::string& text) {
        const auto r = import_session(text);
        return r.ok() ? errc::count_ : r.error().code;
    };
    EXPECT_EQ(code("{"), errc::invalid_request);
    EXPECT_EQ(code("[]"), errc::invalid_request);
    EXPECT_EQ(code(R"({"format":"other","messages":[]})"), errc::invalid_request);
    const std::string head = R"({"format":"troupe.session.v1","messages":)";
    EXPECT_EQ(code(head + "3}"), errc::invalid_request);
    EXPECT_EQ(code(head + R"([{"id":"a","role":"user","content":"x","parent":"later"}]})"), errc::invalid_request);
    EXPECT_EQ(code(head + R"([{"id":"a","role":"king","content":"x"}]})"), errc::invalid_request);
    EXPECT_EQ(code(head + R"([{"id":"a","role":"user","content":"x"},{"id":"a","role":"user","content":"x"}]})"),
        errc::invalid_request);
    EXPECT_EQ(code(head + R"([{"id":"a b","role":"user","content":"x"}]})"), errc::invalid_request);
    EXPECT_EQ(code(head + R"([],"leaf":"nope"})"), errc::invalid_request);
    EXPECT_EQ(code(head + R"([],"settings":{"params":{"temperature":"hot"}}})"), errc::invalid_request);
    EXPECT_EQ(code(head + std::string(100, '[') + std::string(100, ']') + "}"), errc::invalid_request);
    EXPECT_EQ(code(head + "[]}"), errc::count_);
}

}  // namespace
}  // namespace troupe::actors
