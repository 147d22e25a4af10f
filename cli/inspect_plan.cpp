#include "cli/inspect_plan.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "core/utf8.hpp"
#include "model/host_memory.hpp"
#include "model/templates/load_chat_format.hpp"
#include "model/tokenizers/tokenizer.hpp"

namespace troupe::cli {
namespace json = boost::json;
namespace {

constexpr double mib = 1 << 20, gib = 1 << 30;

json::object token_json(const model::tokenizer& words, model::token_id id) {
    return {{"id", id}, {"text", to_valid_utf8(std::string(words.piece(id, true)))}};
}

json::value token_or_null(const model::tokenizer& words, model::token_id id) {
    if (id < 0) return nullptr;
    return token_json(words, id);
}

json::value template_json(const model::model_file& file, const model::tokenizer& words) {
    const auto chat = model::load_chat_format(file, words);
    if (!chat) return json::object{{"error", chat.error().message}};
    return json::object{{"origin", (*chat)->origin()}, {"bytes", (*chat)->source().size()}};
}

/// {"memory_bytes", "ctx_one", "ctx_all"}: for one sequence, for all of them.
json::object fitting(const model::model_plan& p, std::uint64_t memory, std::int64_t n_seqs) {
    const std::int64_t longest = p.info.n_ctx_train;
    return {{"memory_bytes", memory}, {"ctx_one", context_that_fits(p, memory, longest, 1)},
        {"ctx_all", context_that_fits(p, memory, longest, n_seqs)}};
}

std::string token_text(const json::value& v) {
    if (v.is_null()) return "none";
    return fmt::format("{} {}", v.at("id").to_number<std::int64_t>(), json::serialize(v.at("text")));
}

std::int64_t number(const json::object& o, std::string_view key) { return o.at(key).to_number<std::int64_t>(); }

}  // namespace

std::uint64_t kv_bytes(const model::kv_layout& layout, std::int64_t n_ctx, std::int64_t n_seqs) {
    std::uint64_t total = 0;
    for (const auto& g : layout.groups) {
        const auto tokens = g.window > 0 ? std::min<std::int64_t>(n_ctx, g.window + model::block_tokens) : n_ctx;
        const auto blocks =
            static_cast<std::uint64_t>((tokens + model::block_tokens - 1) / model::block_tokens * n_seqs);
        total += (blocks + g.blocks_per_segment - 1) / g.blocks_per_segment * layout.segment_bytes;
    }
    return total;
}

std::int64_t context_that_fits(
    const model::model_plan& plan, std::uint64_t memory, std::int64_t longest, std::int64_t n_seqs) {
    const auto fixed = plan.packed_bytes + plan.scratch_bytes;
    if (memory < fixed) return 0;
    std::int64_t fits = 0, blocks = (longest + model::block_tokens - 1) / model::block_tokens;
    while (fits < blocks) {  // the most blocks that fit: kv_bytes grows with them
        const auto middle = (fits + blocks + 1) / 2;
        if (kv_bytes(plan.layout, middle * model::block_tokens, n_seqs) <= memory - fixed)
            fits = middle;
        else
            blocks = middle - 1;
    }
    return std::min(fits * model::block_tokens, longest);
}

json::object plan_json(const model::model_plan& p, std::int64_t n_ctx, std::int64_t n_seqs) {
    json::array groups, fits;
    std::uint64_t near = 0, far = 0;  // bytes of a token within every window, and behind them
    for (const auto& g : p.layout.groups) {
        const auto bytes = g.block_bytes / model::block_tokens;
        near += bytes;
        far += g.window > 0 ? 0 : bytes;
        groups.push_back(json::object{{"window", g.window}, {"layers", g.n_layers}, {"latent", g.latent},
            {"block_bytes", g.block_bytes}, {"bytes_per_token", bytes}});
    }
    const auto everything = p.packed_bytes + p.scratch_bytes + kv_bytes(p.layout, p.info.n_ctx_train, n_seqs);
    for (std::uint64_t memory = 1ull << 29; memory < 1ull << 40; memory *= 2) {
        if (memory > p.packed_bytes + p.scratch_bytes) fits.push_back(fitting(p, memory, n_seqs));
        if (memory >= everything) break;
    }
    const auto kv = kv_bytes(p.layout, n_ctx, n_seqs);
    return {{"ctx", n_ctx}, {"max_seqs", n_seqs}, {"kv_type", kernels::info(p.layout.type).name},
        {"weight_bytes", p.info.weight_bytes}, {"packed_weight_bytes", p.packed_bytes},
        {"scratch_bytes", p.scratch_bytes}, {"kv_bytes", kv}, {"total_bytes", p.packed_bytes + p.scratch_bytes + kv},
        {"kv_bytes_per_token", near}, {"kv_bytes_per_token_beyond_windows", far}, {"kv_groups", std::move(groups)},
        {"fits", std::move(fits)}, {"available_now", fitting(p, model::available_memory(), n_seqs)}};
}

json::object text_json(const model::model_file& file) {
    const auto loaded = model::tokenizer::load(file);
    if (!loaded) return {{"error", loaded.error().message}};
    const auto& words = **loaded;
    json::array ends;
    for (const auto id : words.end_tokens()) ends.push_back(token_json(words, id));
    return {{"type", words.type_name()}, {"pre", words.pre_name()}, {"n_tokens", words.n_tokens()},
        {"bos", token_or_null(words, words.bos())}, {"eos", token_or_null(words, words.eos())},
        {"add_bos", words.add_bos()}, {"add_eos", words.add_eos()}, {"end_tokens", std::move(ends)},
        {"chat_template", template_json(file, words)}};
}

void print_plan(const json::object& plan) {
    fmt::print("\nplan for {} sequences of {} tokens, keys and values in {}\n", number(plan, "max_seqs"),
        number(plan, "ctx"), std::string(plan.at("kv_type").as_string()));
    for (const auto* name : {"weight_bytes", "packed_weight_bytes", "scratch_bytes", "kv_bytes", "total_bytes"})
        fmt::print("  {:<20} {:>10.1f} MiB\n", name, plan.at(name).to_number<double>() / mib);
    fmt::print("  {} bytes of keys and values a token, {} beyond the windows\n", number(plan, "kv_bytes_per_token"),
        number(plan, "kv_bytes_per_token_beyond_windows"));
    for (const auto& v : plan.at("kv_groups").as_array()) {
        const auto& g = v.as_object();
        const auto window = number(g, "window");
        fmt::print("  {:>3} layers, {}: {} bytes a token\n", number(g, "layers"),
            window > 0                ? fmt::format("window of {}", window)
            : number(g, "latent") > 0 ? fmt::format("latent of {}", number(g, "latent"))
                                      : "full attention",
            number(g, "bytes_per_token"));
    }
    fmt::print("  context that fits     one sequence  {:>3} sequences\n", number(plan, "max_seqs"));
    const auto line = [](const json::object& f, std::string_view name) {
        fmt::print("  {:>8.1f} GiB {:<7} {:>12}  {:>13}\n", f.at("memory_bytes").to_number<double>() / gib, name,
            number(f, "ctx_one"), number(f, "ctx_all"));
    };
    for (const auto& f : plan.at("fits").as_array()) line(f.as_object(), "");
    line(plan.at("available_now").as_object(), "(free)");
}

void print_text_side(const json::object& text) {
    fmt::print("\ntext\n");
    if (const auto* e = text.if_contains("error")) {
        fmt::print("  refused: {}\n", std::string(e->as_string()));
        return;
    }
    fmt::print("  {} tokenizer, pre-tokenizer {}, {} tokens\n", std::string(text.at("type").as_string()),
        std::string(text.at("pre").as_string()), number(text, "n_tokens"));
    fmt::print("  begin {}{}, end {}\n", token_text(text.at("bos")),
        text.at("add_bos").as_bool() ? " (added)" : " (not added)", token_text(text.at("eos")));
    std::string ends;
    for (const auto& t : text.at("end_tokens").as_array()) ends += (ends.empty() ? "" : ", ") + token_text(t);
    fmt::print("  a generation ends at {}\n", ends.empty() ? "no token" : ends);
    const auto& chat = text.at("chat_template").as_object();
    if (const auto* e = chat.if_contains("error")) {
        fmt::print("  chat template refused: {}\n", std::string(e->as_string()));
    } else {
        fmt::print(
            "  chat template: {}, {} bytes\n", std::string(chat.at("origin").as_string()), number(chat, "bytes"));
    }
}

}  // namespace troupe::cli
