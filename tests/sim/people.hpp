// The clients: they ask, read, stop, vanish, come back, and know the only right answer to what they asked.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "context.hpp"
#include "core/events.hpp"
#include "turn.hpp"

namespace troupe::actors::sim {

/// One place where somebody talks to the engine: a session with its history, or lone requests one after the other.
struct conversation {
    enum class state { idle, asking, reading, away };
    int number = 0;
    bool stored = false;
    std::string session, client_key;
    state is = state::idle;
    std::vector<token_id> context;  ///< all that was said
    std::size_t turn = 0;           ///< index of the question
    int n_turns = 0, n_asked = 0;
    std::string user_message, answer;  ///< ids
    std::uint64_t last_seq = 0;
    std::string text;  ///< of the answer, as read
    bool stopped = false, following = false;
    bool forgetful = false;  ///< the server died with degraded persistence: it may know less than this client
    steady_time asked_at{};
};

/// What a client can ask of the front.
class front_door {
 public:
    virtual ~front_door() = default;
    virtual bool open() const = 0;
    virtual void ask(conversation& c) = 0;
    virtual void stop(conversation& c) = 0;
    virtual void leave(conversation& c) = 0;   ///< the connection is gone
    virtual void follow(conversation& c) = 0;  ///< subscribe from last_seq
};

class people {
 public:
    people(context& c, front_door& door);

    void start();
    /// The front's answer to `ask`.
    void taken(conversation& c);
    void refused(conversation& c, const error& e);
    /// An event of the conversation's session; it follows it.
    void read(conversation& c, const event& e);
    /// Everybody's connection is gone; lone requests are lost with it.
    void front_died(bool may_forget);
    void front_is_back();
    void check_end();

    std::deque<conversation>& conversations() { return conversations_; }
    const turn& question(std::size_t i) const { return turns_[i]; }
    std::uint64_t finished() const { return finished_; }
    std::uint64_t failed() const { return failed_; }
    std::uint64_t lost() const { return lost_; }
    std::uint64_t snapshots() const { return snapshots_; }

 private:
    void next(conversation& c);
    void think(conversation& c);
    void ask(conversation& c);
    std::vector<token_id> words(int n);
    void draw_question(conversation& c);
    void wander(conversation& c);
    void come_back(conversation& c);
    void read_delta(conversation& c, const delta_event& d);
    void read_snapshot(conversation& c, const snapshot_event& s);
    void check_text(conversation& c);
    void done(conversation& c, const std::string& finish_reason, std::int64_t n_tokens, bool by_user);
    void failed(conversation& c, const error& e);
    bool expected(const conversation& c, const error& e) const;
    std::string name(const conversation& c) const;

    context& c_;
    front_door& door_;
    std::vector<std::vector<token_id>> preambles_;
    std::deque<conversation> conversations_;
    std::deque<turn> turns_;
    int killers_ = 0, not_finite_ = 0;
    std::uint64_t finished_ = 0, failed_ = 0, lost_ = 0, snapshots_ = 0;
};

}  // namespace troupe::actors::sim
