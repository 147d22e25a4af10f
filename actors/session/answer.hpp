// A reply that is given exactly once: whoever drops it unanswered (an actor that died, a mailbox that was emptied at
// shutdown) has answered shutting_down.
#pragma once

#include <memory>
#include <utility>

#include "core/ports.hpp"

namespace troupe::actors {

template <class T> class answer {
 public:
    answer() = default;
    explicit answer(reply<T> done) : box_(std::make_shared<box>()) { box_->done = std::move(done); }

    /// Later calls do nothing.
    void operator()(result<T> r) const {
        if (!box_ || !box_->done) return;
        auto done = std::exchange(box_->done, nullptr);
        done(std::move(r));
    }
    explicit operator bool() const { return box_ && box_->done; }

 private:
    struct box {
        reply<T> done;
        ~box() {
            if (done)
                done(fail(errc::shutting_down, "the request was dropped because the engine stops or restarts a part"));
        }
    };
    std::shared_ptr<box> box_;
};

}  // namespace troupe::actors
