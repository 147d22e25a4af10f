#include "actors/executor/plan_runner.hpp"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "actors/plan.hpp"
#include "tests/actors/executor/plan_helper.hpp"
#include "tests/support/fake_backend.hpp"

namespace troupe::actors {
namespace {

using test::fake_backend;
using test::plan_writer;

struct bench {
    explicit bench(test::fake_options o = {})
        : backend(std::move(o)),
          runner(backend, page, faults, [this](sequence_id id) { return cancelled.contains(id); }) {}
    progress_page page;
    std::vector<std::string> fired;
    fault_injector faults{[this](std::string_view k) { fired.emplace_back(k); }};
    fake_backend backend;
    std::set<sequence_id> cancelled;
    plan_runner runner;
};

std::vector<token_id> prompt(std::int32_t n, std::int32_t salt = 0) {
    std::vector<token_id> ids;
    for (std::int32_t i = 0; i < n; ++i) ids.push_back((i * 7 + salt * 13 + 3) % 61);
    return ids;
}

sequence_params sampled(std::int64_t max_tokens = 1000) {
    return {
        .temperature = 0.9f, .top_p = 0.95f, .repeat_penalty = 1.1f, .top_k = 40, .seed = 42, .max_tokens = max_tokens};
}

/// Prefill in chunks, then decode, until `n` tokens are there or the sequence ended.
std::vector<row_result> generate(bench& b, plan_writer& w, sequence_id id, const std::vector<token_id>& tokens,
    std::int64_t n_prompt, const sequence_params& params, std::size_t n, std::int32_t chunk = 1 << 20) {
    std::vector<row_result> out;
    const auto size = static_cast<std::int32_t>(tokens.size());
    for (std::int32_t pos = 0; pos < size; pos += chunk) {
        plan p = w.next();
        if (pos == 0) w.open(p, id, tokens, n_prompt, params);
        const auto rows = std::min(chunk, size - pos);
        w.row(p, id, pos, rows, pos + rows == size);
        const auto r = b.runner.run(p);
        if (pos + rows == size)
            out.push_back(r.rows.at(0));
        else
            EXPECT_EQ(r.rows.at(0).status, row_status::ok);
    }
    for (std::int32_t pos = size; out.size() < n && !out.back().ended; ++pos) {
        plan p = w.next();
        w.row(p, id, pos, 1, true);
        out.push_back(b.runner.run(p).rows.at(0));
    }
    return out;
}

std::vector<token_id> ids(const std::vector<row_result>& rows) {
    std::vector<token_id> out;
    for (const auto& r : rows)
        if (r.sampled) out.push_back(r.token);
    return out;
}

std::vector<token_id> reference(const sequence_params& params, std::size_t n, std::int32_t n_prompt = 40) {
    bench b;
    plan_writer w;
    return ids(generate(b, w, 1, prompt(n_prompt), n_prompt, params, n));
}

TEST(plan_runner, answers_the_same_whatever_the_chunks) {
    const auto expected = reference(sampled(), 30);
    ASSERT_EQ(expected.size(), 30u);
    for (const std::int32_t chunk : {1, 7, 16, 33}) {
        bench b;
        plan_writer w;
        EXPECT_EQ(ids(generate(b, w, 1, prompt(40), 40, sampled(), 30, chunk)), expected) << "chunk " << chunk;
    }
    bench narrow({.max_rows = 3});
    plan_writer w;
    EXPECT_EQ(ids(generate(narrow, w, 1, prompt(40), 40, sampled(), 30)), expected) << "one row in many passes";
}

TEST(plan_runner, answers_the_same_beside_neighbours) {
    const auto expected = reference(sampled(), 20);
    bench b;
    plan_writer w;
    plan p = w.next();
    for (sequence_id id = 1; id <= 8; ++id) {
        w.open(p, id, prompt(40, id == 1 ? 0 : static_cast<std::int32_t>(id)), 40, sampled());
        w.row(p, id, 0, 40, true);
    }
    std::vector<token_id> got{b.runner.run(p).rows.at(0).token};
    for (std::int32_t pos = 40; got.size() < 20; ++pos) {
        p = w.next();
        for (sequence_id id = 8; id >= 1; --id) w.row(p, id, pos, 1, true);
        const auto r = b.runner.run(p);
        ASSERT_EQ(r.rows.size(), 8u);
        EXPECT_EQ(r.rows[7].seq, 1u);
        got.push_back(r.rows[7].token);
    }
    EXPECT_EQ(got, expected);
}

TEST(plan_runner, goes_on_after_a_restart_with_the_same_tokens) {
    for (const float temperature : {0.0f, 0.9f}) {
        auto params = sampled(25);
        params.temperature = temperature;
        const auto expected = reference(params, 100);
        ASSERT_EQ(expected.size(), 25u);
        for (const std::size_t accepted : {1u, 9u, 24u}) {
            bench fresh;
            plan_writer w;
            auto tokens = prompt(40);
            tokens.insert(tokens.end(), expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(accepted));
            auto rest = generate(fresh, w, 9, tokens, 40, params, 100, 13);
            EXPECT_TRUE(rest.back().ended);
            EXPECT_EQ(ids(rest),
                std::vector<token_id>(expected.begin() + static_cast<std::ptrdiff_t>(accepted), expected.end()));
        }
    }
}

TEST(plan_runner, ends_at_an_end_token_and_voids_what_follows) {
    auto params = sampled();
    const auto free_run = reference(params, 30);
    params.end_tokens = {free_run[5]};
    std::size_t first = 0;
    while (free_run[first] != free_run[5]) ++first;
    bench b;
    plan_writer w;
    const auto rows = generate(b, w, 1, prompt(40), 40, params, 30);
    EXPECT_EQ(rows.size(), first + 1);
    EXPECT_TRUE(rows.back().ended);
    EXPECT_EQ(rows.back().token, free_run[5]);
    const auto passes = b.backend.passes();
    plan p = w.next();
    w.row(p, 1, 40 + static_cast<std::int32_t>(rows.size()) - 1, 1, true);
    const auto r = b.runner.run(p);
    EXPECT_EQ(r.rows.at(0).status, row_status::void_row);
    EXPECT_FALSE(r.rows.at(0).sampled);
    EXPECT_EQ(b.backend.passes(), passes) << "a void row costs nothing";
}

TEST(plan_runner, bans_end_tokens_before_min_tokens_also_after_a_restart) {
    auto params = sampled();
    const auto free_run = reference(params, 12);
    params.end_tokens = free_run;  // whatever it would like to say ends it
    params.min_tokens = 6;
    bench b;
    plan_writer w;
    const auto rows = generate(b, w, 1, prompt(40), 40, params, 200);
    const auto got = ids(rows);
    ASSERT_GE(got.size(), 7u);
    for (std::size_t i = 0; i < 6; ++i)
        EXPECT_EQ(std::count(params.end_tokens.begin(), params.end_tokens.end(), got[i]), 0) << i;
    bench fresh;
    plan_writer again;
    auto tokens = prompt(40);
    tokens.insert(tokens.end(), got.begin(), got.begin() + 3);
    const auto rest = ids(generate(fresh, again, 1, tokens, 40, params, 200));
    EXPECT_EQ(rest, std::vector<token_id>(got.begin() + 3, got.end()));
}

TEST(plan_runner, ends_at_max_tokens_and_at_the_end_of_the_context) {
    EXPECT_EQ(reference(sampled(5), 100).size(), 5u);
    bench b({.n_ctx = 48});
    plan_writer w;
    const auto rows = generate(b, w, 1, prompt(40), 40, sampled(), 100);
    EXPECT_EQ(rows.size(), 8u);
    EXPECT_TRUE(rows.back().ended);
    bench none;
    plan_writer w0;
    const auto empty = generate(none, w0, 1, prompt(40), 40, sampled(0), 100);
    EXPECT_TRUE(empty.at(0).ended);
    EXPECT_FALSE(empty.at(0).sampled);
}

TEST(plan_runner, reads_cancel_flags_between_passes) {
    bench* bench_in_pass = nullptr;
    bench b({.max_rows = 8, .on_pass = [&](std::int64_t pass) {
                 if (pass == 2) bench_in_pass->cancelled.insert(1);
             }});
    bench_in_pass = &b;
    plan_writer w;
    plan p = w.next();
    w.open(p, 1, prompt(80), 80, sampled());
    w.open(p, 2, prompt(10), 10, sampled());
    w.row(p, 1, 0, 80, true);
    w.row(p, 2, 0, 10, true);
    const auto r = b.runner.run(p);
    EXPECT_EQ(r.rows.at(0).status, row_status::void_row);
    EXPECT_FALSE(r.rows.at(0).sampled);
    EXPECT_EQ(r.rows.at(1).status, row_status::ok);
    EXPECT_EQ(b.backend.rows(), 3 * 8 + 10) << "three chunks had run or were running when the stop came";
    p = w.next();
    w.row(p, 1, 0, 8, false);
    EXPECT_EQ(b.runner.run(p).rows.at(0).status, row_status::void_row);
}

TEST(plan_runner, fails_only_the_sequence_whose_logits_are_not_finite) {
    const auto expected = reference(sampled(), 10);
    bench b;
    plan_writer w;
    plan p = w.next();
    w.open(p, 1, prompt(40), 40, sampled());
    w.open(p, 2, prompt(30, 5), 30, sampled(), true);
    w.row(p, 1, 0, 40, true);
    w.row(p, 2, 0, 30, true);
    ASSERT_TRUE(b.faults.arm({.kind = "nan", .after_steps = 2, .only_watched = true}));
    std::vector<token_id> got;
    std::vector<row_status> other;
    for (std::int32_t i = 0; i < 10; ++i) {
        const auto r = b.runner.run(p);
        got.push_back(r.rows.at(0).token);
        other.push_back(r.rows.at(1).status);
        p = w.next();
        w.row(p, 1, 40 + i, 1, true);
        w.row(p, 2, 30 + i, 1, true);
    }
    EXPECT_EQ(got, expected);
    EXPECT_EQ(other[0], row_status::ok);
    EXPECT_EQ(other[1], row_status::ok);
    for (std::size_t i = 2; i < other.size(); ++i) EXPECT_EQ(other[i], row_status::not_finite) << i;
    EXPECT_EQ(b.fired, std::vector<std::string>{"nan (watched)"});
}

/// 61 tokens: letters, digits, some pairs; 59 and 60 without bytes.
test::fake_options with_pieces() {
    test::fake_options o;
    for (int i = 0; i < 26; ++i) o.pieces.emplace_back(1, static_cast<char>('a' + i));
    for (int i = 0; i < 10; ++i) o.pieces.emplace_back(1, static_cast<char>('0' + i));
    while (o.pieces.size() < 59) o.pieces.push_back(o.pieces[o.pieces.size() - 36] + o.pieces[o.pieces.size() - 20]);
    o.pieces.resize(61);
    return o;
}

std::string text_of(const test::fake_options& o, const std::vector<row_result>& rows) {
    std::string text;
    for (const auto& r : rows) text += o.pieces[static_cast<std::size_t>(r.token)];
    return text;
}

TEST(plan_runner, keeps_to_a_grammar_ends_with_it_and_goes_on_after_a_restart) {
    const auto options = with_pieces();
    for (const float temperature : {0.0f, 1.3f}) {
        bench b(options);
        plan_writer w;
        auto params = sampled(100);
        params.temperature = temperature;
        params.end_tokens = {60};
        params.grammar = "root ::= [a-f]{4,12} ([0-9] [0-9])+ \"z\"";
        const auto whole = generate(b, w, 1, prompt(9), 9, params, 100);
        const auto text = text_of(options, whole);
        ASSERT_TRUE(whole.back().ended && whole.back().complete) << text;
        ASSERT_EQ(text.back(), 'z');
        ASSERT_GE(text.size(), 7u);
        const auto letters = text.find_first_not_of("abcdef");
        EXPECT_TRUE(letters >= 4 && letters <= 12) << text;
        EXPECT_EQ(text.find_first_not_of("0123456789", letters), text.size() - 1) << text;
        // A new incarnation is given what was accepted and draws the same rest.
        for (std::size_t cut = 1; cut < whole.size(); cut += 3) {
            bench fresh(options);
            plan_writer again;
            auto tokens = prompt(9);
            for (std::size_t i = 0; i < cut; ++i) tokens.push_back(whole[i].token);
            const auto rest = generate(fresh, again, 7, tokens, 9, params, 100);
            ASSERT_EQ(rest.size(), whole.size() - cut);
            for (std::size_t i = 0; i < rest.size(); ++i) ASSERT_EQ(rest[i].token, whole[cut + i].token);
        }
    }
}

TEST(plan_runner, a_grammar_that_may_end_lets_the_end_token_through) {
    const auto options = with_pieces();
    bench b(options);
    plan_writer w;
    auto params = sampled(100);
    params.end_tokens = {60};
    params.bias_ids = {60};
    params.bias_values = {100.0f};
    params.grammar = "root ::= \"ab\" [a-z]*";
    params.min_tokens = 5;
    const auto rows = generate(b, w, 1, prompt(9), 9, params, 100);
    EXPECT_EQ(rows.back().token, 60);
    EXPECT_FALSE(rows.back().complete);
    EXPECT_GE(rows.size(), 6u);
    // min_tokens cannot ask for more than the grammar has.
    params.grammar = "root ::= \"ab\"";
    const auto two = generate(b, w, 2, prompt(9, 1), 9, params, 100);
    EXPECT_TRUE(two.back().complete);
}

TEST(plan_runner, a_grammar_that_the_vocabulary_cannot_write_fails_that_sequence_only) {
    bench b(with_pieces());
    plan_writer w;
    auto params = sampled(100);
    params.grammar = "root ::= \"a\" \"!\"";
    const auto rows = generate(b, w, 1, prompt(9), 9, params, 2);
    EXPECT_EQ(rows.at(0).status, row_status::ok);
    EXPECT_EQ(rows.at(1).status, row_status::constraint_failed);
    EXPECT_FALSE(rows.at(1).sampled);
    EXPECT_EQ(generate(b, w, 2, prompt(9, 1), 9, sampled(), 5).size(), 5u);
    bench none;
    plan_writer other;
    EXPECT_EQ(generate(none, other, 1, prompt(9), 9, params, 1).at(0).status, row_status::constraint_failed);
}

TEST(plan_runner, gives_log_probabilities_of_the_prompt_whole_or_in_chunks) {
    auto params = sampled(3);
    params.prompt_logprobs = true;
    params.n_logprobs = 2;
    const auto collect = [&](std::int32_t chunk, std::int32_t max_rows) {
        bench b({.max_rows = max_rows});
        plan_writer w;
        std::vector<token_score> all;
        for (std::int32_t pos = 0; pos < 40; pos += chunk) {
            plan p = w.next();
            if (pos == 0) w.open(p, 1, prompt(40), 40, params);
            w.row(p, 1, pos, std::min(chunk, 40 - pos), pos + chunk >= 40);
            const auto r = b.runner.run(p);
            for (auto& score : unpack_scores(r.rows.at(0).prompt_scores)) all.push_back(std::move(score));
        }
        return all;
    };
    const auto same = [](const token_score& a, const token_score& b) {
        return a.logprob == b.logprob && a.top.size() == b.top.size() && a.top[1].id == b.top[1].id &&
               a.top[1].logprob == b.top[1].logprob;
    };
    const auto whole = collect(40, 64);
    ASSERT_EQ(whole.size(), 39u);
    for (const auto& x : whole) {
        EXPECT_TRUE(x.logprob < 0 && std::isfinite(x.logprob));
        ASSERT_EQ(x.top.size(), 2u);
        EXPECT_GE(x.top[0].logprob, x.top[1].logprob);
    }
    for (const auto& other : {collect(9, 64), collect(40, 4)})
        EXPECT_TRUE(std::equal(whole.begin(), whole.end(), other.begin(), other.end(), same));
}

TEST(plan_runner, embeds_a_prompt_the_same_whole_or_in_chunks) {
    const auto embed = [&](pooling pool, std::int32_t chunk, std::int32_t max_rows) {
        sequence_params params;
        params.pool = pool;
        params.max_tokens = 1;
        bench b({.max_rows = max_rows});
        plan_writer w;
        for (std::int32_t pos = 0;; pos += chunk) {
            plan p = w.next();
            if (pos == 0) {
                w.open(p, 1, prompt(40), 40, params);
                w.open(p, 2, prompt(20), 20, sampled(3));
            }
            const bool last = pos + chunk >= 40;
            w.row(p, 1, pos, std::min(chunk, 40 - pos), last);
            if (pos == 0) w.row(p, 2, 0, 20, true);  // a neighbour that generates
            const auto r = b.runner.run(p);
            EXPECT_TRUE(pos > 0 || r.rows.at(1).sampled);
            EXPECT_EQ(r.rows.at(0).embedding.empty(), !last);
            EXPECT_EQ(r.rows.at(0).ended, last);
            EXPECT_FALSE(r.rows.at(0).sampled);
            if (last) return unpack_floats(r.rows.at(0).embedding);
        }
    };
    for (const pooling pool : {pooling::mean, pooling::last}) {
        const auto whole = embed(pool, 40, 64);
        ASSERT_EQ(whole.size(), 4u);
        double square = 0;
        for (const float x : whole) square += static_cast<double>(x) * x;
        EXPECT_NEAR(square, 1, 1e-6);
        EXPECT_EQ(embed(pool, 7, 64), whole);
        EXPECT_EQ(embed(pool, 40, 5), whole);
    }
    EXPECT_NE(embed(pooling::mean, 40, 64), embed(pooling::last, 40, 64));
}

TEST(plan_runner, mirostat_goes_on_from_the_mu_it_is_given) {
    auto params = sampled(3);
    params.mirostat = 2;
    params.mirostat_tau = 2;
    params.max_tokens = 12;
    const auto run = [&](std::vector<token_id> known, float mu, std::size_t n) {
        bench b;
        plan_writer w;
        std::vector<std::pair<token_id, float>> got;
        for (std::size_t i = 0; i < n; ++i) {
            plan p = w.next();
            const auto size = static_cast<std::int32_t>(known.size());
            if (i == 0) {
                w.open(p, 1, known, 10, params);
                p.opens[0].mu = mu;
            }
            w.row(p, 1, i == 0 ? 0 : size - 1, i == 0 ? size : 1, true);
            const auto r = b.runner.run(p).rows.at(0);
            got.emplace_back(r.token, r.mu);
            known.push_back(r.token);
        }
        return got;
    };
    const auto whole = run(prompt(10), 4, 8);
    auto known = prompt(10);
    for (int i = 0; i < 5; ++i) known.push_back(whole[static_cast<std::size_t>(i)].first);
    const auto rest = run(known, whole[4].second, 3);
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), whole.begin() + 5));
}

TEST(plan_runner, a_copied_block_continues_like_the_original) {
    const auto expected = reference(sampled(), 10);
    bench b;
    plan_writer w;
    generate(b, w, 1, prompt(40), 40, sampled(), 1);
    // Sequence 2 shares blocks 0 and 1 and gets a copy of the partial block 2: only the last token is computed anew.
    plan p = w.next();
    w.open(p, 2, prompt(40), 40, sampled());
    p.ops.push_back({kv_op_kind::commit_segment, 0, 0, 40});
    p.ops.push_back({kv_op_kind::copy_block, 0, 2, 160});
    p.rows.push_back({.seq = 2, .pos = 39, .n = 1, .sample = true, .tables = {{0, 0, {0, 1, 160}}}});
    auto r = b.runner.run(p);
    EXPECT_EQ(r.ops_ok, (std::vector<std::uint8_t>{1, 1}));
    std::vector<token_id> got{r.rows.at(0).token};
    for (std::int32_t pos = 40; pos < 49; ++pos) {
        plan q = w.next();
        plan_row row{.seq = 2, .pos = pos, .n = 1, .sample = true};
        if (pos == 48) row.tables.push_back({0, 3, {161}});
        q.rows.push_back(row);
        got.push_back(b.runner.run(q).rows.at(0).token);
    }
    EXPECT_EQ(got, expected);
}

TEST(plan_runner, sees_every_layer_group) {
    const auto run = [](std::int32_t chunk) {
        bench b({.windows = {0, 24}});
        plan_writer w({4, 4});
        return ids(generate(b, w, 1, prompt(70), 70, sampled(), 20, chunk));
    };
    EXPECT_EQ(run(70), run(9));
    EXPECT_EQ(run(70).size(), 20u);
}

TEST(plan_runner, refuses_what_it_does_not_know) {
    bench b;
    plan_writer w;
    plan p = w.next();
    w.row(p, 77, 0, 4, false);
    EXPECT_EQ(b.runner.run(p).rows.at(0).status, row_status::void_row);
    p = w.next();
    w.open(p, 1, {1, 2, 61}, 3, sampled());
    w.row(p, 1, 0, 3, true);
    EXPECT_EQ(b.runner.run(p).rows.at(0).status, row_status::not_finite);
    p = w.next();
    w.open(p, 2, {1, 2, 3}, 3, sampled());
    w.row(p, 2, 0, 4, true);
    EXPECT_EQ(b.runner.run(p).rows.at(0).status, row_status::void_row) << "a token nobody has sampled";
}

TEST(plan_runner, a_closed_sequence_is_forgotten_and_may_be_opened_anew) {
    bench b;
    plan_writer w;
    const auto first = ids(generate(b, w, 1, prompt(40), 40, sampled(), 5));
    plan p = w.next();
    p.closes.push_back(1);
    w.forget(1);
    w.open(p, 1, prompt(40), 40, sampled());
    w.row(p, 1, 0, 40, true);
    EXPECT_EQ(b.runner.run(p).rows.at(0).token, first[0]);
    p = w.next();
    p.closes.push_back(1);
    w.row(p, 1, 40, 1, true);
    EXPECT_EQ(b.runner.run(p).rows.at(0).status, row_status::void_row);
}

TEST(plan_runner, reports_a_failed_commit_and_counts_work_on_the_page) {
    bench b;
    ASSERT_TRUE(b.runner.warm_up());
    EXPECT_EQ(b.backend.segments(), 0u);
    ASSERT_TRUE(b.faults.arm({.kind = "alloc_fail"}));
    plan p{.epoch = 1, .id = 5};
    p.ops = {{kv_op_kind::commit_segment, 0, 0, 3}, {kv_op_kind::commit_segment, 0, 0, 4},
        {kv_op_kind::release_segment, 0, 0, 4}};
    const auto r = b.runner.run(p);
    EXPECT_EQ(r.ops_ok, (std::vector<std::uint8_t>{0, 1, 1}));
    EXPECT_EQ(r.plan, 5u);
    EXPECT_EQ(b.page.plan_started, 5u);
    EXPECT_EQ(b.page.plans_done, 1u);
    EXPECT_EQ(b.page.steps_done, 0u) << "a plan without rows is no step";
    plan_writer w;
    generate(b, w, 1, prompt(20), 20, sampled(), 1);
    EXPECT_EQ(b.page.steps_done, 1u);
    EXPECT_GE(b.page.progress, 6u);
    EXPECT_GT(b.page.tick_ns, 0u);
}

TEST(fault_injector, counts_steps_from_arming_and_firings) {
    std::vector<std::string> fired;
    fault_injector f([&](std::string_view k) { fired.emplace_back(k); });
    EXPECT_FALSE(f.arm({.kind = "rust"}));
    ASSERT_TRUE(f.arm({.kind = "slow", .after_steps = 2, .times = 2, .slow_ms = 30}));
    std::vector<std::int64_t> slow;
    for (int i = 0; i < 6; ++i) slow.push_back(f.begin_step(false).slow_ms);
    EXPECT_EQ(slow, (std::vector<std::int64_t>{0, 0, 30, 30, 0, 0}));
    EXPECT_EQ(fired.size(), 2u);
    ASSERT_TRUE(f.arm({.kind = "nan", .only_watched = true}));
    EXPECT_FALSE(f.begin_step(false).nan);
    EXPECT_TRUE(f.begin_step(true).nan);
    EXPECT_FALSE(f.begin_step(true).nan);
}

}  // namespace
}  // namespace troupe::actors
