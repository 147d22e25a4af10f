// One seeded run of the whole control plane in virtual time: clients, front, store and executor, with faults of all
// kinds at any moment, and everything checked after every step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "context.hpp"
#include "fake_disk.hpp"
#include "front.hpp"
#include "people.hpp"

namespace troupe::actors::sim {

/// What happened, to see that a run was worth something.
struct tally {
    scheduler_counters scheduler;
    std::uint64_t steps = 0, finished = 0, failed = 0, lost = 0, snapshots = 0;
    std::uint64_t front_kills = 0, session_crashes = 0, store_crashes = 0, disk_failures = 0, hangs = 0, circuits = 0;
    void add(const tally& t);
};

class simulation : private front_door {
 public:
    explicit simulation(world w);
    /// Until nothing is left to do. What went wrong; empty is good.
    std::vector<std::string> run();
    const tally& happened() const { return tally_; }

 private:
    bool open() const override { return front_ != nullptr; }
    void ask(conversation& c) override { front_->ask(c); }
    void stop(conversation& c) override { front_->stop(c); }
    void leave(conversation& c) override { front_->leave(c); }
    void follow(conversation& c) override { front_->follow(c); }

    void step();
    void trouble();
    void kill_front();
    void count_front();
    void calm_down();
    void check_end();

    context c_;
    fake_disk disk_;
    std::unique_ptr<front> front_;
    people people_;
    tally tally_;
};

}  // namespace troupe::actors::sim
