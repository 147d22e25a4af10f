// A session as one JSON document, for export and import. Lossless: importing an export gives the same messages again.
#pragma once

#include <string>

#include "actors/store/records.hpp"
#include "core/result.hpp"

namespace troupe::actors {

std::string export_session(
    const session_view& info, const std::vector<stored_message>& messages, const std::string& leaf);
/// errc::invalid_request says what is wrong with the document. seq_reserved and unfinished are left empty.
result<stored_session> import_session(const std::string& text);

}  // namespace troupe::actors
