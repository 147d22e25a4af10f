#include "actors/system.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include <caf/atom.hpp>
#include <caf/io/middleman.hpp>

#include "actors/messages.hpp"

namespace troupe::actors {
namespace {

/// Not inlined: g++ 12 takes CAF's moves of a string it can see through for a read past its end (-Warray-bounds).
[[gnu::noipa]] std::string ids_name() { return "troupe_sequence_ids"; }

}  // namespace

system_config::system_config(const system_options& options) {
    add_message_types<caf::id_block::troupe>();
    add_message_type<std::vector<sequence_id>>(ids_name());
    // An atom: a string would silently select the default scheduler.
    set("scheduler.policy", options.deterministic ? caf::atom("testing") : caf::atom("sharing"));
    set("scheduler.max-threads", options.threads);
    if (!options.network) return;
    load<caf::io::middleman>();
    // A peer's death shows at once as a closed socket, a frozen peer in the supervisor's own round trips.
    set("middleman.heartbeat-interval", caf::timespan{0});
    set("middleman.connection-timeout", caf::timespan{0});
    set("middleman.enable-automatic-connections", false);
    // Messages are decoded by the socket's own thread: one hop less.
    set("middleman.workers", std::size_t{0});
}

}  // namespace troupe::actors
