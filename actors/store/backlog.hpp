// What the disk refused: kept in order, tried again, and read meanwhile as if it were stored. Outlives the store actor,
// so that its death loses nothing.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/store/database.hpp"
#include "actors/store/records.hpp"
#include "core/result.hpp"

namespace troupe::actors {

/// Applies records in order in one transaction, or says why not.
using apply_records = std::function<result<void>(std::span<const record>)>;

class store_backlog {
 public:
    /// False (and nothing is kept) beyond limits::store_backlog_bytes.
    bool add(const std::vector<record>& records);
    bool empty() const { return records_.empty(); }
    std::size_t size() const { return records_.size(); }
    std::size_t bytes() const { return bytes_; }
    std::size_t tokens() const { return tokens_; }  ///< of running answers
    const std::vector<record>& records() const { return records_; }

    /// Everything in one transaction; empty afterwards. On failure it stays as it is.
    result<void> write_to(const apply_records& disk);
    /// A session as it would be if the disk had taken everything. nullopt: no such session.
    result<std::optional<stored_session>> load(database& db, const std::string& session) const;
    /// As database::list; sessions the disk does not have yet come first (found by their title only).
    result<session_page> list(
        database& db, std::int64_t limit, const std::string& after, const std::string& search) const;

 private:
    std::vector<record> records_;
    std::size_t bytes_ = 0, tokens_ = 0;
};

}  // namespace troupe::actors
