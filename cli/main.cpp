// troupe COMMAND [options]: parses the command line and calls the command.
#include <cstdio>
#include <map>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands.hpp"
#include "core/options.hpp"
#include "model/quant/file_type.hpp"

namespace troupe::cli {
namespace {

/// The option table as flags of one command; values are read back by resolve().
class table_flags {
 public:
    explicit table_flags(CLI::App& app) {
        app.add_option("--config", file_, "Read options from this TOML file.")->type_name("FILE");
        for (const auto& o : options()) {
            const auto names =
                (o.short_name.empty() ? "" : fmt::format("-{},", o.short_name)) + fmt::format("--{}", o.name);
            if (o.is_switch()) {
                flags_[&o] =
                    app.add_flag(fmt::format("{},!--no-{}", names, o.name), switches_[&o], std::string(o.help));
                continue;
            }
            auto* flag = app.add_option(names, values_[&o], std::string(o.help));
            flag->type_name(
                o.choices.empty() ? std::string(o.placeholder) : fmt::format("{}", fmt::join(o.choices, "|")));
            if (!o.repeatable()) flag->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
            if (!o.section.empty()) section_ = o.section;
            flag->group(std::string(section_));
            flags_[&o] = flag;
        }
    }

    result<config> resolve() const {
        flag_values given;
        for (const auto& [o, flag] : flags_) {
            if (flag->count() == 0) continue;
            if (o->is_switch())
                given.push_back({o, {switches_.at(o) ? "true" : "false"}});
            else
                given.push_back({o, values_.at(o)});
        }
        return resolve_config(given, file_.empty() ? std::nullopt : std::optional<std::filesystem::path>(file_));
    }

 private:
    std::string file_;
    std::string_view section_ = "Options";
    std::map<const option*, CLI::Option*> flags_;
    std::map<const option*, std::vector<std::string>> values_;
    std::map<const option*, bool> switches_;
};

struct serve_command {
    explicit serve_command(CLI::App& top)
        : app(top.add_subcommand("serve", "The engine: chat page, WebSocket and HTTP interfaces.")), flags(*app) {
        app->add_flag("--print-default-config", print_default, "Print configs/default.toml and exit.");
    }
    int run() const {
        if (print_default) {
            std::fputs(default_toml().c_str(), stdout);
            return 0;
        }
        const auto c = flags.resolve();
        return c ? serve(*c) : report(c.error());
    }
    CLI::App* app;
    table_flags flags;
    bool print_default = false;
};

struct chat_command {
    explicit chat_command(CLI::App& top)
        : app(top.add_subcommand("chat", "A conversation in the terminal.")), flags(*app) {
        app->add_option("--server", o.server, "URL of a running server; without it the model is loaded here.")
            ->type_name("URL");
        app->add_option("--key", o.key, "API key for --server.")->type_name("KEY");
        app->add_option("--system", o.system, "System prompt.")->type_name("TEXT");
    }
    int run() {
        auto c = flags.resolve();
        if (!c) return report(c.error());
        o.settings = *std::move(c);
        return chat(o);
    }
    CLI::App* app;
    table_flags flags;
    chat_options o;
};

struct generate_command {
    explicit generate_command(CLI::App& top)
        : app(top.add_subcommand("generate", "Continue a text; the answer alone goes to stdout.")) {
        app->add_option("-m,--model", o.model, "Model file.")->required()->type_name("PATH");
        app->add_option("-p,--prompt", o.prompt, "Text to continue.")->required()->type_name("TEXT");
        app->add_option("-n,--n-predict", o.n, "Tokens to generate.")
            ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 24));
        app->add_option("--temperature", temperature, "0 = always the likeliest token.")->check(CLI::Range(0.0, 5.0));
        app->add_option("--seed", seed, "Seed; negative = random.");
        app->add_option("--top-k", top_k, "0 = off.")->check(CLI::Range(-1, 1 << 24));
        app->add_option("--top-p", top_p, "1 = off.")->check(CLI::Range(1e-6, 1.0));
        app->add_option("--min-p", min_p, "0 = off.")->check(CLI::Range(0.0, 1.0));
        app->add_option("-t,--threads", o.threads, "0 = one a core.")->check(CLI::Range(0, 1024));
        app->add_option("-c,--ctx-size", o.ctx, "0 = the model's.")->check(CLI::Range(0, 1 << 24));
        app->add_option("--kernels", o.kernels, "Kernel table.")
            ->check(CLI::IsMember({"auto", "ref", "avx2", "avx512"}));
        app->add_option("--kv-type", o.kv_type, "Type of the key/value memory.")
            ->check(CLI::IsMember({"f16", "bf16", "f32", "q8_0"}));
        app->add_flag("--ignore-eos", o.ignore_eos, "Go on after the end of the text.");
    }
    int run() {
        o.params.temperature = temperature;
        o.params.seed = seed;
        o.params.top_k = top_k;
        o.params.top_p = top_p;
        o.params.min_p = min_p;
        return generate(o);
    }
    CLI::App* app;
    generate_options o;
    double temperature = 0.8, top_p = 0.95, min_p = 0.05;
    std::int64_t seed = -1;
    std::int32_t top_k = 40;
};

struct bench_command {
    explicit bench_command(CLI::App& top)
        : app(top.add_subcommand("bench", "Speed of prompt and generation, as llama-bench prints it.")) {
        app->add_option("-m,--model", o.models, "Model file; repeatable.")->required()->type_name("PATH");
        app->add_option("-p,--n-prompt", prompt, "Prompt lengths (lists 1,2; ranges 16-64+16, 1-8*2).");
        app->add_option("-n,--n-gen", gen, "Generated lengths.");
        app->add_option("-d,--n-depth", depth, "Tokens already in the context.");
        app->add_option("--pg", pg, "PROMPT,GENERATED pairs (llama-bench's -pg); repeatable.");
        app->add_option("-t,--threads", threads, "0 = one a core.");
        app->add_option("-r,--repetitions", o.repetitions, "Counted runs.")->check(CLI::Range(1, 1000));
        app->add_option("--cache-type-k,--ctk", kv, "Type of the key/value memory (llama-bench's -ctk).");
        app->add_option("--kernels", o.kernels, "Kernel table.")
            ->check(CLI::IsMember({"auto", "ref", "avx2", "avx512"}));
        app->add_option("-o,--output", o.output, "md, json, jsonl or csv.")
            ->check(CLI::IsMember({"md", "json", "jsonl", "csv"}));
    }
    result<void> resolve() {
        const auto list = [](const std::vector<std::string>& texts, std::vector<std::int64_t>& to) -> result<void> {
            if (texts.empty()) return {};
            to.clear();
            for (const auto& text : texts) {
                TROUPE_TRY(const auto values, parse_range_list(text));
                to.insert(to.end(), values.begin(), values.end());
            }
            return {};
        };
        TROUPE_TRYV(list(prompt, o.n_prompt));
        TROUPE_TRYV(list(gen, o.n_gen));
        TROUPE_TRYV(list(depth, o.depths));
        TROUPE_TRYV(list(threads, o.threads));
        for (const auto& text : pg) {
            TROUPE_TRY(const auto pair, parse_range_list(text));
            if (pair.size() != 2)
                return fail(errc::usage, fmt::format("-pg: '{}' is not PROMPT,GENERATED", text), "pg");
            o.prompt_gen.emplace_back(pair[0], pair[1]);
        }
        if (kv.empty()) return {};
        o.kv_types.clear();
        for (std::size_t at = 0; at <= kv.size();) {
            const auto comma = std::min(kv.find(',', at), kv.size());
            o.kv_types.push_back(kv.substr(at, comma - at));
            at = comma + 1;
        }
        return {};
    }
    int run() {
        if (const auto good = resolve(); !good) return report(good.error());
        return bench(o);
    }
    CLI::App* app;
    bench_options o;
    std::vector<std::string> prompt, gen, depth, threads, pg;
    std::string kv;
};

struct inspect_command {
    explicit inspect_command(CLI::App& top)
        : app(top.add_subcommand("inspect", "Metadata, tensors and memory plan of a model file.")) {
        app->add_option("model,-m,--model", o.model, "Model file.")->required()->type_name("PATH");
        app->add_flag("--plan", o.plan, "Memory needed for --ctx-size and --max-seqs.");
        app->add_flag("--json", o.json, "JSON instead of text.");
        app->add_option("-c,--ctx-size", o.ctx, "0 = the model's.")->check(CLI::Range(0, 1 << 24));
        app->add_option("--max-seqs", o.max_seqs, "Sequences at a time.")->check(CLI::Range(1, 64));
        app->add_option("--kv-type", o.kv_type, "Type of the key/value memory.")
            ->check(CLI::IsMember({"f16", "bf16", "f32", "q8_0"}));
    }
    CLI::App* app;
    inspect_options o;
};

struct quantize_command {
    explicit quantize_command(CLI::App& top)
        : app(top.add_subcommand("quantize", "A GGUF model in other types, as llama-quantize does it.")) {
        app->add_option(
               "words", o.words, "IN [OUT] TYPE [THREADS]; TYPE is one of " + model::file_type_names() + ", COPY.")
            ->required()
            ->expected(2, 4)
            ->type_name("WORD");
        app->add_flag("--allow-requantize", o.allow_requantize, "Quantize what is quantized already; loses quality.");
        app->add_flag("--leave-output-tensor", o.leave_output_tensor, "Keep output.weight as it is.");
        app->add_flag("--pure", o.pure, "No mix: every matrix gets the same type.");
        app->add_flag("--dry-run", o.dry_run, "Report types and sizes, write nothing.");
        const auto text = [&](const char* name, std::string& to, const char* help, const char* kind) {
            app->add_option(name, to, help)->type_name(kind);
        };
        text("--imatrix", o.imatrix, "Importance matrix: llama-imatrix's GGUF or its older format.", "FILE");
        text("--output-tensor-type", o.output_tensor_type, "Type of output.weight.", "TYPE");
        text("--token-embedding-type", o.token_embedding_type, "Type of token_embd.weight.", "TYPE");
        const auto texts = [&](const char* name, std::vector<std::string>& to, const char* help, const char* kind) {
            app->add_option(name, to, help)->type_name(kind)->allow_extra_args(false);
        };
        texts("--include-weights", o.include_weights,
            "Use the matrix only for tensors whose name contains this; repeatable.", "TEXT");
        texts("--exclude-weights", o.exclude_weights, "Do not use it for these; repeatable.", "TEXT");
        texts(
            "--tensor-type", o.tensor_types, "Type of the tensors whose name contains NAME; repeatable.", "NAME=TYPE");
    }
    CLI::App* app;
    quantize_arguments o;
};

struct perplexity_command {
    explicit perplexity_command(CLI::App& top)
        : app(top.add_subcommand("perplexity", "How well a model predicts a text, as llama-perplexity prints it.")) {
        app->add_option("-m,--model", o.model, "Model file.")->required()->type_name("PATH");
        app->add_option("-f,--file", o.file, "Text; not needed with --kl-divergence.")->type_name("FILE");
        app->add_option("-c,--ctx-size", o.ctx, "Tokens of a chunk; its second half is scored.")
            ->check(CLI::Range(8, 1 << 24));
        app->add_option("--chunks", o.chunks, "Only so many chunks; below 1 = all.")->check(CLI::Range(-1, 1 << 24));
        app->add_option("--kl-divergence-base,--save-all-logits", o.base,
               "Log-probabilities of a base model: written, or with --kl-divergence read.")
            ->type_name("FILE");
        app->add_flag("--kl-divergence", o.compare, "Compare with --kl-divergence-base, whose text is used.");
        app->add_option("-t,--threads", o.threads, "0 = one a core.")->check(CLI::Range(0, 1024));
        app->add_option("--kernels", o.kernels, "Kernel table.")
            ->check(CLI::IsMember({"auto", "ref", "avx2", "avx512"}));
        app->add_option("--kv-type,--cache-type-k,--ctk", o.kv_type, "Type of the key/value memory.")
            ->check(CLI::IsMember({"f16", "bf16", "f32", "q8_0"}));
    }
    int run() const {
        if (o.file.empty() && !o.compare) return report(fail(errc::usage, "--file: a text is needed", "file"));
        return perplexity(o);
    }
    CLI::App* app;
    perplexity_options o;
};

/// llama-bench spells two of its flags with one dash and several letters, which CLI11 reads as bundles.
std::vector<std::string> words_of(int argc, char** argv) {
    std::vector<std::string> words(argv + 1, argv + argc);
    for (auto& w : words) {
        if (w == "-pg") w = "--pg";
        if (w == "-ctk") w = "--ctk";
    }
    return words;
}

int run(int argc, char** argv) {
    auto words = words_of(argc, argv);
    // Called by `serve` with words that both sides read and write through one function; no flags of this table.
    if (!words.empty() && words[0] == "executor" && (words.size() < 2 || words[1] != "--help"))
        return executor({words.begin() + 1, words.end()});

    CLI::App app("Troupe: a language-model serving engine built from actors.", "troupe");
    app.set_version_flag("--version", version_text());
    app.require_subcommand(1);
    serve_command serve_(app);
    app.add_subcommand("executor", "The process that owns a device; started by `serve`.");
    chat_command chat_(app);
    generate_command generate_(app);
    bench_command bench_(app);
    perplexity_command perplexity_(app);
    inspect_command inspect_(app);
    quantize_command quantize_(app);
    app.add_subcommand("doctor", "Not available in this version.")->allow_extras();
    try {
        std::reverse(words.begin(), words.end());
        app.parse(words);
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
        return report(fail(errc::usage, e.what()));
    }
    if (*serve_.app) return serve_.run();
    if (*chat_.app) return chat_.run();
    if (*generate_.app) return generate_.run();
    if (*bench_.app) return bench_.run();
    if (*perplexity_.app) return perplexity_.run();
    if (*inspect_.app) return inspect(inspect_.o);
    if (*quantize_.app) return quantize(quantize_.o);
    return report(fail(
        errc::usage, fmt::format("'{}' is not available in this version", app.get_subcommands().front()->get_name())));
}

}  // namespace

int report(const error& e) {
    std::fflush(stdout);
    fmt::print(stderr, "troupe: {}: {}\n", info(e.code).name, e.message);
    return info(e.code).exit_code;
}

}  // namespace troupe::cli

int main(int argc, char** argv) { return troupe::cli::run(argc, argv); }
