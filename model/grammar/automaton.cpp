// Built back to front: each expression is told where to go on.
#include "model/grammar/automaton.hpp"

#include <map>
#include <optional>
#include <string>

#include "core/limits.hpp"

namespace troupe::model {
namespace {

using kind = grammar::kind;
using op = automaton::op;

/// Rules this small that call nothing and loop nowhere are copied to where they are used: a rule for one character, as
/// in `string ::= char*`, must not hide from the mask cache that its caller goes round.
constexpr std::size_t small_rule = 48;

class builder {
 public:
    explicit builder(const grammar& g) : g_(g) {}

    result<automaton> run() {
        out_.nodes.push_back({op::end});
        start_.resize(g_.rules.size());
        out_.start = start_of(g_.root);
        // Bodies are built from a list, not by recursion: a chain of rules may be as long as the grammar.
        while (!todo_.empty() && !too_large_) {
            const auto r = todo_.back();
            todo_.pop_back();
            const auto body = build(g_.rules[r].body, automaton::end_node);
            out_.nodes[*start_[r]] = split_to({body});
        }
        if (too_large_ || out_.nodes.size() > limits::max_grammar_nodes)
            return fail(errc::invalid_request, "the grammar is too large", "grammar");
        find_classes();
        return std::move(out_);
    }

 private:
    std::uint32_t add(automaton::node n) {
        if (out_.nodes.size() >= limits::max_grammar_nodes) {
            too_large_ = true;
            return automaton::end_node;
        }
        out_.nodes.push_back(n);
        return static_cast<std::uint32_t>(out_.nodes.size() - 1);
    }
    automaton::node split_to(const std::vector<std::uint32_t>& targets) {
        const auto begin = static_cast<std::uint32_t>(out_.targets.size());
        out_.targets.insert(out_.targets.end(), targets.begin(), targets.end());
        return {op::split, begin, static_cast<std::uint32_t>(out_.targets.size())};
    }
    std::uint32_t bytes(const std::vector<automaton::edge>& edges) {
        const auto begin = static_cast<std::uint32_t>(out_.edges.size());
        out_.edges.insert(out_.edges.end(), edges.begin(), edges.end());
        return add({op::bytes, begin, static_cast<std::uint32_t>(out_.edges.size())});
    }
    std::uint32_t start_of(std::uint32_t rule) {
        if (!start_[rule]) {
            start_[rule] = add({op::split});
            todo_.push_back(rule);
        }
        return *start_[rule];
    }

    bool copied(std::uint32_t i, std::size_t& size) const {
        const auto& e = g_.expressions[i];
        if (e.what == kind::rule || ++size > small_rule) return false;
        if (e.what == kind::repeat && (e.max < 0 || e.max > 8)) return false;
        for (const auto p : e.parts)
            if (!copied(p, size)) return false;
        return true;
    }

    std::uint32_t build(std::uint32_t i, std::uint32_t next) {
        if (too_large_) return next;
        const auto& e = g_.expressions[i];
        switch (e.what) {
        case kind::sequence:
            for (auto p = e.parts.rbegin(); p != e.parts.rend(); ++p) next = build(*p, next);
            return next;
        case kind::choice: {
            std::vector<std::uint32_t> ways;
            for (const auto p : e.parts)
                if (g_.expressions[p].productive) ways.push_back(build(p, next));
            return ways.size() == 1 ? ways[0] : add(split_to(ways));
        }
        case kind::set:
            return set(e.set, next);
        case kind::literal:
            for (auto c = e.text.rbegin(); c != e.text.rend(); ++c) {
                const auto b = static_cast<std::uint8_t>(*c);
                next = bytes({{b, b, next}});
            }
            return next;
        case kind::rule: {
            std::size_t size = 0;
            if (copied(g_.rules[e.rule].body, size)) return build(g_.rules[e.rule].body, next);
            return add({op::call, start_of(e.rule), next});
        }
        case kind::repeat:
            return repeat(e, next);
        }
        return next;
    }

    std::uint32_t repeat(const grammar::expression& e, std::uint32_t next) {
        const auto part = e.parts[0];
        const bool empty_turns = g_.expressions[part].nullable;
        const auto min = empty_turns ? 0 : e.min;  // turns that match nothing make up what is missing
        if (e.max == 0 || !g_.expressions[part].productive) return next;
        if (e.max < 0 && min <= 1) {
            const auto hub = add({op::split});
            const auto body = build(part, hub);
            out_.nodes[hub] = split_to({body, next});
            return min == 1 ? body : hub;
        }
        if (e.max == 1) {
            const auto body = build(part, next);
            return min == 1 ? body : add(split_to({body, next}));
        }
        if (empty_turns) {
            if (e.max > limits::max_unrolled_repeat) {
                too_large_ = true;
                return next;
            }
            std::uint32_t at = next;
            for (int n = 0; n < e.max; ++n) at = add(split_to({build(part, at), next}));
            return at;
        }
        const auto loop = static_cast<std::uint32_t>(out_.loops.size());
        out_.loops.push_back({min, e.max});
        const auto again = add({op::again, loop});
        const auto body = build(part, again);
        out_.loops[loop].body = body;
        out_.loops[loop].after = next;
        return add({op::enter, loop});
    }

    /// Ends of sequences that lead to the same place are shared.
    std::uint32_t set(const code_set& s, std::uint32_t next) {
        std::vector<automaton::edge> first;
        std::map<std::string, std::uint32_t> tails;
        for (const auto& u : utf8_sequences(s)) {
            std::uint32_t to = next;
            std::string key;
            for (int i = u.length - 1; i > 0; --i) {
                key += {static_cast<char>(u.lo[i]), static_cast<char>(u.hi[i])};
                const auto [it, fresh] = tails.emplace(key, 0);
                if (fresh) it->second = bytes({{u.lo[i], u.hi[i], to}});
                to = it->second;
            }
            first.push_back({u.lo[0], u.hi[0], to});
        }
        return bytes(first);
    }

    void find_classes() {
        std::array<bool, 257> cut{};
        for (const auto& e : out_.edges) cut[e.lo] = cut[e.hi + 1u] = true;
        for (std::size_t b = 0; b < 256; ++b) {
            if (b == 0 || cut[b]) out_.byte_of_class.push_back(static_cast<std::uint8_t>(b));
            out_.class_of[b] = static_cast<std::uint8_t>(out_.byte_of_class.size() - 1);
        }
    }

    const grammar& g_;
    automaton out_;
    std::vector<std::optional<std::uint32_t>> start_;
    std::vector<std::uint32_t> todo_;
    bool too_large_ = false;
};

}  // namespace

result<automaton> build_automaton(const grammar& g) { return builder(g).run(); }

}  // namespace troupe::model
