// The engine's life: what is started in which order, when it is ready, and how everything goes down.
#include "actors/engine.hpp"

#include <filesystem>

#include <caf/actor_system.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "actors/compactor/compactor_actor.hpp"
#include "actors/engine_impl.hpp"
#include "actors/gateway/gateway_actor.hpp"
#include "actors/scheduler/scheduler_actor.hpp"
#include "actors/store/store_actor.hpp"
#include "core/check.hpp"
#include "core/limits.hpp"
#include "core/log.hpp"

namespace troupe::actors {
namespace {

executor_arguments executor_words(const config& c, const std::string& path) {
    executor_arguments a;
    a.model = path;
    a.kernels = c.kernels;
    a.threads = static_cast<std::int32_t>(c.threads);
    a.ctx = static_cast<std::int32_t>(c.ctx_size);
    a.kv_type = c.kv_type;
    a.kv_memory = c.kv_memory;
    a.max_rows = limits::max_step_rows;
    a.kv_disk = c.kv_disk;
    a.nice = static_cast<std::int32_t>(c.executor_nice);
    a.log_level = c.log_level;
    return a;
}

/// Options that are known but have no code behind them yet.
result<void> check_built(const config& c) {
    if (c.models.empty()) return fail(errc::usage, "--model: a model file is needed", "model");
    if (c.models.size() > 1) return fail(errc::usage, "--model: this version serves one model", "model");
    if (c.replicas != 1) return fail(errc::usage, "--replicas: this version runs one executor", "replicas");
    if (c.speculate != "off") return fail(errc::usage, "--speculate: not built yet", "speculate");
    if (c.device != "auto" && c.device != "cpu")
        return fail(errc::usage, "--device: this version runs on the CPU", "device");
    return {};
}

}  // namespace

result<std::unique_ptr<engine>> engine::start(
    const config& settings, start_callbacks callbacks, std::shared_ptr<metrics> meters) {
    TROUPE_TRYV(check_built(settings));
    auto e = std::make_unique<engine_impl>(settings, std::move(callbacks), std::move(meters));
    TROUPE_TRYV(e->open());
    return std::unique_ptr<engine>(std::move(e));
}

engine_impl::engine_impl(const config& settings, start_callbacks callbacks, std::shared_ptr<metrics> meters)
    : settings_(settings), meters_(std::move(meters)) {
    facts_->callbacks = std::move(callbacks);
}

engine_impl::~engine_impl() { (void)engine_impl::shutdown(limits::drain_deadline); }

result<void> engine_impl::open() {
    if (settings_.data_dir.empty()) {
        no_store_reason_ = "there is no data directory";
    } else {
        auto lock = data_lock::take(settings_.data_dir);
        if (lock) {
            lock_.emplace(std::move(*lock));
            store_file_ = (std::filesystem::path(settings_.data_dir) / "troupe.db").string();
        } else if (lock.error().code == errc::usage) {
            return lock.error();
        } else {
            no_store_reason_ = lock.error().message;
        }
    }
    system_config_ = std::make_unique<system_config>(system_options{});
    system_ = std::make_unique<caf::actor_system>(*system_config_);
    system_->await_actors_before_shutdown(false);
    if (meters_) meters_->watch_process("front", ::getpid());
    spawn_actors();
    load_text();
    return {};
}

void engine_impl::spawn_actors() {
    auto& system = *system_;
    // Nobody can take the place of the three at the root: without one the process must end, so that whoever watches
    // over it starts another, which finds everything in the journal.
    const auto desk_behavior = [facts = facts_](caf::event_based_actor* self) -> caf::behavior {
        self->set_down_handler([facts](caf::down_msg& d) {
            const std::lock_guard lock(facts->mutex);
            if (facts->closing) return;
            log::error("root_actor_died reason=\"{}\"", caf::to_string(d.reason));
            CHECK(false, "an actor that nobody can replace has failed");
        });
        return {[self](const desk_task& t) { t.run(self, t.actors); }};
    };
    desk_ = system.spawn(desk_behavior);
    actors_.scheduler = spawn_scheduler(system, {settings_from(settings_), meters_});

    gateway_setup g;
    g.settings = std::make_shared<const config>(settings_);
    g.scheduler = actors_.scheduler;
    store_options storing{store_file_, no_store_reason_};
    if (meters_)
        storing.journal_lag = [meters = meters_](
                                  std::size_t n) { meters->journal_lag_tokens.Set(static_cast<double>(n)); };
    g.spawn_store = [&system, facts = facts_, options = std::move(storing)](caf::actor gateway) {
        auto store = system.spawn<caf::detached>(store_actor, options, std::move(gateway));
        const std::lock_guard lock(facts->mutex);
        return facts->store = store;
    };
    g.spawn_compactor = [&system, facts = facts_, scheduler = actors_.scheduler,
                            after = std::chrono::seconds(settings_.idle_shrink_after)] {
        auto compactor = spawn_compactor(system, scheduler, after, "/");
        const std::lock_guard lock(facts->mutex);
        return facts->compactor = compactor;
    };
    g.restarted = [meters = meters_](const std::string& actor, const std::string& reason) {
        if (meters) meters->actor_restarted(actor, reason);
    };
    g.persistence = [facts = facts_](bool degraded, const std::string& reason) {
        const std::lock_guard lock(facts->mutex);
        facts->persistence = degraded ? (reason.empty() ? "degraded" : reason) : std::string();
    };
    actors_.gateway = system.spawn(gateway_actor, std::move(g));

    const auto spec = parse_model_spec(settings_.models.front());
    auto words = executor_words(settings_, spec.path);
    if (!store_file_.empty()) words.kv_folder = (std::filesystem::path(settings_.data_dir) / "kv").string();
    const auto record = lock_ ? (std::filesystem::path(settings_.data_dir) / "executor.pid").string() : std::string();
    auto host =
        settings_.executor == "inline" ? make_inline_host(system, words) : make_process_host(system, words, record);
    supervisor_callbacks callbacks;
    callbacks.first_start = [this](result<executor_info> info) { executor_started(std::move(info)); };
    callbacks.health_changed = [this](const health_report& h) { health_changed(h); };
    callbacks.memory_trend = [meters = meters_](const std::string& process, double bytes_per_hour, bool warning) {
        if (meters) meters->memory_trend(process, bytes_per_hour, warning);
    };
    actors_.supervisor =
        spawn_supervisor(system, {words, settings_.fault_injection, std::chrono::seconds(settings_.idle_unload_after)},
            std::move(host), actors_.scheduler, std::move(callbacks));
    desk([](caf::event_based_actor* self, const engine_actors& a) {
        for (const auto& root : {a.gateway, a.scheduler, a.supervisor}) self->monitor(root);
    });
}

void engine_impl::load_text() {
    loader_ = std::thread(
        [this] { text_loaded(load_text_model(parse_model_spec(settings_.models.front()), settings_.ctx_size)); });
}

void engine_impl::fail_start(error e) {
    std::function<void(error)> failed;
    {
        const std::lock_guard lock(facts_->mutex);
        failed = std::move(facts_->callbacks.failed);
        facts_->callbacks = {};
    }
    if (failed) failed(std::move(e));
}

void engine_impl::text_loaded(result<std::shared_ptr<const text_model>> text) {
    if (!text) return fail_start(text.error());
    {
        const std::lock_guard lock(facts_->mutex);
        facts_->text = *text;
    }
    {
        const std::shared_lock hold(gate_);
        if (closed_) return;
        auto spawn = [system = system_.get(), facts = facts_, tools = (*text)->tools] {
            auto t = system->spawn(tokenizer_pair, tools);
            const std::lock_guard lock(facts->mutex);
            return facts->tokenizer = t;
        };
        caf::anon_send(actors_.gateway, gateway_tokenizer{std::move(spawn)});
    }
    join_facts();
}

void engine_impl::executor_started(result<executor_info> info) {
    if (!info) return fail_start(info.error());
    {
        const std::lock_guard lock(facts_->mutex);
        facts_->executor = *info;
    }
    join_facts();
}

/// Vocabulary and executor are there: answers can be made.
void engine_impl::join_facts() {
    std::function<void()> ready;
    std::shared_ptr<const model_facts> m;
    {
        const std::lock_guard lock(facts_->mutex);
        if (!facts_->text || !facts_->executor || facts_->model) return;
        const auto& x = *facts_->executor;
        m = std::make_shared<const model_facts>(
            model_facts{facts_->text->tools->vocabulary, facts_->text->card.id, x.model_hash, x.numerics_id, x.n_ctx});
        facts_->model = m;
        ready = std::move(facts_->callbacks.ready);
        facts_->callbacks = {};
    }
    if (meters_) meters_->set_model(m->name);
    log::info("model_ready name={} n_ctx={} numerics={}", m->name, m->n_ctx, m->numerics_id);
    {
        const std::shared_lock hold(gate_);
        if (closed_) return;
        caf::anon_send(actors_.gateway, gateway_model{m});
    }
    {
        const std::lock_guard lock(facts_->mutex);
        facts_->serving = true;
    }
    if (ready) ready();
}

void engine_impl::health_changed(const health_report& h) {
    bool tell = false;
    // The name of the level says more than that there is one.
    const auto& level = h.status == "degraded" && h.level != "full" ? h.level : h.status;
    const bool degraded = h.status != "ok" && h.status != "loading" && h.status != "sleeping";
    {
        const std::lock_guard lock(facts_->mutex);
        tell = std::exchange(facts_->told_degraded, degraded) != degraded || degraded;
        facts_->sleeping = h.status == "sleeping";
    }
    count_restarts();
    if (!tell) return;
    const std::shared_lock hold(gate_);
    if (!closed_)
        caf::anon_send(
            actors_.gateway, health_broadcast{degraded, level, fmt::format("{}", fmt::join(h.reasons, "; "))});
}

/// The supervisor's numbers go into the metrics whenever its health changes.
void engine_impl::count_restarts() {
    if (!meters_) return;
    desk([this](caf::event_based_actor* self, const engine_actors& a) {
        self->request(a.supervisor, limits::actor_request_timeout, counters_atom::value)
            .then(
                [this](const supervisor_counters& c) {
                    for (const auto& [reason, n] : c.restarts)
                        for (auto& counted = facts_->restarts_counted[reason]; counted < n; ++counted)
                            meters_->actor_restarted("executor", reason);
                    meters_->watch_process("executor", c.executor_pid);
                },
                [](const caf::error&) {});
    });
}

bool engine_impl::drain(std::chrono::milliseconds deadline) {
    auto idle = std::make_shared<std::promise<void>>();
    auto done = idle->get_future();
    {
        const std::shared_lock hold(gate_);
        if (closed_) return true;
        caf::anon_send(actors_.gateway, gateway_drain{[idle] { idle->set_value(); }, false});
        caf::anon_send(actors_.scheduler, drain_atom::value);
    }
    return done.wait_for(deadline) == std::future_status::ready;
}

bool engine_impl::wait_until_gone(std::chrono::steady_clock::time_point deadline) {
    while (system_->registry().running() > 0) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
}

bool engine_impl::shutdown(std::chrono::milliseconds deadline) {
    if (std::exchange(shut_down_, true) || !system_) return clean_;
    const auto until = std::chrono::steady_clock::now() + deadline;
    {
        const std::unique_lock lock(gate_);
        closed_ = true;
    }
    {
        const std::lock_guard lock(facts_->mutex);
        facts_->callbacks = {};
        facts_->closing = true;
    }
    // Journal and last events first, then the executor; both at once would lose tokens already computed.
    auto flushed = std::make_shared<std::promise<void>>();
    caf::anon_send(actors_.gateway, gateway_shutdown{[flushed] { flushed->set_value(); }});
    clean_ = flushed->get_future().wait_until(until) == std::future_status::ready;
    auto reaped = std::make_shared<std::promise<void>>();
    caf::anon_send(desk_, desk_task{[reaped](caf::event_based_actor* self, const engine_actors& a) {
                                        self->request(a.supervisor,
                                                limits::drain_deadline + limits::executor_exit_deadline,
                                                drain_atom::value)
                                            .then([reaped](bool) { reaped->set_value(); },
                                                [reaped](const caf::error&) { reaped->set_value(); });
                                    },
                              actors_});
    // The supervisor kills past its own deadline; reaping what was killed is immediate.
    const auto reap_by =
        std::max(until, std::chrono::steady_clock::now() + limits::executor_exit_deadline + std::chrono::seconds(1));
    clean_ = reaped->get_future().wait_until(reap_by) == std::future_status::ready && clean_;
    if (loader_.joinable()) loader_.join();
    for (auto* a : {&actors_.gateway, &actors_.scheduler, &actors_.supervisor, &desk_}) {
        caf::anon_send_exit(*a, caf::exit_reason::kill);
        *a = nullptr;
    }
    {
        const std::lock_guard lock(facts_->mutex);
        for (auto* a : {&facts_->tokenizer, &facts_->store, &facts_->compactor}) {
            if (*a) caf::anon_send_exit(*a, caf::exit_reason::kill);
            *a = nullptr;
        }
    }
    if (!wait_until_gone(std::max(until, std::chrono::steady_clock::now() + std::chrono::seconds(1)))) {
        log::error("actors_abandoned running={}", system_->registry().running());
        (void)system_.release();  // its destructor would wait for the stuck one
        (void)system_config_.release();
        return clean_ = false;
    }
    system_.reset();
    system_config_.reset();
    return clean_;
}

}  // namespace troupe::actors
