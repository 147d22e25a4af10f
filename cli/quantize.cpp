// troupe quantize: arguments and lines as llama-quantize has them.
#include <cstdio>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "model/quant/quantize_model.hpp"
#include "model/quant/quantize_row.hpp"

namespace troupe::cli {
namespace {

double mib(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::string lower(std::string text) {
    for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return text;
}

result<kernels::dtype> tensor_type(const std::string& name, const std::string& option) {
    const auto type = kernels::dtype_from_name(lower(name));
    if (type && model::can_quantize_to(*type)) return *type;
    return fail(errc::usage, fmt::format("--{}: '{}' is no tensor type that can be written", option, name), option);
}

/// IN [OUT] TYPE [THREADS]. Without OUT the file is named after its type and lies beside the input.
result<model::quantize_options> read_words(const quantize_arguments& a) {
    model::quantize_options o;
    const auto is_type = [](const std::string& w) { return lower(w) == "copy" || model::file_type_from_name(w); };
    std::vector<std::string> words = a.words;
    o.input = words.at(0);
    const bool named = words.size() > 2 && !(is_type(words[1]) && !is_type(words[2]));
    const std::size_t at = named ? 2 : 1;
    const std::string& type = words.at(at);
    if (!is_type(type))
        return fail(errc::usage,
            fmt::format("'{}' is no file type; there are {} and COPY", type, model::file_type_names()), "type");
    o.copy = lower(type) == "copy";
    if (!o.copy) o.choice.type = *model::file_type_from_name(type);
    const std::string name = o.copy ? "copy" : std::string(model::file_type_name(o.choice.type));
    o.output =
        named ? std::filesystem::path(words[1]) : o.input.parent_path() / fmt::format("ggml-model-{}.gguf", name);
    o.n_threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    if (words.size() > at + 2) return fail(errc::usage, fmt::format("one word too many: '{}'", words[at + 2]));
    if (words.size() == at + 2) {
        const std::string& threads = words[at + 1];
        const bool digits =
            !threads.empty() && threads.size() < 5 && threads.find_first_not_of("0123456789") == std::string::npos;
        if (!digits || std::stoi(threads) > 1024)
            return fail(errc::usage, fmt::format("'{}' is no number of threads in 0..1024", threads), "threads");
        if (const int n = std::stoi(threads); n > 0) o.n_threads = n;
    }
    return o;
}

/// Keeps the entries that --include-weights and --exclude-weights leave.
void filter(model::importance_matrix& m, const quantize_arguments& a) {
    const auto named = [](const std::string& tensor, const std::vector<std::string>& parts) {
        for (const auto& part : parts)
            if (tensor.find(part) != std::string::npos) return true;
        return false;
    };
    std::erase_if(m.entries, [&](const auto& e) {
        return named(e.first, a.exclude_weights) || (!a.include_weights.empty() && !named(e.first, a.include_weights));
    });
}

result<void> read_choice(const quantize_arguments& a, model::type_choice& c) {
    c.pure = a.pure;
    c.keep_output = a.leave_output_tensor;
    if (!a.output_tensor_type.empty()) {
        TROUPE_TRY(c.output, tensor_type(a.output_tensor_type, "output-tensor-type"));
    }
    if (!a.token_embedding_type.empty()) {
        TROUPE_TRY(c.embedding, tensor_type(a.token_embedding_type, "token-embedding-type"));
    }
    for (const std::string& rule : a.tensor_types) {
        const auto equals = rule.find('=');
        if (equals == std::string::npos || equals == 0)
            return fail(errc::usage, fmt::format("--tensor-type: '{}' is not NAME=TYPE", rule), "tensor-type");
        TROUPE_TRY(const auto type, tensor_type(rule.substr(equals + 1), "tensor-type"));
        c.with_name.emplace_back(rule.substr(0, equals), type);
    }
    return {};
}

void print_step(const model::quantize_step& s) {
    std::string shape;
    for (const auto n : s.tensor->shape) shape += fmt::format("{}{}", shape.empty() ? "" : ", ", n);
    fmt::print("[{:4}/{:4}] {:<36} - [{}], type = {:>6}, ", s.index + 1, s.count, s.tensor->name, shape,
        kernels::info(s.tensor->type).name);
    if (s.type == s.tensor->type)
        fmt::print("size = {:.3f} MiB", mib(s.bytes));
    else
        fmt::print("converting to {}, size = {:.2f} MiB -> {:.2f} MiB", kernels::info(s.type).name,
            mib(s.tensor->bytes()), mib(s.bytes));
    fmt::print("{}{}\n", s.fallback ? " (fallback: the rows are no whole blocks)" : "",
        s.without_importance ? " (not in the importance matrix)" : "");
    std::fflush(stdout);
}

result<void> run(const quantize_arguments& a) {
    TROUPE_TRY(model::quantize_options o, read_words(a));
    TROUPE_TRYV(read_choice(a, o.choice));
    o.allow_requantize = a.allow_requantize;
    o.dry_run = a.dry_run;
    model::importance_matrix importance;
    if (!a.imatrix.empty()) {
        TROUPE_TRY(importance, model::read_importance(a.imatrix));
        filter(importance, a);
        fmt::print("importance matrix: {} entries, {} chunks of '{}'\n", importance.entries.size(), importance.chunks,
            importance.dataset);
        if (!importance.entries.empty()) o.importance = &importance;
        o.importance_file = a.imatrix;
        o.choice.importance = o.importance != nullptr;
    }
    TROUPE_TRY(const auto sum, model::quantize_model(o, print_step));
    const auto bits = [&](std::uint64_t bytes) {
        return 8.0 * static_cast<double>(bytes) / static_cast<double>(std::max<std::uint64_t>(1, sum.values));
    };
    fmt::print("model size  = {:8.2f} MiB ({:.2f} BPW)\n", mib(sum.bytes_before), bits(sum.bytes_before));
    fmt::print("quant size  = {:8.2f} MiB ({:.2f} BPW)\n", mib(sum.bytes_after), bits(sum.bytes_after));
    if (sum.n_fallback > 0) fmt::print("{} tensor(s) needed another type than the mix wants\n", sum.n_fallback);
    if (!o.dry_run) fmt::print("written to {}\n", o.output.string());
    return {};
}

}  // namespace

int quantize(const quantize_arguments& a) {
    const auto done = run(a);
    return done ? 0 : report(done.error());
}

}  // namespace troupe::cli
