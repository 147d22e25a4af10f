// troupe inspect: what is in a model file, and what serving it needs.
#include <cstdio>
#include <map>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "cli/commands.hpp"
#include "model/model.hpp"

namespace troupe::cli {
namespace json = boost::json;
namespace {

double mib(double bytes) { return bytes / (1 << 20); }

/// Bytes of KV memory for n_seqs sequences of n_ctx tokens; window layers hold their window and the block being filled.
std::uint64_t kv_bytes(const model::kv_layout& layout, std::int64_t n_ctx, std::int64_t n_seqs) {
    std::uint64_t total = 0;
    for (const auto& g : layout.groups) {
        const auto tokens = g.window > 0 ? std::min<std::int64_t>(n_ctx, g.window + model::block_tokens) : n_ctx;
        total += static_cast<std::uint64_t>((tokens + model::block_tokens - 1) / model::block_tokens * n_seqs) *
                 g.block_bytes;
    }
    return total;
}

json::object info_json(const model::model_info& i) {
    return {{"architecture", i.architecture}, {"name", i.name}, {"quantization", i.quantization},
        {"n_params", i.n_params}, {"weight_bytes", i.weight_bytes}, {"n_layers", i.n_layers}, {"n_embd", i.n_embd},
        {"n_heads", i.n_heads}, {"n_kv_heads", i.n_kv_heads}, {"head_dim", i.head_dim}, {"n_ff", i.n_ff},
        {"n_vocab", i.n_vocab}, {"n_ctx_train", i.n_ctx_train}, {"model_hash", i.model_hash}};
}

json::object plan_json(const model::model_plan& p, std::int64_t n_ctx, std::int64_t n_seqs) {
    json::array groups;
    for (const auto& g : p.layout.groups)
        groups.push_back(json::object{
            {"window", g.window}, {"layers", g.n_layers}, {"latent", g.latent}, {"block_bytes", g.block_bytes}});
    const auto kv = kv_bytes(p.layout, n_ctx, n_seqs);
    return {{"ctx", n_ctx}, {"max_seqs", n_seqs}, {"packed_weight_bytes", p.packed_bytes},
        {"scratch_bytes", p.scratch_bytes}, {"kv_bytes", kv}, {"total_bytes", p.packed_bytes + p.scratch_bytes + kv},
        {"kv_groups", std::move(groups)}};
}

std::string shape_text(const model::model_tensor& t) {
    std::string text;
    for (const auto n : t.shape) text += fmt::format("{}{}", text.empty() ? "" : " x ", n);
    return text;
}

void print_text(const model::model_file& file, const model::model_plan* plan, const json::object& plan_object) {
    fmt::print("{}, {} tensors, {:.1f} MiB\n\nmetadata\n", file.format(), file.tensors().size(),
        mib(static_cast<double>(file.file_bytes())));
    for (const auto key : file.keys()) fmt::print("  {} = {}\n", key, file.describe(key));
    fmt::print("\ntensors\n");
    for (const auto& t : file.tensors())
        fmt::print(
            "  {:<40} {:<6} {:>20} {:>12} bytes\n", t.name, kernels::info(t.type).name, shape_text(t), t.bytes());
    if (!plan) return;
    fmt::print("\nplan for {} sequences of {} tokens\n", plan_object.at("max_seqs").as_int64(),
        plan_object.at("ctx").as_int64());
    for (const auto* name : {"packed_weight_bytes", "scratch_bytes", "kv_bytes", "total_bytes"})
        fmt::print("  {:<20} {:>10.1f} MiB\n", name, mib(plan_object.at(name).to_number<double>()));
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
        print_text(*file, o.plan ? &*plan : nullptr, plan_object);
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
    fmt::print("{}\n", json::serialize(out));
    return {};
}

}  // namespace

int inspect(const inspect_options& o) {
    const auto r = run(o);
    return r ? 0 : report(r.error());
}

}  // namespace troupe::cli
