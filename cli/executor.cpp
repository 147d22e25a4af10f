// troupe executor: started by `serve` with an inherited socket; see actors/executor/process.hpp.
#include "actors/executor/process.hpp"
#include "cli/commands.hpp"
#include "core/log.hpp"

namespace troupe::cli {

int executor(const std::vector<std::string>& words) {
    const auto arguments = actors::parse_words(words);
    if (!arguments) return report(arguments.error());
    log::set_level(arguments->log_level);
    return actors::run_executor(*arguments);
}

}  // namespace troupe::cli
