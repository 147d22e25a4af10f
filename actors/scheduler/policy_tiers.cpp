// What goes to the disk before it is evicted, and what comes back instead of being computed again.
#include <algorithm>

#include <fmt/format.h>

#include "actors/scheduler/policy.hpp"
#include "core/check.hpp"

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t most_saves = 2, most_loads = 4;  // at the same time
constexpr double load_overhead_ms = 2, first_load_ms_a_mib = 4, moving = 0.3;
constexpr std::chrono::milliseconds load_patience = 5s;  // then it is computed after all
constexpr double mib = 1 << 20;

}  // namespace

bool scheduler_policy::wants_save(const prefix_cache::node& n) const {
    return n.keep && disk_.room() > 0 && !disk_.has(n.prefix);
}

std::size_t scheduler_policy::n_transfers(bool loads) const {
    return static_cast<std::size_t>(
        std::count_if(transfers_.begin(), transfers_.end(), [&](const auto& t) { return t.second->load == loads; }));
}

/// Saves what is to be kept, evicts the rest, and packs what stays; comes back when a save is done.
void scheduler_policy::advance_giving(steady_time now) {
    if (!giving_ || !kv_) return;
    const auto wanted = [this](const prefix_cache::node& n) { return wants_save(n); };
    // What was saved goes before there is made room for the next, whose place it may have to give.
    for (;;) {
        kv_->give_back(*giving_, giving_->at_once ? prefix_cache::choice{} : wanted);
        if (giving_->at_once || n_transfers(false) >= most_saves) break;
        auto* leaf = kv_->cache().find_cold(giving_->evict_before, wanted);
        if (!leaf) break;
        if (!start_save(*leaf, now)) break;
    }
    if (n_transfers(false) == 0) giving_.reset();
}

/// False: it has to wait for those before it, or there would be more on the disk than may be.
bool scheduler_policy::start_save(prefix_cache::node& leaf, steady_time now) {
    auto t = std::make_unique<transfer>();
    std::vector<prefix_cache::node*> path;
    for (auto* n = &leaf; n->parent != nullptr; n = n->parent) path.push_back(n);
    std::reverse(path.begin(), path.end());
    std::uint32_t first = 0;
    while (first < path.size() && disk_.has(path[first]->prefix)) ++first;
    CHECK(first < path.size());
    kv_->hold_to_save(t->kv, &leaf, first, t->job);
    kv_part& part = t->job.parts.front();
    kv_image_info& image = t->image;
    image.first_block = first;
    image.groups.resize(path.size() - first);
    for (std::size_t i = first; i < path.size(); ++i) image.keys.push_back(path[i]->prefix);
    for (std::size_t i = 0; i < part.blocks.size(); ++i) {
        image.groups[part.index[i] - first] |= 1u << part.group[i];
        image.bytes += kv_->layout().groups[part.group[i]].block_bytes;
    }
    image.file = part.file = fmt::format("{:016x}-{:016x}.kv", path[first]->prefix, leaf.prefix);
    t->leaf = &leaf;
    std::uint64_t in_flight = 0;
    for (const auto& [id, other] : transfers_) in_flight += other->load ? 0 : other->image.bytes;
    if (in_flight + image.bytes > disk_.room()) {
        const bool never = image.bytes > disk_.room();
        if (never) leaf.keep = false;
        kv_->unfix(t->job);
        kv_->release(t->kv, false);
        return never;
    }
    drop_images(disk_.make_room(in_flight + image.bytes));
    t->since = now;
    t->sent = true;
    t->job.kind = kv_job_kind::save;
    t->job.id = next_job_++;
    jobs_.push_back(t->job);
    transfers_.emplace(t->job.id, std::move(t));
    return true;
}

void scheduler_policy::drop_images(std::vector<std::string> files) {
    if (files.empty()) return;
    counters_.images_dropped += files.size();
    kv_job job{.id = 0, .kind = kv_job_kind::drop};
    for (auto& f : files) job.parts.push_back({.file = std::move(f)});
    jobs_.push_back(std::move(job));
}

// ---- back

/// Whoever waited for a load in vain has time left to find memory.
std::chrono::milliseconds scheduler_policy::patience() const {
    return std::min(load_patience, std::chrono::milliseconds(settings_.queue_timeout_s * 1000 / 2));
}

double scheduler_policy::load_ms(std::uint64_t bytes) const {
    const double a_mib = load_ms_a_mib_ > 0 ? load_ms_a_mib_ : first_load_ms_a_mib;
    return load_overhead_ms + a_mib * static_cast<double>(bytes) / mib;
}

/// True while the request waits for a part of its prompt to come from the disk.
bool scheduler_policy::awaits_load(entry& e, steady_time now) {
    if (e.load != 0) return true;
    const bool whole = e.request.params.wants_whole_prompt() && !e.first_token;
    if (e.load_tried || disk_.size() == 0 || whole || n_transfers(true) >= most_loads) return false;
    e.load_tried = true;
    auto at_hand = kv_->cache().find(e.tokens, e.known() - 1, false);
    auto found = disk_.find(e.tokens, static_cast<std::uint32_t>(at_hand.path.size()), e.known() - 1);
    if (found.end == 0) return false;
    const auto from = static_cast<std::int64_t>(at_hand.path.size()) * model::block_tokens;
    const double compute = costs_.prompt_ms(std::int64_t{found.end} * model::block_tokens - from, from);
    if (costs_.knows_prompt() && compute <= load_ms(found.bytes)) return false;
    auto t = std::make_unique<transfer>();
    t->load = true;
    t->since = now;
    t->tokens.assign(e.tokens.begin(), e.tokens.begin() + std::int64_t{found.end} * model::block_tokens);
    t->from = static_cast<std::uint32_t>(at_hand.path.size());
    t->found = std::move(found);
    t->job.id = next_job_++;
    t->job.kind = kv_job_kind::load;
    e.load = t->job.id;
    disk_.touch(t->found);
    transfer& x = *transfers_.emplace(e.load, std::move(t)).first->second;
    if (!find_blocks(x, std::move(at_hand))) e.load = 0;
    return e.load != 0;
}

/// False: there is no memory for it, and it is gone.
bool scheduler_policy::find_blocks(transfer& t, prefix_cache::match at_hand) {
    const auto r = kv_->hold_to_load(t.kv, std::move(at_hand), t.found, t.job);
    if (r == kv_manager::got::short_) {
        give_up(t);
        return false;
    }
    if (r == kv_manager::got::all) {
        t.job.tokens = pack_ids(t.tokens);
        t.sent = true;
        jobs_.push_back(t.job);
    }
    return true;
}

void scheduler_policy::give_up(transfer& t) {
    const std::uint64_t id = t.job.id;
    kv_->release(t.kv);
    transfers_.erase(id);
}

/// Whoever waits for a load waits no longer than that, be there room to run it or not; what looks for blocks goes on
/// looking, or gives them back when nobody waits for it any more.
void scheduler_policy::serve_loads(steady_time now) {
    for (entry* e : waiting_) {
        const auto found = transfers_.find(e->load);
        if (found == transfers_.end() || now - found->second->since >= patience()) e->load = 0;
    }
    std::vector<transfer*> unsent;
    for (const auto& [id, t] : transfers_)
        if (!t->sent) unsent.push_back(t.get());
    for (transfer* t : unsent) {
        const std::uint64_t id = t->job.id;
        const auto at = std::find_if(waiting_.begin(), waiting_.end(), [id](const entry* e) { return e->load == id; });
        if (at == waiting_.end())
            give_up(*t);
        else if (!find_blocks(*t))
            (*at)->load = 0;
    }
}

std::optional<steady_time> scheduler_policy::load_deadline(const entry& e) const {
    const auto found = e.load == 0 ? transfers_.end() : transfers_.find(e.load);
    if (found == transfers_.end()) return std::nullopt;
    return found->second->since + patience();
}

// ---- done

void scheduler_policy::job_done(const kv_job_result& r, steady_time now) {
    const auto found = transfers_.find(r.id);
    if (!info_ || r.epoch != epoch_ || found == transfers_.end()) return;
    kv_->set_now(now);
    const auto t = std::move(found->second);
    transfers_.erase(found);
    if (t->load)
        loaded(*t, r);
    else
        saved(*t, r);
    advance_giving(now);
}

void scheduler_policy::saved(transfer& t, const kv_job_result& r) {
    const bool good = r.good_parts == t.job.parts.size();
    if (good) {
        t.image.bytes = r.bytes;
        disk_.add(std::move(t.image));
        ++counters_.images_saved;
    } else {
        t.leaf->keep = false;  // it goes without
        ++counters_.images_failed;
    }
    kv_->unfix(t.job);
    kv_->release(t.kv, false);
}

void scheduler_policy::loaded(transfer& t, const kv_job_result& r) {
    kv_->unfix(t.job);  // publishing exchanges blocks for others' of the same content
    const std::size_t good = std::min<std::size_t>(r.good_parts, t.found.runs.size());
    if (good < t.found.runs.size()) {
        disk_.remove(t.found.runs[good].file);
        ++counters_.images_refused;
    }
    if (good > 0) {
        const std::uint32_t end = t.found.runs[good - 1].end;
        t.kv.keep = true;
        kv_->publish(t.kv, t.tokens, std::int64_t{end} * model::block_tokens);
        kv_->checkpoint(t.kv);
        counters_.images_loaded += good;
        counters_.tokens_loaded += std::uint64_t{end - t.from} * model::block_tokens;
        const double ms = std::max(0.0, static_cast<double>(r.us) / 1000 - load_overhead_ms);
        const double a_mib = ms / std::max(0.1, static_cast<double>(r.bytes) / mib);
        load_ms_a_mib_ = load_ms_a_mib_ == 0 ? a_mib : load_ms_a_mib_ + moving * (a_mib - load_ms_a_mib_);
    }
    kv_->release(t.kv);
}

void scheduler_policy::forget_transfers() {
    transfers_.clear();
    jobs_.clear();
    giving_.reset();
    disk_ = {};
    for (auto& [id, e] : entries_) {
        e->load = 0;
        e->load_tried = false;
    }
}

}  // namespace troupe::actors
