#include "actors/tokenizer/text_model.hpp"

#include <filesystem>

#include <boost/json.hpp>

#include "actors/tokenizer/output_rules.hpp"
#include "core/clock.hpp"
#include "core/limits.hpp"
#include "kernels/ops.hpp"
#include "model/formats/model_file.hpp"
#include "model/model.hpp"
#include "model/templates/load_chat_format.hpp"

namespace troupe::actors {
namespace json = boost::json;
namespace {

result<std::vector<model::text_part>> render_with(const model::chat_format& chat, const render_chat& r) {
    model::chat_options o;
    o.add_generation_prompt = r.add_generation_prompt;
    if (!r.template_kwargs.empty()) {
        boost::system::error_code ec;
        json::parse_options depth;
        depth.max_depth = limits::max_json_depth;
        auto v = json::parse(r.template_kwargs, ec, {}, depth);
        if (ec || !v.is_object())
            return fail(errc::invalid_request, "chat_template_kwargs must be a JSON object", "chat_template_kwargs");
        o.variables = std::move(v.get_object());
    }
    if (!r.tools.empty()) {
        TROUPE_TRY(o.tools, parse_tools(r.tools));
    }
    return chat.render(r.messages, o, unix_ms() / 1000);
}

std::int64_t changed_at(const std::string& path) {
    std::error_code ec;
    const auto t = std::filesystem::last_write_time(path, ec);
    if (ec) return 0;
    const auto age = std::chrono::file_clock::now() - t;
    return unix_ms() / 1000 - std::chrono::duration_cast<std::chrono::seconds>(age).count();
}

}  // namespace

model_spec parse_model_spec(const std::string& spec) {
    const auto at = spec.find('=');
    if (at != std::string::npos && at > 0 && spec.find('/') > at) return {spec.substr(0, at), spec.substr(at + 1)};
    std::error_code ec;
    const auto whole = std::filesystem::weakly_canonical(spec, ec);
    // A folder's name may hold dots ("Llama-3.1-8B"); only a file's ends in one.
    if (!ec && std::filesystem::is_directory(whole, ec)) return {whole.filename().string(), spec};
    return {std::filesystem::path(spec).stem().string(), spec};
}

result<std::shared_ptr<const text_model>> load_text_model(const model_spec& spec, std::int64_t ctx_size) {
    TROUPE_TRY(const auto file, model::model_file::open(spec.path));
    TROUPE_TRY(auto vocabulary, model::tokenizer::load(*file));
    TROUPE_TRY(auto chat, model::load_chat_format(*file, *vocabulary));
    model::load_options o;
    TROUPE_TRY(o.ops, kernels::table("ref"));
    o.n_ctx = static_cast<std::int32_t>(ctx_size);
    TROUPE_TRY(const auto plan, model::plan(*file, o));
    auto m = std::make_shared<text_model>();
    const auto& i = plan.info;
    m->card = {spec.name, i.architecture, i.quantization, std::string(vocabulary->type_name()), spec.path,
        changed_at(spec.path), ctx_size > 0 ? std::min<std::int64_t>(ctx_size, i.n_ctx_train) : i.n_ctx_train,
        i.n_ctx_train, vocabulary->n_tokens(), i.n_embd, i.n_params, i.weight_bytes, chat->source(),
        std::string(chat->origin()), std::string(vocabulary->pre_name())};
    m->tools = std::make_shared<const text_tools>(
        text_tools{vocabulary, [chat](const render_chat& r) { return render_with(*chat, r); }, chat->calls()});
    return std::shared_ptr<const text_model>(std::move(m));
}

}  // namespace troupe::actors
