// The engine as session_port: every call becomes a command to the gateway.
#include "actors/engine_impl.hpp"
#include "core/ports.hpp"

namespace troupe::actors {

void engine_impl::ask(std::string session, command_body body) {
    const std::shared_lock hold(gate_);
    if (closed_) return;
    caf::anon_send(
        actors_.gateway, client_command{std::move(session), std::make_shared<command_body>(std::move(body))});
}

std::optional<error> engine_impl::unknown_model(const session_settings& settings) const {
    if (settings.model.empty()) return std::nullopt;
    const std::lock_guard lock(facts_->mutex);
    // While it loads nobody can say; the first message will.
    if (!facts_->text || facts_->text->card.id == settings.model) return std::nullopt;
    return no_such_model(settings.model);
}

void engine_impl::create(std::string title, session_settings settings, reply<session_view> done) {
    if (auto e = unknown_model(settings)) return done(std::move(*e));
    ask({}, command::create{std::move(title), std::move(settings), answer(std::move(done))});
}

void engine_impl::list(std::int64_t limit, std::string after, std::string search, reply<session_page> done) {
    ask({}, command::list{limit, std::move(after), std::move(search), answer(std::move(done))});
}

void engine_impl::get(std::string session, reply<snapshot_event> done) {
    ask(std::move(session), command::get{answer(std::move(done))});
}

void engine_impl::update(std::string session, std::optional<std::string> title,
    std::optional<session_settings> settings, reply<session_view> done) {
    if (auto e = settings ? unknown_model(*settings) : std::nullopt) return done(std::move(*e));
    ask(std::move(session), command::update{std::move(title), std::move(settings), answer(std::move(done))});
}

void engine_impl::remove(std::string session, reply<bool> done) {
    ask(std::move(session), command::remove{answer(std::move(done))});
}

void engine_impl::export_json(std::string session, reply<std::string> done) {
    ask(std::move(session), command::export_json{answer(std::move(done))});
}

void engine_impl::import_json(std::string json, reply<session_view> done) {
    ask({}, command::import_json{std::move(json), answer(std::move(done))});
}

void engine_impl::subscribe(
    std::string session, std::optional<std::uint64_t> from, client_ptr client, reply<bool> done) {
    ask(std::move(session), command::subscribe{from, std::move(client), answer(std::move(done))});
}

void engine_impl::unsubscribe(std::string session, client_ptr client, reply<bool> done) {
    ask(std::move(session), command::unsubscribe{std::move(client), answer(std::move(done))});
}

void engine_impl::disconnect(client_ptr client) { ask({}, command::disconnect{std::move(client)}); }

void engine_impl::message(std::string session, new_message m, std::string client_key, client_ptr client,
    std::string request_id, reply<posted> done) {
    ask(std::move(session),
        command::message{
            std::move(m), {std::move(client_key), std::move(client), std::move(request_id)}, answer(std::move(done))});
}

void engine_impl::regenerate(std::string session, std::string message, generation_params params, std::string client_key,
    client_ptr client, std::string request_id, reply<posted> done) {
    ask(std::move(session),
        command::regenerate{std::move(message), std::move(params),
            {std::move(client_key), std::move(client), std::move(request_id)}, answer(std::move(done))});
}

void engine_impl::edit(std::string session, std::string message, std::string content, generation_params params,
    std::string client_key, client_ptr client, std::string request_id, reply<posted> done) {
    ask(std::move(session),
        command::edit{std::move(message), std::move(content), std::move(params),
            {std::move(client_key), std::move(client), std::move(request_id)}, answer(std::move(done))});
}

void engine_impl::stop(std::string session, reply<bool> done) {
    ask(std::move(session), command::stop{answer(std::move(done))});
}

void engine_impl::complete(completion_request request, client_ptr client, reply<generation_ticket> done) {
    auto session = request.session_id;
    ask(std::move(session), command::complete{std::move(request), std::move(client), answer(std::move(done))});
}

void engine_impl::cancel(generation_ticket ticket) { ask(std::move(ticket.session), command::cancel{}); }

}  // namespace troupe::actors
