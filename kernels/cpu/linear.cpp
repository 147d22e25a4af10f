// `linear` of the CPU tables: quantizes x once, cuts the jobs into tasks and hands them to the ISA's kernels.
#include "kernels/cpu/linear.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/linear_kernels.hpp"
#include "kernels/cpu/pack.hpp"

namespace troupe::kernels {
namespace {

constexpr std::int64_t act_values = 32;
constexpr int max_jobs = 16;
/// Packed weights a task goes over more than once: they should stay in a core's L2 beside the activations.
constexpr std::int64_t task_weight_bytes = 64 * 1024;
constexpr std::int64_t activation_bytes = 160 * 1024;
/// Tasks a thread gets of one call, so that a thread that was interrupted does not keep the others waiting.
constexpr std::int64_t tasks_per_thread = 6;
/// Weight bytes times tokens below which handing a task out costs a noticeable share of it.
constexpr std::int64_t task_min_work = 8 * 1024;
/// Groups the kernels of float types take at once.
constexpr std::int64_t float_groups = 4;
/// Quantizing takes about 0.4 ns a value (Zen 3): below this many values a second thread does not pay.
constexpr std::int64_t parallel_quantize_values = 16 * 1024;

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// How one job is cut: group chunks times token chunks; first_task counts over all jobs of the call.
struct job_plan {
    linear_args args;
    linear_rows_fn rows = nullptr;
    std::int64_t groups = 0, chunk_groups = 0, token_chunk = 0, group_chunks = 0, first_task = 0;
};

bool takes_int8(const linear_job& job) { return info(job.w->type).quantized; }

/// `wanted`: tasks the job should be cut into, if it is large enough.
job_plan plan_job(
    const linear_kernels& set, const linear_job& job, std::int64_t n, std::int64_t cols, std::int64_t wanted) {
    const weight& w = *job.w;
    CHECK(w.cols == cols, "all jobs share x");
    const packed_group layout = packed_group_layout(w.type, cols, set.lanes);
    job_plan p;
    p.args = {.w = w.data,
        .rows = w.rows,
        .cols = cols,
        .group_bytes = layout.bytes,
        .scale_bytes = layout.scale_bytes,
        .n = n,
        .bias = job.bias,
        .y = job.y,
        .ldy = job.ldy};
    p.rows = set.rows[static_cast<int>(w.type)];
    p.groups = div_up(w.rows, set.lanes);
    const std::int64_t least = div_up(task_min_work, layout.bytes * n);
    p.chunk_groups = std::max(div_up(p.groups, wanted), std::min(least, p.groups));
    // A single pass over the weights gains nothing from chunks that fit the cache.
    const bool several_passes = n > set.lanes;
    if (several_passes)
        p.chunk_groups = std::min(p.chunk_groups, std::max<std::int64_t>(1, task_weight_bytes / layout.bytes));
    if (!takes_int8(job)) p.chunk_groups = div_up(p.chunk_groups, float_groups) * float_groups;
    p.group_chunks = div_up(p.groups, p.chunk_groups);
    // Few rows and many tokens: cut the tokens too. Which task computes a token does not change its bits.
    const std::int64_t token_chunks = std::clamp<std::int64_t>(wanted / p.group_chunks, 1, div_up(n, 32));
    p.token_chunk = div_up(div_up(n, token_chunks), 8) * 8;
    return p;
}

std::int64_t tasks_of(const job_plan& p) { return p.group_chunks * div_up(p.args.n, p.token_chunk); }

/// Task i of a job: its groups over its tokens, in token blocks that stay in the cache.
void run_task(const job_plan& p, std::int64_t i) {
    const std::int64_t begin = i % p.group_chunks * p.chunk_groups;
    const std::int64_t end = std::min(begin + p.chunk_groups, p.groups);
    const std::int64_t first = i / p.group_chunks * p.token_chunk;
    const std::int64_t last = std::min(first + p.token_chunk, p.args.n);
    const std::int64_t blocks = p.args.cols / act_values;
    const std::int64_t row_size = p.args.q ? blocks * static_cast<std::int64_t>(sizeof(act_block))
                                           : p.args.cols * static_cast<std::int64_t>(sizeof(float));
    const std::int64_t step =
        std::max<std::int64_t>(24, activation_bytes / row_size / 24 * 24);  // whole tiles of 3 and 8
    for (std::int64_t token = first; token < last; token += step) {
        linear_args a = p.args;
        a.n = std::min(step, last - token);
        if (a.q) a.q += token * blocks;
        if (a.x) a.x += token * a.cols;
        a.y += token * a.ldy;
        p.rows(a, begin, end);
    }
}

void quantize_rows(
    context& c, const linear_kernels& set, const float* x, std::int64_t n, std::int64_t cols, act_block* out) {
    const std::int64_t blocks = cols / act_values;
    if (n * cols < parallel_quantize_values) {
        for (std::int64_t i = 0; i < n; ++i) set.quantize(x + i * cols, cols, out + i * blocks);
        return;
    }
    constexpr std::int64_t rows_per_task = 8;
    c.threads.run(div_up(n, rows_per_task), [&](std::int64_t task, int) {
        for (std::int64_t i = task * rows_per_task; i < std::min((task + 1) * rows_per_task, n); ++i)
            set.quantize(x + i * cols, cols, out + i * blocks);
    });
}

std::size_t scratch_bytes(std::int64_t max_rows, std::int64_t max_cols) {
    return static_cast<std::size_t>(max_rows * div_up(max_cols, act_values)) * sizeof(act_block);
}

void run_linear(context& c, const linear_kernels& set, const float* x, std::int64_t n, std::int64_t cols,
    const linear_job* jobs, int n_jobs) {
    CHECK(n_jobs <= max_jobs, "a call has few jobs");
    act_block* q = nullptr;
    if (std::any_of(jobs, jobs + n_jobs, takes_int8)) {
        CHECK(c.scratch.size() >= scratch_bytes(n, cols), "scratch is reserved for the largest step");
        q = reinterpret_cast<act_block*>(c.scratch.data());
        quantize_rows(c, set, x, n, cols, q);
    }
    job_plan plans[max_jobs];
    std::int64_t tasks = 0;
    for (int j = 0; j < n_jobs; ++j) {
        plans[j] = plan_job(set, jobs[j], n, cols, c.threads.size() * tasks_per_thread);
        if (takes_int8(jobs[j]))
            plans[j].args.q = q;
        else
            plans[j].args.x = x;
        plans[j].first_task = tasks;
        tasks += tasks_of(plans[j]);
    }
    c.threads.run(tasks, [&](std::int64_t task, int) {
        int j = n_jobs - 1;
        while (plans[j].first_task > task) --j;
        run_task(plans[j], task - plans[j].first_task);
    });
}

// -- stacks ---------------------------------------------------------------------------------------------------

/// Everything a product of a stack keeps in scratch: x of every slot, in order and as the kernels take it.
struct stack_memory {
    act_block* q = nullptr;
    float* x = nullptr;
    job_plan* plans = nullptr;  // [jobs * matrices]
};

stack_memory cut_stack(cpu::arena& a, std::int64_t values, std::int64_t matrices) {
    const auto n = static_cast<std::size_t>(values);
    return {a.array<act_block>((n + act_values - 1) / act_values), a.array<float>(n),
        a.array<job_plan>(static_cast<std::size_t>(matrices * most_stack_jobs))};
}

std::size_t stack_scratch_bytes(std::int64_t values, std::int64_t matrices) {
    cpu::arena a;
    cut_stack(a, values, matrices);
    return a.used();
}

/// Rows of x in the order of slots: quantized, copied, or both.
void gather(context& c, const linear_kernels& set, const float* x, std::int64_t ldx, std::int64_t cols,
    const slot_map& map, act_block* q, float* copy) {
    constexpr std::int64_t slots_per_task = 8;
    const std::int64_t slots = map.slots(), blocks = cols / act_values;
    c.threads.run(div_up(slots, slots_per_task), [&](std::int64_t task, int) {
        for (std::int64_t s = task * slots_per_task; s < std::min((task + 1) * slots_per_task, slots); ++s) {
            const float* row = x + map.x_row(s) * ldx;
            if (q) set.quantize(row, cols, q + s * blocks);
            if (copy) std::copy_n(row, cols, copy + s * cols);
        }
    });
}

bool takes_int8(const stack_job& job) { return info(job.w->type).quantized; }

void run_stack(context& c, const linear_kernels& set, const float* x, std::int64_t ldx, const slot_map& map,
    const stack_job* jobs, int n_jobs) {
    const std::int64_t cols = jobs[0].w->cols;
    cpu::arena a(c.scratch);
    stack_memory memory = cut_stack(a, map.slots() * cols, map.matrices);
    if (std::none_of(jobs, jobs + n_jobs, [](const stack_job& j) { return takes_int8(j); })) memory.q = nullptr;
    if (std::all_of(jobs, jobs + n_jobs, [](const stack_job& j) { return takes_int8(j); })) memory.x = nullptr;
    gather(c, set, x, ldx, cols, map, memory.q, memory.x);

    std::int64_t met = 0, n_plans = 0, tasks = 0;
    for (std::int64_t m = 0; m < map.matrices; ++m) met += map.count(m) > 0 ? n_jobs : 0;
    const std::int64_t wanted = div_up(c.threads.size() * tasks_per_thread, std::max<std::int64_t>(met, 1));
    for (int j = 0; j < n_jobs; ++j) {
        const weight_stack& w = *jobs[j].w;
        CHECK(w.count == map.matrices && w.cols == cols, "all jobs share x and its slots");
        const std::size_t bytes = packed_weight_bytes(w.type, w.rows, cols, set.lanes);
        for (std::int64_t m = 0; m < map.matrices; ++m) {
            if (map.count(m) == 0) continue;
            const weight one{w.type, w.rows, cols, w.data + static_cast<std::size_t>(m) * bytes};
            const linear_job job{&one, nullptr, jobs[j].y + map.y_row(m) * jobs[j].ldy, jobs[j].ldy * map.y_step()};
            job_plan& p = memory.plans[n_plans++];
            p = plan_job(set, job, map.count(m), cols, wanted);
            if (takes_int8(jobs[j]))
                p.args.q = memory.q + map.begin(m) * (cols / act_values);
            else
                p.args.x = memory.x + map.begin(m) * cols;
            p.first_task = tasks;
            tasks += tasks_of(p);
        }
    }
    c.threads.run(tasks, [&](std::int64_t task, int) {
        const job_plan* p = std::upper_bound(memory.plans, memory.plans + n_plans, task,
            [](std::int64_t t, const job_plan& plan) { return t < plan.first_task; });
        run_task(p[-1], task - p[-1].first_task);
    });
}

template <const linear_kernels& Set> struct ops_of {
    static std::size_t packed_bytes(dtype type, std::int64_t rows, std::int64_t cols) {
        return packed_weight_bytes(type, rows, cols, Set.lanes);
    }
    static void pack(
        pool& threads, dtype type, std::int64_t rows, std::int64_t cols, const std::byte* src, std::byte* dst) {
        pack_weight(threads, type, rows, cols, Set.lanes, Set.offset_q8, src, dst);
    }
    static void linear(
        context& c, const float* x, std::int64_t n, std::int64_t cols, const linear_job* jobs, int n_jobs) {
        run_linear(c, Set, x, n, cols, jobs, n_jobs);
    }
    static void stack(
        context& c, const float* x, std::int64_t ldx, const slot_map& map, const stack_job* jobs, int n_jobs) {
        run_stack(c, Set, x, ldx, map, jobs, n_jobs);
    }
    static constexpr linear_ops ops = {packed_bytes, pack, linear, scratch_bytes, stack, stack_scratch_bytes};
};

}  // namespace

const linear_ops avx2::linear = ops_of<avx2::linear_kernel_set>::ops;
const linear_ops avx512::linear = ops_of<avx512::linear_kernel_set>::ops;

}  // namespace troupe::kernels
