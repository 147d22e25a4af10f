// troupe inspect: what is in a model file, and what serving it needs.
#include <cstdio>
#include <map>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/inspect_plan.hpp"
#include "model/model.hpp"

namespace troupe::cli {
namespace json = boost::json;
namespace {

json::object info_json(const model::model_info& i) {
    return {{"architecture", i.architecture}, {"name", i.name}, {"quantization", i.quantization},
        {"n_params", i.n_params}, {"weight_bytes", i.weight_bytes}, {"n_layers", i.n_layers}, {"n_embd", i.n_embd},
        {"n_heads", i.n_heads}, {"n_kv_heads", i.n_kv_heads}, {"head_dim", i.head_dim}, {"n_ff", i.n_ff},
        {"n_vocab", i.n_vocab}, {"n_ctx_train", i.n_ctx_train}, {"model_hash", i.model_hash}};
}

std::string shape_text(const model::model_tensor& t) {
    std::string text;
    for (const auto n : t.shape) text += fmt::format("{}{}", text.empty() ? "" : " x ", n);
    return text;
}

void print_file(const model::model_file& file) {
    fmt::print("{}, {} tensors, {:.1f} MiB\n\nmetadata\n", file.format(), file.tensors().size(),
        static_cast<double>(file.file_bytes()) / (1 << 20));
    for (const auto key : file.keys()) fmt::print("  {} = {}\n", key, file.describe(key));
    fmt::print("\ntensors\n");
    for (const auto& t : file.tensors())
        fmt::print(
            "  {:<40} {:<6} {:>20} {:>12} bytes\n", t.name, kernels::info(t.type).name, shape_text(t), t.bytes());
}

result<void> run(const inspect_options& o) {
    TROUPE_TRY(const auto file, model::model_file::open(o.model));
    std::optional<model::model_plan> plan;
    json::object plan_object;
    model::load_options load;
    TROUPE_TRY(load.ops, kernels::table("auto"));
    kernels::pool threads(1);
    load.threads = &threads;
    load.kv_type = *kernels::dtype_from_name(o.kv_type);
    load.n_ctx = static_cast<std::int32_t>(o.ctx);
    auto planned = model::plan(*file, load);
    if (planned) {
        plan = *std::move(planned);
        plan_object = plan_json(*plan, o.ctx > 0 ? o.ctx : plan->info.n_ctx_train, o.max_seqs);
    } else if (o.plan) {
        return planned.error();  // metadata of a model that cannot be served can still be looked at
    }
    if (!o.json) {
        print_file(*file);
        if (o.plan) print_plan(plan_object);
        print_text_side(text_json(*file));
        return {};
    }
    json::object out, metadata;
    for (const auto key : file->keys()) metadata[key] = file->describe(key);
    out["format"] = file->format();
    out["metadata"] = std::move(metadata);
    json::array tensors;
    for (const auto& t : file->tensors())
        tensors.push_back(json::object{{"name", t.name}, {"type", kernels::info(t.type).name},
            {"shape", json::value_from(t.shape)}, {"bytes", t.bytes()}});
    out["tensors"] = std::move(tensors);
    if (plan) {
        out["model"] = info_json(plan->info);
        out["plan"] = std::move(plan_object);
    }
    out["text"] = text_json(*file);
    fmt::print("{}\n", json::serialize(out));
    return {};
}

}  // namespace

int inspect(const inspect_options& o) {
    const auto r = run(o);
    return r ? 0 : report(r.error());
}

}  // namespace troupe::cli
