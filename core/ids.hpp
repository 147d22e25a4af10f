// Identifiers: ses_, msg_, gen_ + UUIDv7 (RFC 9562) in lower-case base32 without padding; client-made ids are checked
// here.
#pragma once

#include <string>
#include <string_view>

namespace troupe {

/// "ses_" + 26 characters; ids made later sort later (millisecond resolution). Thread-safe.
std::string make_id(std::string_view prefix);

/// 1..64 characters of [A-Za-z0-9_-].
bool is_client_id(std::string_view id);

/// 64 unpredictable bits (seeds, cookies).
unsigned long long random_u64();

}  // namespace troupe
