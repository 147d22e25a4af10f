// Plans run in order: closes, opens, operations, then all writes of all rows, then all looks, as a layer of a model
// does.
#include "fake_executor.hpp"

#include <algorithm>

namespace troupe::actors::sim {

token_id text_so_far::next() const {
    const std::uint64_t h = hash_ ^ hash_ >> 29;
    return h % 61 == 0 ? end_token : static_cast<token_id>(10 + (h >> 8) % 900);
}

std::vector<token_id> answer_of(const std::vector<token_id>& prompt, std::int64_t max_tokens, bool ends) {
    text_so_far text;
    for (const token_id t : prompt) text.add(t);
    std::vector<token_id> answer;
    while (static_cast<std::int64_t>(answer.size()) < max_tokens) {
        const token_id t = text.next();
        if (ends && t == end_token) break;
        answer.push_back(t);
        text.add(t);
    }
    return answer;
}

void fake_executor::fault(const std::string& what) {
    if (faults.size() < 5) faults.push_back("plan " + std::to_string(plan_started_) + ": " + what);
}

bool fake_executor::run_op(const kv_op& op) {
    switch (op.kind) {
    case kv_op_kind::commit_segment:
        if (segments_.count(op.to) || op.to >= info_.max_segments) fault("commit of a committed segment");
        if (commit_to_fail_ > 0 && --commit_to_fail_ == 0) return false;
        if (memory_short || std::uniform_real_distribution<>(0, 1)(random_) < commit_failure_) return false;
        segments_[op.to] = op.group;
        return true;
    case kv_op_kind::release_segment:
        if (!segments_.erase(op.to)) fault("release of a segment that is not committed");
        for (std::uint64_t i = 0, per = layout_.groups[op.group].blocks_per_segment; i < per; ++i)
            blocks_[op.group][op.to * per + i].clear();
        return true;
    case kv_op_kind::copy_block: {
        const block* from = find(op.group, static_cast<model::block_id>(op.from));
        if (from) {
            const block copy = *from;
            if (block* to = find(op.group, static_cast<model::block_id>(op.to))) *to = copy;
        }
        return true;
    }
    }
    return false;
}

block* fake_executor::find(std::size_t group, model::block_id b) {
    if (b == model::no_block) {
        fault("a block behind the window is used");
        return nullptr;
    }
    const auto segment = segments_.find(layout_.segment_of(group, b));
    if (segment == segments_.end() || segment->second != group) {
        fault("block of a segment that is not committed to its group");
        return nullptr;
    }
    auto& found = blocks_[group][b];
    if (found.empty()) found.resize(model::block_tokens);
    return &found;
}

void fake_executor::write(const plan_row& row, sequence& s) {
    constexpr std::int32_t size = model::block_tokens;
    const std::int32_t end = row.pos + row.n, first = row.pos / size, n_blocks = (end + size - 1) / size;
    for (std::size_t g = 0; g < s.tables.size(); ++g) {
        if (static_cast<std::int32_t>(s.tables[g].size()) < n_blocks)
            return fault("a row without blocks for all its positions");
        for (std::int32_t i = first; i < n_blocks; ++i) {
            block* b = find(g, s.tables[g][static_cast<std::size_t>(i)]);
            if (!b) continue;
            if (i * size >= row.pos) b->assign(size, {});
            for (std::int32_t p = std::max(row.pos, i * size); p < std::min(end, (i + 1) * size); ++p)
                (*b)[static_cast<std::size_t>(p % size)] = {p, s.tokens[static_cast<std::size_t>(p)]};
        }
    }
}

/// True if everything seen is finite.
bool fake_executor::look(const plan_row& row, const sequence& s) {
    bool finite = true;
    for (std::size_t g = 0; g < s.tables.size(); ++g) {
        const std::int32_t last = row.pos + row.n - 1, window = info_.group_window[g];
        // The first row's window reaches furthest back, and everything up to the last row is seen by one of them.
        for (std::int32_t q = window > 0 ? std::max(0, row.pos - window + 1) : 0; q <= last;) {
            const block* b = find(g, s.tables[g][static_cast<std::size_t>(q / model::block_tokens)]);
            if (!b) return true;
            for (const std::int32_t end = std::min(last + 1, (q / model::block_tokens + 1) * model::block_tokens);
                 q < end; ++q) {
                const slot& seen = (*b)[static_cast<std::size_t>(q % model::block_tokens)];
                if (seen.pos != q || seen.token != s.tokens[static_cast<std::size_t>(q)]) {
                    fault("sequence " + std::to_string(row.seq) + " group " + std::to_string(g) + " in rows from " +
                          std::to_string(row.pos) + " sees at " + std::to_string(q) + " position " +
                          std::to_string(seen.pos));
                    return true;
                }
                finite = finite && seen.token != nan_token;
            }
        }
    }
    return finite;
}

void fake_executor::sample(sequence& s, row_result& r) {
    const token_id t = s.text.next();
    s.tokens.push_back(t);
    s.text.add(t);
    r.sampled = true;
    r.token = t;
    const bool end = std::count(s.params.end_tokens.begin(), s.params.end_tokens.end(), t) > 0;
    const auto n = static_cast<std::int64_t>(s.tokens.size());
    r.ended = s.ended = end || n - s.n_prompt >= s.params.max_tokens || n >= info_.n_ctx;
}

std::optional<plan_result> fake_executor::step() {
    const plan p = std::move(queue_.front());
    queue_.pop_front();
    plan_started_ = p.id;
    if (p.id <= last_plan_) fault("plans out of order");
    last_plan_ = p.id;
    plan_result result{p.epoch, p.id, {}, 0, {}};
    for (const sequence_id id : p.closes) sequences_.erase(id);
    for (const auto& o : p.opens) {
        if (sequences_.count(o.id)) fault("opened twice");
        sequence& s = sequences_[o.id] = {unpack_ids(o.tokens), {}, o.n_prompt, o.params, {}, false};
        for (const token_id t : s.tokens) s.text.add(t);
        s.tables.resize(layout_.groups.size());
    }
    for (const kv_op& op : p.ops) result.ops_ok.push_back(run_op(op));
    jobs_.insert(jobs_.end(), p.jobs.begin(), p.jobs.end());
    std::int64_t rows = 0;
    std::vector<sequence*> computes;
    std::set<sequence_id> seen;
    for (const plan_row& row : p.rows) {
        rows += row.n;
        result.rows.push_back({row.seq, row.pos, row.n, row_status::void_row});
        computes.push_back(nullptr);
        const auto found = sequences_.find(row.seq);
        if (!seen.insert(row.seq).second) fault("two rows of one sequence");
        if (found == sequences_.end()) continue;
        sequence& s = found->second;
        for (const table_delta& d : row.tables) {
            auto& table = s.tables[d.group];
            if (d.first > table.size()) fault("hole in a block table");
            table.resize(std::max(table.size(), d.first + d.blocks.size()), model::no_block);
            std::copy(d.blocks.begin(), d.blocks.end(), table.begin() + d.first);
        }
        const bool known = static_cast<std::size_t>(row.pos + row.n) <= s.tokens.size();
        if (s.ended || cancelled_.count(row.seq)) continue;
        if (void_rows > 0 && std::uniform_real_distribution<>(0, 1)(random_) < void_rows) {
            s.ended = true;  // nor what would follow
            continue;
        }
        if (!known)
            fault("a row of tokens that nobody knows");
        else
            computes.back() = &s;
    }
    if (rows > info_.max_rows) fault("too many rows");
    for (std::size_t i = 0; i < p.rows.size(); ++i) {
        if (!computes[i]) continue;
        const auto from = computes[i]->tokens.begin() + p.rows[i].pos;
        if (std::find(from, from + p.rows[i].n, killer_token) != from + p.rows[i].n) return std::nullopt;
        write(p.rows[i], *computes[i]);
    }
    for (std::size_t i = 0; i < p.rows.size(); ++i) {
        if (!computes[i]) continue;
        const bool finite = look(p.rows[i], *computes[i]);
        result.rows[i].status = row_status::ok;
        if (!p.rows[i].sample) continue;
        if (static_cast<std::size_t>(p.rows[i].pos + p.rows[i].n) != computes[i]->tokens.size())
            fault("sampled, but not the newest position");
        if (finite) {
            sample(*computes[i], result.rows[i]);
        } else {
            result.rows[i].status = row_status::not_finite;
            computes[i]->ended = true;
        }
    }
    return result;
}

}  // namespace troupe::actors::sim
