// What of the store is decision: one transaction for everything that waits, what the disk refuses goes to the backlog,
// and whether persistence is degraded. Plain code over whatever applies records; the actor beside it owns the database.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/store/backlog.hpp"
#include "actors/store/records.hpp"
#include "core/result.hpp"

namespace troupe::actors {

enum class saved : std::uint8_t {
    durable,   ///< committed
    deferred,  ///< persistence is degraded: kept in memory and tried again
    refused,   ///< the backlog is full: not kept
};

class store_writer {
 public:
    using rows = std::shared_ptr<const std::vector<record>>;

    /// The backlog is shared by all incarnations of the store.
    explicit store_writer(std::shared_ptr<store_backlog> backlog) : backlog_(std::move(backlog)) {}

    /// What became of each write, in order. While something waits in the backlog, or without a disk (an empty
    /// function: it cannot be opened yet), everything goes to the backlog: records are applied in order.
    std::vector<saved> commit(std::span<const rows> writes, const apply_records& disk);
    /// Writes the backlog. On success nothing is degraded any more.
    result<void> retry(const apply_records& disk);
    /// The disk failed; try again in limits::store_retry_every.
    void failed(std::string reason);

    bool degraded() const { return degraded_; }
    const std::string& reason() const { return reason_; }  ///< why it is degraded
    const store_backlog& backlog() const { return *backlog_; }
    std::uint64_t commits() const { return commits_; }
    std::uint64_t records_written() const { return records_written_; }

 private:
    void written(std::size_t n_records);

    std::shared_ptr<store_backlog> backlog_;
    bool degraded_ = false;
    std::string reason_;
    std::uint64_t commits_ = 0, records_written_ = 0;
};

}  // namespace troupe::actors
