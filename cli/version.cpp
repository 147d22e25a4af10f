#include "cli/commands.hpp"

namespace troupe::cli {

std::string version_text() { return TROUPE_VERSION; }

}  // namespace troupe::cli
