// Loading (plan, memory check, pack, scratch) and the step's bookkeeping; the arithmetic is the family's.
#include "model/model.hpp"

#include <algorithm>
#include <string>

#include "core/check.hpp"
#include "model/architectures/architecture.hpp"
#include "model/host_memory.hpp"
#include "model/model_info.hpp"
#include "model/weights.hpp"

namespace troupe::model {
namespace {

std::uint64_t aligned(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }

/// A checked description of a file: nothing is loaded yet.
struct description {
    std::unique_ptr<builder> parts;
    std::unique_ptr<network> net;
    model_info info;
    kv_layout layout;
    std::int32_t n_ctx = 0;
};

/// Byte counts of the regions of the step's memory, in this order in one allocation.
struct scratch_sizes {
    std::uint64_t ops = 0, activations = 0, rows = 0, block_pointers = 0;
    std::uint64_t populated() const { return ops + activations + rows; }
};

result<const architecture*> find_architecture(const model_file& file) {
    TROUPE_TRY(const auto name, file.get_string("general.architecture"));
    if (!name) return fail(errc::model_malformed, "the file lacks 'general.architecture'", "general.architecture");
    std::string known;
    for (const architecture* a : architectures()) {
        if (a->name == *name) return a;
        known += (known.empty() ? "" : ", ") + std::string(a->name);
    }
    return fail(errc::model_unsupported,
        "architecture '" + std::string(name->substr(0, 64)) + "' is not one of " + known, "general.architecture");
}

kv_layout make_layout(std::span<const layer_group> groups, const load_options& options) {
    kv_layout layout;
    layout.type = options.kv_type;
    layout.groups.assign(groups.begin(), groups.end());
    std::uint64_t bytes = std::max<std::uint64_t>(options.segment_bytes, huge_page);
    for (const layer_group& g : layout.groups) bytes = std::max(bytes, g.block_bytes);
    layout.segment_bytes = (bytes + huge_page - 1) / huge_page * huge_page;
    for (layer_group& g : layout.groups)
        g.blocks_per_segment = static_cast<std::uint32_t>(layout.segment_bytes / g.block_bytes);
    return layout;
}

result<description> describe(const model_file& file, const load_options& options) {
    CHECK(options.ops != nullptr);
    constexpr std::int32_t most_rows = 1 << 16;
    constexpr std::uint64_t largest_segment = 1ull << 32;
    if (options.max_rows < 1 || options.max_rows > most_rows)
        return fail(errc::usage, "rows of a step must be in 1.." + std::to_string(most_rows), "max-rows");
    if (options.n_ctx < 0) return fail(errc::usage, "the context must not be negative", "ctx-size");
    if (options.segment_bytes > largest_segment)
        return fail(errc::usage, "KV segments above 4 GiB are not built", "segment-bytes");
    TROUPE_TRY(const architecture* family, find_architecture(file));
    description d;
    d.parts = std::make_unique<builder>(file, family->name, options.kv_type, options.n_ctx);
    d.net = family->describe(*d.parts);
    TROUPE_TRYV(d.parts->finish());
    const decoder_dims& dims = d.parts->dims();
    d.info = read_info(file, family->name, dims);
    d.info.numerics = d.parts->numerics();
    d.layout = make_layout(d.parts->groups(), options);
    d.n_ctx = options.n_ctx == 0 ? dims.n_ctx_train : std::min(options.n_ctx, dims.n_ctx_train);
    return d;
}

scratch_sizes sizes_of(const description& d, const load_options& options) {
    const auto rows = static_cast<std::uint64_t>(options.max_rows);
    const decoder_dims& dims = d.parts->dims();
    scratch_sizes s;
    const builder::stack_use& stacks = d.parts->stacks();
    s.ops = aligned(options.ops->scratch_bytes({.max_rows = options.max_rows,
        .max_cols = std::max<std::int64_t>(d.parts->weights().max_cols(), dims.n_embd),
        .n_heads = dims.n_heads,
        .head_dim = dims.head_dim,
        .n_threads = options.threads != nullptr ? options.threads->size() : 1,
        .stack_values = options.max_rows * stacks.values,
        .stack_count = stacks.count}));
    for (const auto& a : d.parts->activations())
        s.activations += aligned(rows * static_cast<std::uint64_t>(a.width) * sizeof(float));
    const std::uint64_t groups = d.layout.groups.size();
    s.rows = 2 * aligned(rows * sizeof(std::int32_t)) + groups * aligned(rows * sizeof(kernels::attention_seq));
    const std::uint64_t blocks = (static_cast<std::uint64_t>(d.n_ctx) + block_tokens - 1) / block_tokens;
    s.block_pointers = groups * rows * blocks * sizeof(std::byte*);
    return s;
}

/// Hands out consecutive aligned pieces.
class arena {
 public:
    explicit arena(std::byte* begin) : at_(begin) {}
    template <class T> T* take(std::uint64_t count) {
        T* piece = reinterpret_cast<T*>(at_);
        at_ += aligned(count * sizeof(T));
        return piece;
    }

 private:
    std::byte* at_;
};

class loaded_model final : public model {
 public:
    loaded_model(std::shared_ptr<const model_file> file, const load_options& options, description d)
        : file_(std::move(file)), ops_(*options.ops), threads_(*options.threads), max_rows_(options.max_rows),
          description_(std::move(d)) {}

    result<void> load_weights(const load_options& options);

    const model_info& info() const override { return description_.info; }
    const kv_layout& layout() const override { return description_.layout; }
    std::int32_t n_ctx() const override { return description_.n_ctx; }
    void forward(const batch& b, std::byte* kv, float* logits, std::atomic<std::uint64_t>* progress) override;

 private:
    std::int32_t fill_rows(const batch& b);
    void fill_sequences(const batch& b, std::byte* kv);
    void fill_blocks(const batch_seq& seq, std::size_t group, std::byte* kv, std::byte** pointers) const;

    std::shared_ptr<const model_file> file_;
    const kernels::ops& ops_;
    kernels::pool& threads_;
    std::int32_t max_rows_;
    description description_;
    weight_store weights_;
    anonymous_memory scratch_, pointer_memory_;
    std::span<std::byte> ops_scratch_;
    std::int32_t *ids_ = nullptr, *pos_ = nullptr;           // [max_rows]
    std::vector<kernels::attention_seq*> seqs_;              // a layer group: [max_rows]
    std::vector<const kernels::attention_seq*> const_seqs_;  // the same, as step wants them
    std::byte** block_pointers_ = nullptr;                   // consumed from the front in every step
};

result<void> loaded_model::load_weights(const load_options& options) {
    const scratch_sizes sizes = sizes_of(description_, options);
    const weight_plan& plan = description_.parts->weights();
    TROUPE_TRYV(check_memory(plan.packed_bytes(ops_) + sizes.populated(), "the model's weights and scratch memory"));
    TROUPE_TRY(weights_, weight_store::load(plan, ops_, threads_, options.progress));
    TROUPE_TRY(scratch_, anonymous_memory::map(sizes.populated(), "the model's scratch memory", true));
    // Block pointers of the largest imaginable step are many; a real step touches a few pages of them.
    TROUPE_TRY(pointer_memory_, anonymous_memory::map(sizes.block_pointers, "block pointers", false));
    arena memory(scratch_.bytes().data());
    ops_scratch_ = {memory.take<std::byte>(sizes.ops), sizes.ops};
    const auto rows = static_cast<std::uint64_t>(max_rows_);
    for (const auto& a : description_.parts->activations()) {
        const std::uint64_t count = rows * static_cast<std::uint64_t>(a.width);
        if (a.floats)
            *a.floats = memory.take<float>(count);
        else
            *a.indices = memory.take<std::int32_t>(count);
    }
    ids_ = memory.take<std::int32_t>(rows);
    pos_ = memory.take<std::int32_t>(rows);
    for (std::size_t g = 0; g < layout().groups.size(); ++g) seqs_.push_back(memory.take<kernels::attention_seq>(rows));
    const_seqs_.assign(seqs_.begin(), seqs_.end());
    block_pointers_ = reinterpret_cast<std::byte**>(pointer_memory_.bytes().data());
    description_.parts.reset();
    return {};
}

std::int32_t loaded_model::fill_rows(const batch& b) {
    std::int32_t n = 0;
    for (const batch_seq& seq : b.seqs) {
        const auto count = static_cast<std::int32_t>(seq.tokens.size());
        CHECK(count >= 1 && count <= max_rows_ - n, "rows of a step");
        CHECK(seq.pos >= 0 && seq.pos <= n_ctx() - count, "positions within the context");
        for (std::int32_t i = 0; i < count; ++i) {
            const token_id id = seq.tokens[static_cast<std::size_t>(i)];
            CHECK(id >= 0 && id < info().n_vocab, "token id");
            ids_[n] = id;
            pos_[n++] = seq.pos + i;
        }
    }
    CHECK(n >= 1);
    for (const auto* rows : {&b.logit_rows, &b.hidden_rows}) {
        std::int32_t last = -1;
        for (const std::int32_t row : *rows) {
            CHECK(row > last && row < n, "rows whose results are wanted ascend");
            last = row;
        }
    }
    CHECK(b.hidden_rows.empty() || b.hidden != nullptr);
    return n;
}

void loaded_model::fill_blocks(const batch_seq& seq, std::size_t group, std::byte* kv, std::byte** pointers) const {
    const kv_layout& l = layout();
    const std::int32_t end = seq.pos + static_cast<std::int32_t>(seq.tokens.size()), window = l.groups[group].window;
    const std::int32_t first_seen = window > 0 ? std::max(0, seq.pos - window + 1) : 0;
    const auto table = seq.tables[group];
    const auto n_blocks = static_cast<std::size_t>((end + block_tokens - 1) / block_tokens);
    CHECK(table.size() >= n_blocks, "a block for every position");
    for (std::size_t i = 0; i < n_blocks; ++i) {
        CHECK(table[i] != no_block || static_cast<std::int32_t>(i + 1) * block_tokens <= first_seen,
            "a visible block is missing");
        pointers[i] = table[i] == no_block ? nullptr : kv + l.offset(group, table[i]);
    }
}

void loaded_model::fill_sequences(const batch& b, std::byte* kv) {
    std::byte** pointers = block_pointers_;
    for (std::size_t g = 0; g < layout().groups.size(); ++g) {
        int first_row = 0;
        for (std::size_t i = 0; i < b.seqs.size(); ++i) {
            const batch_seq& seq = b.seqs[i];
            const auto n_rows = static_cast<int>(seq.tokens.size());
            CHECK(seq.tables.size() == layout().groups.size(), "one table a layer group");
            fill_blocks(seq, g, kv, pointers);
            seqs_[g][i] = {first_row, n_rows, seq.pos, pointers};
            pointers += (seq.pos + n_rows + block_tokens - 1) / block_tokens;
            first_row += n_rows;
        }
    }
}

void loaded_model::forward(const batch& b, std::byte* kv, float* logits, std::atomic<std::uint64_t>* progress) {
    const std::int32_t n = fill_rows(b);
    fill_sequences(b, kv);
    kernels::context context{threads_, ops_scratch_};
    const auto rows = static_cast<std::size_t>(n);
    step s(ops_, context,
        {.ids = {ids_, rows},
            .pos = {pos_, rows},
            .logit_rows = b.logit_rows,
            .hidden_rows = b.hidden_rows,
            .seqs = const_seqs_,
            .n_seqs = static_cast<int>(b.seqs.size()),
            .logits = logits,
            .hidden = b.hidden,
            .progress = progress});
    threads_.begin_step();
    description_.net->forward(s);
    threads_.end_step();
}

}  // namespace

result<std::unique_ptr<model>> model::load(std::shared_ptr<const model_file> file, const load_options& options) {
    CHECK(options.threads != nullptr);
    TROUPE_TRY(description d, describe(*file, options));
    auto loaded = std::make_unique<loaded_model>(std::move(file), options, std::move(d));
    TROUPE_TRYV(loaded->load_weights(options));
    return std::unique_ptr<model>(std::move(loaded));
}

result<model_plan> plan(const model_file& file, const load_options& options) {
    TROUPE_TRY(description d, describe(file, options));
    const scratch_sizes sizes = sizes_of(d, options);
    return model_plan{d.info, d.layout, d.parts->weights().packed_bytes(*options.ops), sizes.populated()};
}

}  // namespace troupe::model
