#include "actors/store/store_writer.hpp"

namespace troupe::actors {

std::vector<saved> store_writer::commit(std::span<const rows> writes, const apply_records& disk) {
    if (backlog_->empty() && disk && !writes.empty()) {
        std::vector<record> all;
        for (const auto& w : writes) all.insert(all.end(), w->begin(), w->end());
        if (const auto done = disk(all)) {
            written(all.size());
            return std::vector<saved>(writes.size(), saved::durable);
        } else {
            failed(done.error().message);
        }
    }
    std::vector<saved> how;
    for (const auto& w : writes) how.push_back(backlog_->add(*w) ? saved::deferred : saved::refused);
    return how;
}

result<void> store_writer::retry(const apply_records& disk) {
    if (const auto n = backlog_->size(); n > 0) {
        if (const auto done = backlog_->write_to(disk); !done) {
            failed(done.error().message);
            return done.error();
        }
        written(n);
    }
    degraded_ = false;
    reason_.clear();
    return {};
}

void store_writer::failed(std::string reason) {
    degraded_ = true;
    reason_ = std::move(reason);
}

void store_writer::written(std::size_t n_records) {
    ++commits_;
    records_written_ += n_records;
}

}  // namespace troupe::actors
