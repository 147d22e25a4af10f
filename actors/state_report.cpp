#include "actors/state_report.hpp"

#include <memory>

#include <boost/json.hpp>

#include "actors/messages.hpp"
#include "actors/session/settings_json.hpp"
#include "core/limits.hpp"

namespace troupe::actors {
namespace json = boost::json;
namespace {

constexpr auto answer_within = std::chrono::seconds(1);

struct gathering {
    std::map<std::string, json::object> parts;
    std::size_t missing = 0;
    std::function<void(std::map<std::string, json::object>)> done;
    void one_less() {
        if (--missing == 0) done(std::move(parts));
    }
};

json::value take(json::object& o, const char* key) {
    auto* v = o.if_contains(key);
    return v ? std::move(*v) : json::value(nullptr);
}

/// One line of the list of actors.
json::object actor_line(
    const char* name, const std::map<std::string, json::object>& parts, const json::value& restarts) {
    const auto it = parts.find(name);
    json::object line{{"name", name}, {"state", it == parts.end() ? "no answer" : "running"}, {"restarts", restarts}};
    const auto* mailbox = it == parts.end() ? nullptr : it->second.if_contains("mailbox");
    line["mailbox"] = mailbox ? *mailbox : json::value(0);
    return line;
}

json::array actor_list(const std::map<std::string, json::object>& parts) {
    json::object restarts;
    if (const auto g = parts.find("gateway"); g != parts.end())
        if (const auto* r = g->second.if_contains("restarts"); r && r->is_object()) restarts = r->get_object();
    const auto of = [&](const char* name) {
        const auto* n = restarts.if_contains(name);
        return n ? *n : json::value(0);
    };
    json::array actors;
    for (const char* name : {"gateway", "scheduler", "supervisor", "store", "tokenizer", "compactor"})
        actors.push_back(actor_line(name, parts, of(name)));
    json::object executor{{"name", "executor"}, {"state", "no answer"}, {"mailbox", 0}, {"restarts", 0}};
    if (const auto s = parts.find("supervisor"); s != parts.end()) {
        if (const auto* v = s->second.if_contains("status")) executor["state"] = *v;
        if (const auto* v = s->second.if_contains("restarts")) executor["restarts"] = *v;
    }
    actors.push_back(std::move(executor));
    if (const auto g = parts.find("gateway"); g != parts.end())
        if (const auto* list = g->second.if_contains("sessions"); list && list->is_array())
            for (const auto& s : list->get_array())
                actors.push_back({{"name", s.at("id")}, {"state", s.at("state")}, {"mailbox", 0}, {"restarts", 0}});
    return actors;
}

json::object budgets(const config& c) {
    return {{"kv_memory", c.kv_memory}, {"kv_disk", c.kv_disk}, {"replay_bytes_per_session", limits::event_ring_bytes},
        {"loaded_sessions", limits::max_loaded_sessions}, {"store_backlog_bytes", limits::store_backlog_bytes},
        {"client_queue_bytes", limits::client_queue_drop_bytes}, {"queue_limit", c.queue_limit},
        {"max_seqs", c.max_seqs}};
}

}  // namespace

void gather_state(caf::event_based_actor* self, std::vector<named_actor> actors,
    std::function<void(std::map<std::string, json::object>)> done) {
    std::erase_if(actors, [](const named_actor& a) { return !a.who; });
    auto g = std::make_shared<gathering>();
    g->done = std::move(done);
    g->missing = actors.size() + 1;
    for (const auto& a : actors)
        self->request(a.who, answer_within, state_atom::value)
            .then(
                [g, name = a.name](const std::string& text) {
                    boost::system::error_code ec;
                    auto v = json::parse(text, ec);
                    if (!ec && v.is_object()) g->parts[name] = std::move(v.get_object());
                    g->one_less();
                },
                [g](const caf::error&) { g->one_less(); });
    g->one_less();
}

std::string admin_state(std::map<std::string, json::object> parts, const config& settings) {
    json::object o;
    o["actors"] = actor_list(parts);
    auto& scheduler = parts["scheduler"];
    auto& supervisor = parts["supervisor"];
    auto& gateway = parts["gateway"];
    o["queue"] = take(scheduler, "queue");
    o["running"] = take(scheduler, "running");
    o["kv"] = take(scheduler, "kv");
    o["tiers"] = take(scheduler, "tiers");
    o["events"] = take(supervisor, "events");
    o["sessions"] = take(gateway, "sessions");
    o["persistence"] = take(gateway, "persistence");
    o["budgets"] = budgets(settings);
    o["scheduler"] = std::move(scheduler);
    o["supervisor"] = std::move(supervisor);
    o["gateway"] = std::move(gateway);
    if (parts.contains("store")) o["store"] = std::move(parts["store"]);
    return json::serialize(o);
}

std::string props_json(const model_card& card, const config& settings, bool sleeping) {
    auto defaults = params_to_object(settings.defaults);
    json::object generation = defaults;
    generation["params"] = std::move(defaults);
    generation["n_ctx"] = card.n_ctx;
    return json::serialize(json::object{{"default_generation_settings", std::move(generation)},
        {"total_slots", settings.max_seqs}, {"model_alias", card.id}, {"model_path", card.path},
        {"chat_template", card.chat_template}, {"chat_template_origin", card.chat_template_origin},
        {"pre_tokenizer", card.pre_tokenizer}, {"modalities", {{"vision", false}, {"audio", false}}},
        {"build_info", "troupe"}, {"is_sleeping", sleeping}});
}

std::string slots_json(const json::object& scheduler, std::int64_t n_slots, std::int64_t n_ctx) {
    json::array slots;
    if (const auto* running = scheduler.if_contains("running"); running && running->is_array())
        for (const auto& r : running->get_array()) {
            const auto* o = r.if_object();
            const auto field = [&](const char* key) {
                const auto* v = o ? o->if_contains(key) : nullptr;
                return v ? *v : json::value(nullptr);
            };
            slots.push_back({{"id", slots.size()}, {"id_task", field("generation")}, {"n_ctx", n_ctx},
                {"is_processing", true}, {"n_prompt_tokens", field("prompt_tokens")}, {"params", json::object{}},
                {"next_token",
                    {{"has_next_token", true}, {"n_remain", -1}, {"n_decoded", field("generated_tokens")}}}});
        }
    while (static_cast<std::int64_t>(slots.size()) < n_slots)
        slots.push_back({{"id", slots.size()}, {"id_task", -1}, {"n_ctx", n_ctx}, {"is_processing", false},
            {"params", json::object{}},
            {"next_token", {{"has_next_token", false}, {"n_remain", 0}, {"n_decoded", 0}}}});
    return json::serialize(slots);
}

}  // namespace troupe::actors
