// JSON for operators: the actors' own states gathered into GET /admin/state, and llama-server's /props and /slots.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <boost/json/object.hpp>
#include <caf/actor.hpp>
#include <caf/event_based_actor.hpp>

#include "core/config.hpp"
#include "core/ports.hpp"

namespace troupe::actors {

struct named_actor {
    std::string name;
    caf::actor who;  ///< null: not there yet
};

/// Asks each for its state_atom object; `done` runs when all have answered or did not within a second (no entry then).
void gather_state(caf::event_based_actor* self, std::vector<named_actor> actors,
    std::function<void(std::map<std::string, boost::json::object>)> done);

std::string admin_state(std::map<std::string, boost::json::object> parts, const config& settings);
std::string props_json(const model_card& card, const config& settings, bool sleeping);
std::string slots_json(const boost::json::object& scheduler, std::int64_t n_slots, std::int64_t n_ctx);

}  // namespace troupe::actors
