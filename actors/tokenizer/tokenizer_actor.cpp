#include "actors/tokenizer/tokenizer_actor.hpp"

#include <stdexcept>

#include <fmt/format.h>

#include "actors/store/store_messages.hpp"
#include "actors/tokenizer/output_rules.hpp"
#include "core/limits.hpp"

namespace troupe::actors {
namespace {

void count(tokenizer_state& s) {
    ++s.requests;
    if (s.fault_after >= 0 && s.fault_after-- == 0) throw std::runtime_error("injected fault");
}

}  // namespace

caf::behavior tokenizer_actor(caf::stateful_actor<tokenizer_state>* self, std::shared_ptr<const text_tools> tools) {
    self->set_exception_handler([](std::exception_ptr&) -> caf::error { return caf::sec::runtime_error; });
    return {
        [self, tools](const render_chat& r) -> caf::result<rendered_chat> {
            count(self->state);
            rendered_chat out;
            if (!r.tools.empty()) {
                auto calls = rules_for_tools(r, tools->calls);
                if (!calls) return make_caf_error(calls.error());
                out.calls = *std::move(calls);
            }
            auto parts = tools->render(r);
            if (!parts) return make_caf_error(parts.error());
            out.ids = std::make_shared<const std::vector<token_id>>(tools->vocabulary->encode(*parts));
            // A BOS that the template lacks is shown too: what is printed and what is counted are the same.
            const auto bos = tools->vocabulary->bos();
            if (!out.ids->empty() && out.ids->front() == bos) {
                const auto text = tools->vocabulary->piece(bos, true);
                if (parts->empty() || parts->front().from_user || !parts->front().text.starts_with(text))
                    out.text = text;
            }
            for (const auto& p : *parts) out.text += p.text;
            return out;
        },
        [self, tools](encode_atom, const std::string& text, bool add_special, bool parse_special) {
            count(self->state);
            auto ids = tools->vocabulary->encode(text, parse_special, add_special);
            return rendered_chat{std::make_shared<const std::vector<token_id>>(std::move(ids)), text};
        },
        [self](const constrain_output& c) -> caf::result<std::string> {
            count(self->state);
            auto grammar = grammar_for(c);
            if (!grammar) return make_caf_error(grammar.error());
            return *std::move(grammar);
        },
        [self](const actor_fault& f) { self->state.fault_after = f.after; },
        [self](state_atom) {
            return fmt::format(R"({{"requests":{},"mailbox":{}}})", self->state.requests, self->mailbox().size());
        },
    };
}

caf::behavior tokenizer_pair(caf::event_based_actor* self, std::shared_ptr<const text_tools> tools) {
    const caf::actor quick = self->spawn<caf::detached + caf::linked>(tokenizer_actor, tools);
    const caf::actor bulk = self->spawn<caf::detached + caf::linked>(tokenizer_actor, tools);
    const auto lane = [quick, bulk](std::size_t bytes) { return bytes > limits::bulk_text_bytes ? bulk : quick; };
    return {
        [self, lane](const render_chat& r) {
            std::size_t bytes = r.tools.size();
            for (const auto& m : r.messages) bytes += m.content.size() + m.extra.size();
            return self->delegate(lane(bytes), r);
        },
        [self, lane](encode_atom, const std::string& text, bool add_special, bool parse_special) {
            return self->delegate(lane(text.size()), encode_atom::value, text, add_special, parse_special);
        },
        [self, quick](const constrain_output& c) { return self->delegate(quick, c); },
        [self, quick](const actor_fault& f) { self->send(quick, f); },
        [self, quick](state_atom) { return self->delegate(quick, state_atom::value); },
    };
}

}  // namespace troupe::actors
