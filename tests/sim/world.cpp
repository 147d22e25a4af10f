// Worlds differ much from each other: most have a few kinds of faults, some have none, some have all.
#include "world.hpp"

#include <algorithm>
#include <array>
#include <random>

#include "fake_executor.hpp"

namespace troupe::actors::sim {
namespace {

executor_info draw_info(std::mt19937_64& random) {
    const auto pick = [&](int a, int b) { return std::uniform_int_distribution<>(a, b)(random); };
    executor_info info;
    info.numerics_id = "sim";
    info.model_hash = "sim";
    info.n_ctx = pick(0, 1) ? 400 : 250;
    info.n_vocab = vocabulary;
    info.max_rows = pick(0, 3) == 0 ? 24 : 128;
    info.segment_bytes = 4096;
    info.max_segments = static_cast<std::uint64_t>(pick(14, 60));
    const int layout = pick(0, 3);
    if (layout != 3) {  // full attention
        info.group_window.push_back(0);
        info.group_layers.push_back(2);
        info.group_block_bytes.push_back(static_cast<std::uint64_t>(pick(0, 1) ? 512 : 1024));
        info.group_latent.push_back(pick(0, 1) ? 576 : 0);
    }
    if (layout >= 1) {
        info.group_window.push_back(pick(0, 1) ? 32 : pick(5, 70));
        info.group_layers.push_back(4);
        info.group_block_bytes.push_back(static_cast<std::uint64_t>(pick(0, 1) ? 1024 : 2048));
        info.group_latent.push_back(0);
    }
    return info;
}

}  // namespace

world draw_world(std::uint64_t seed, int steps) {
    std::mt19937_64 random(seed * 7919 + 1);
    const auto pick = [&](int a, int b) { return std::uniform_int_distribution<>(a, b)(random); };
    const auto sometimes = [&](int one_in, double value) { return pick(1, one_in) == 1 ? value : 0.0; };
    world w;
    w.seed = seed;
    w.steps = steps;
    w.info = draw_info(random);
    w.longest =
        std::min<std::int64_t>(w.info.n_ctx, kv_manager(layout_of(w.info), w.info.max_segments).longest_sequence());
    w.n_conversations = pick(2, 24);
    w.n_clients = pick(1, 5);
    w.stored = pick(0, 4) * 0.25;
    w.think_ms = std::array{20, 400, 3000}[static_cast<std::size_t>(pick(0, 2))];
    if (pick(0, 5) == 0) {  // a crowd: there is always somebody of each client who waits
        w.n_conversations = 40;
        w.n_clients = 2;
        w.think_ms = 20;
    }
    w.settings.max_seqs = pick(1, 8);
    w.settings.run_ahead = pick(1, 4);
    w.settings.queue_limit = pick(3, 64);
    w.settings.queue_timeout_s = pick(0, 4) == 0 ? 5 : 3000;
    w.shrink_after_s = pick(0, 2);
    w.load_ms = pick(0, 2) == 0 ? 3000 : 80;
    w.death = sometimes(2, 0.01);
    w.deaths_look_like_crashes = pick(0, 2) == 0;
    w.hang = sometimes(4, 0.004);
    w.slow = sometimes(3, 0.02);
    w.load_failure = sometimes(5, 0.4);
    w.void_rows = sometimes(6, 0.01);
    w.stale = 0.5;
    w.commit_failure = sometimes(4, 0.3);
    w.memory_short = sometimes(5, 0.01);
    w.cancel = sometimes(2, 0.2);
    w.leave = sometimes(2, 0.3);
    w.stop_string = sometimes(2, 0.5);
    w.batch = sometimes(3, 0.3);
    w.killers = pick(0, 3) == 0 ? pick(1, 2) : 0;
    w.not_finite = w.info.group_window[0] == 0 && pick(0, 3) == 0 ? 2 : 0;
    w.session_crash = sometimes(4, 0.003);
    w.store_crash = sometimes(4, 0.003);
    w.front_kill = sometimes(4, 0.002);
    w.disk_fails = sometimes(3, 0.01);
    w.shrink = sometimes(2, 0.02);
    if (pick(0, 3) > 0) w.kv_disk = static_cast<std::uint64_t>(pick(1, 40)) * w.info.segment_bytes;
    w.image_damage = w.kv_disk > 0 ? sometimes(2, 0.4) : 0;
    return w;
}

}  // namespace troupe::actors::sim
