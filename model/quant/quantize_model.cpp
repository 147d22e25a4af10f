// Plans everything (and refuses what cannot be done) before the output is created, then goes tensor by tensor.
#include "model/quant/quantize_model.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <span>

#include "kernels/pool.hpp"
#include "model/formats/gguf_parse.hpp"
#include "model/formats/gguf_write.hpp"
#include "model/quant/quantize_row.hpp"

namespace troupe::model {
namespace {

using kernels::dtype;

/// Output bytes converted at a time.
constexpr std::uint64_t piece_bytes = 32u << 20;
/// The largest f16: no value of a block may need a larger scale.
constexpr float largest_half = 65504.0f;
/// Of ggml's block formats; files carry it.
constexpr std::uint32_t quantization_version = 2;

std::string type_name(dtype type) { return std::string(kernels::info(type).name); }

struct job {
    const model_tensor* tensor;
    tensor_plan plan;
    std::span<const float> importance;  ///< [experts][cols] or empty
};

/// Rows that share one row of the importance matrix.
std::int64_t rows_an_expert(const model_tensor& t) { return t.shape.size() > 1 ? t.shape[1] : 1; }

result<std::span<const float>> importance_of(const quantize_options& o, const model_tensor& t) {
    if (o.importance == nullptr) return std::span<const float>();
    const auto found = o.importance->find(t.name);
    const std::int64_t wanted = t.cols() * (t.rows() / rows_an_expert(t));
    if (found.empty() || static_cast<std::int64_t>(found.size()) == wanted) return found;
    // Embeddings are looked up, not multiplied with, unless they are the output matrix too; that entry is of no use.
    if (t.name == "token_embd.weight") return std::span<const float>();
    return fail(errc::model_malformed,
        "the importance matrix has " + std::to_string(found.size()) + " values for tensor " +
            detail::printable_name(t.name) + ", which needs " + std::to_string(wanted),
        "imatrix");
}

result<std::vector<job>> plan_jobs(const model_file& file, const quantize_options& o) {
    TROUPE_TRY(const auto splits, file.get_uint("split.count"));
    if (splits.value_or(1) > 1)
        return fail(errc::model_unsupported, "the file is one of several parts; join them first", "split.count");
    std::vector<tensor_plan> plans;
    if (!o.copy) {
        TROUPE_TRY(plans, plan_tensor_types(file, o.choice));
    }
    std::vector<job> jobs;
    for (std::size_t i = 0; i < file.tensors().size(); ++i) {
        const model_tensor& t = file.tensors()[i];
        job j{&t, o.copy ? tensor_plan{t.type, false} : plans[i], {}};
        if (j.plan.type != t.type) {
            if (!can_quantize_to(j.plan.type))
                return fail(errc::model_unsupported, "tensors of type " + type_name(j.plan.type) + " are not written");
            if (kernels::info(t.type).quantized && !o.allow_requantize)
                return fail(errc::model_unsupported,
                    "tensor " + detail::printable_name(t.name) + " is already " + type_name(t.type) +
                        "; --allow-requantize loses quality on top of what it lost",
                    t.name);
            TROUPE_TRY(j.importance, importance_of(o, t));
        }
        jobs.push_back(j);
    }
    return jobs;
}

gguf_changes changes_of(const quantize_options& o) {
    gguf_changes c;
    if (!o.copy) {
        c.set("general.quantization_version", quantization_version);
        c.set("general.file_type", static_cast<std::uint32_t>(o.choice.type));
    }
    for (const char* key : {"split.no", "split.count", "split.tensors.count"}) c.remove(key);
    if (o.importance == nullptr || o.copy) return c;
    c.set("quantize.imatrix.file", o.importance_file);
    if (!o.importance->dataset.empty()) c.set("quantize.imatrix.dataset", o.importance->dataset);
    c.set("quantize.imatrix.entries_count", static_cast<std::uint32_t>(o.importance->entries.size()));
    if (o.importance->chunks > 0) c.set("quantize.imatrix.chunks_count", o.importance->chunks);
    return c;
}

/// Converts rows on all threads.
class converter {
 public:
    explicit converter(int n_threads) : threads_(n_threads), scratch_(static_cast<std::size_t>(n_threads)) {}

    result<void> convert(const job& j, gguf_output& out) {
        const model_tensor& t = *j.tensor;
        if (j.plan.type == t.type) {
            std::vector<std::byte> copy;
            return out.append(t.contents(copy));
        }
        const std::int64_t cols = t.cols(), rows = t.rows();
        const std::uint64_t row_out = kernels::row_bytes(j.plan.type, cols);
        const auto piece = static_cast<std::int64_t>(std::max<std::uint64_t>(1, piece_bytes / row_out));
        for (scratch& s : scratch_) s.resize(t);
        for (std::int64_t begin = 0; begin < rows; begin += piece) {
            const std::int64_t n = std::min(piece, rows - begin);
            buffer_.resize(static_cast<std::size_t>(n) * row_out);
            if (!convert_rows(j, begin, n))
                return fail(errc::model_malformed,
                    "tensor " + detail::printable_name(t.name) + " holds values that are not finite or too large for " +
                        type_name(j.plan.type),
                    t.name);
            TROUPE_TRYV(out.append(buffer_));
        }
        return {};
    }

 private:
    /// One row, as it is stored (where it is not simply mapped) and as floats.
    struct scratch {
        std::vector<std::byte> stored;
        std::vector<float> values;
        void resize(const model_tensor& t) {
            if (t.source != nullptr) stored.resize(kernels::row_bytes(t.type, t.cols()));
            values.resize(static_cast<std::size_t>(t.cols()));
        }
    };

    bool convert_rows(const job& j, std::int64_t begin, std::int64_t n) {
        const model_tensor& t = *j.tensor;
        const std::int64_t cols = t.cols();
        const std::size_t row_in = kernels::row_bytes(t.type, cols), row_out = kernels::row_bytes(j.plan.type, cols);
        const bool wide = j.plan.type == dtype::f32 || j.plan.type == dtype::bf16;
        const float limit = wide ? std::numeric_limits<float>::max() : largest_half;
        std::atomic<bool> good = true;
        threads_.run(n, [&](std::int64_t i, int thread) {
            const std::int64_t row = begin + i;
            scratch& s = scratch_[static_cast<std::size_t>(thread)];
            const std::byte* stored = t.data.data() + static_cast<std::size_t>(row) * row_in;
            if (t.source != nullptr) {
                t.source->read_rows(row, 1, s.stored.data());
                stored = s.stored.data();
            }
            float* x = s.values.data();
            kernels::dequantize(t.type, stored, cols, x);
            if (!std::all_of(x, x + cols, [&](float v) { return std::fabs(v) <= limit; })) {
                good = false;
                return;
            }
            const float* importance =
                j.importance.empty() ? nullptr : j.importance.data() + row / rows_an_expert(t) * cols;
            quantize_row(j.plan.type, x, importance, cols, buffer_.data() + static_cast<std::size_t>(i) * row_out);
        });
        return good;
    }

    kernels::pool threads_;
    std::vector<scratch> scratch_;  ///< a thread
    std::vector<std::byte> buffer_;
};

}  // namespace

result<quantize_summary> quantize_model(
    const quantize_options& o, const std::function<void(const quantize_step&)>& report) {
    std::error_code ignored;
    if (!o.dry_run && std::filesystem::equivalent(o.input, o.output, ignored))
        return fail(errc::usage, "input and output are the same file");
    TROUPE_TRY(const auto file, model_file::open(o.input));
    TROUPE_TRY(const auto jobs, plan_jobs(*file, o));
    std::vector<gguf_output_tensor> tensors;
    quantize_summary summary;
    for (const job& j : jobs) {
        tensors.push_back({j.tensor->name, j.tensor->shape, j.plan.type});
        summary.bytes_before += j.tensor->bytes();
        summary.bytes_after += tensors.back().bytes();
        summary.values += static_cast<std::uint64_t>(j.tensor->cols() * j.tensor->rows());
        summary.n_fallback += j.plan.fallback ? 1 : 0;
    }
    std::optional<gguf_output> out;
    if (!o.dry_run) {
        TROUPE_TRY(gguf_output created, gguf_output::create(o.output, *file, changes_of(o), tensors));
        out.emplace(std::move(created));
    }
    converter convert(o.dry_run ? 1 : o.n_threads);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        const job& j = jobs[i];
        const bool changes = j.plan.type != j.tensor->type;
        report({j.tensor, j.plan.type, tensors[i].bytes(), j.plan.fallback,
            changes && o.importance != nullptr && j.importance.empty(), i, jobs.size()});
        if (!out) continue;
        TROUPE_TRYV(convert.convert(j, *out));
        TROUPE_TRYV(out->end_tensor());
    }
    if (out) {
        TROUPE_TRYV(out->commit());
    }
    return summary;
}

}  // namespace troupe::model
