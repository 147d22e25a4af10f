#include "net/prompts.hpp"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "core/limits.hpp"

namespace troupe::net {
namespace {

error wrong(std::string_view name, std::string_view expected) {
    return fail(errc::invalid_request, fmt::format("'{}' must be {}", name, expected), std::string(name));
}

/// One prompt that is an array: ids, and texts between them.
result<prompt_pieces> read_pieces(simdjson::dom::array list, std::string_view name, std::int64_t n_vocab) {
    prompt_pieces pieces;
    for (const auto item : list) {
        std::string_view text;
        if (!item.get(text)) {
            pieces.emplace_back(std::string(text));
            continue;
        }
        TROUPE_TRY(const auto id, token_id_of(item, name, n_vocab));
        if (pieces.empty() || !std::holds_alternative<std::vector<std::int32_t>>(pieces.back()))
            pieces.emplace_back(std::vector<std::int32_t>{});
        std::get<std::vector<std::int32_t>>(pieces.back()).push_back(id);
    }
    if (pieces.empty()) return wrong(name, "a text, a non-empty list of token ids, or a list of those");
    return pieces;
}

/// Work of join_prompts that goes on from answer to answer.
struct joining {
    services& s;
    exchange_ptr x;
    std::vector<prompt_pieces> prompts;
    std::vector<completion_request> requests;
    std::function<void(std::vector<completion_request>)> then;
    std::size_t prompt = 0, piece = 0;
    std::vector<std::int32_t> ids = {};
};

void join_on(const std::shared_ptr<joining>& j) {
    for (; j->prompt < j->prompts.size(); ++j->prompt, j->piece = 0) {
        auto& pieces = j->prompts[j->prompt];
        auto& request = j->requests[j->prompt];
        if (put_prompt(pieces, request)) continue;
        for (; j->piece < pieces.size(); ++j->piece) {
            if (auto* ids = std::get_if<std::vector<std::int32_t>>(&pieces[j->piece])) {
                j->ids.insert(j->ids.end(), ids->begin(), ids->end());
                continue;
            }
            const bool first = j->piece == 0;
            j->s.engine.tokenize(std::get<std::string>(pieces[j->piece++]), first, true,
                on_reply<std::vector<token_piece>>(j->x, [j](const std::vector<token_piece>& tokens) {
                    for (const auto& t : tokens) j->ids.push_back(t.id);
                    join_on(j);
                }));
            return;
        }
        request.prompt_ids = std::exchange(j->ids, {});
    }
    j->then(std::move(j->requests));
}

}  // namespace

result<std::vector<prompt_pieces>> read_prompts(const json_object& o, std::string_view name, std::int64_t n_vocab) {
    const auto e = o.find(name);
    if (!e) return fail(errc::invalid_request, fmt::format("'{}' is missing", name), std::string(name));
    std::string_view text;
    if (!e->get(text)) return std::vector<prompt_pieces>{{std::string(text)}};
    simdjson::dom::array list;
    const auto expected =
        fmt::format("a text, a non-empty list of token ids, or a list of up to {} of those", limits::max_prompts);
    if (e->get(list) || list.size() == 0) return wrong(name, expected);
    bool texts = true, arrays = false;
    for (const auto item : list) {
        texts = texts && item.is_string();
        arrays = arrays || item.is_array();
    }
    if (!texts && !arrays) {
        TROUPE_TRY(auto pieces, read_pieces(list, name, n_vocab));
        return std::vector<prompt_pieces>{std::move(pieces)};
    }
    std::vector<prompt_pieces> prompts;
    std::size_t n = 0;
    for (const auto item : list) {
        if (++n > limits::max_prompts) return wrong(name, expected);
        simdjson::dom::array inner;
        if (!item.get(text)) {
            prompts.push_back({std::string(text)});
        } else if (!item.get(inner)) {
            TROUPE_TRY(auto pieces, read_pieces(inner, name, n_vocab));
            prompts.push_back(std::move(pieces));
        } else {
            return wrong(name, expected);
        }
    }
    return prompts;
}

request_parts parts_of(const completion_request& common, const std::vector<prompt_pieces>& prompts, std::int32_t n) {
    request_parts parts;
    for (std::size_t i = 0; i < std::max<std::size_t>(1, prompts.size()); ++i)
        for (std::int32_t choice = 0; choice < n; ++choice) {
            parts.requests.push_back(common);
            parts.requests.back().choice = choice;
            if (!prompts.empty()) parts.prompts.push_back(prompts[i]);
        }
    return parts;
}

bool put_prompt(const prompt_pieces& pieces, completion_request& r) {
    if (pieces.size() != 1) return false;
    if (const auto* text = std::get_if<std::string>(&pieces.front()))
        r.prompt = *text;
    else
        r.prompt_ids = std::get<std::vector<std::int32_t>>(pieces.front());
    return true;
}

void join_prompts(services& s, const exchange_ptr& x, std::vector<prompt_pieces> prompts,
    std::vector<completion_request> requests, std::function<void(std::vector<completion_request>)> then) {
    join_on(std::make_shared<joining>(joining{s, x, std::move(prompts), std::move(requests), std::move(then)}));
}

}  // namespace troupe::net
