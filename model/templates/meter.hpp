// What a render may still spend, and the failure that ends one. Failures are thrown inside the engine only; parse() and
// render() turn them into results.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "model/templates/chat_template.hpp"

namespace troupe::model::jinja {

struct failure {
    std::string message;
    int line = 0;  ///< of the template; 0: unknown
};

class meter {
 public:
    explicit meter(const template_budget& budget)
        : steps_(budget.steps), largest_(budget.output_bytes), bytes_(8 * budget.output_bytes), calls_(budget.depth),
          frames_(16 * budget.depth) {}

    void step(std::int64_t n = 1) {
        if (n > steps_) throw failure{"the template needs more steps than it may take"};
        steps_ -= n;
    }
    /// Before `bytes` more are added to a string or list that has `size` of them. Copies count as steps too (by the
    /// cache line), so that a template cannot hide work in a few huge operations.
    void allocate(std::uint64_t bytes, std::uint64_t size = 0) {
        if (bytes > static_cast<std::uint64_t>(bytes_) || size + bytes > static_cast<std::uint64_t>(largest_)) {
            throw failure{"the template makes more text than it may"};
        }
        bytes_ -= static_cast<std::int64_t>(bytes);
        step(static_cast<std::int64_t>(bytes / 256));
    }
    /// Work of one pass over `bytes` bytes without keeping them.
    void scan(std::uint64_t bytes) { step(1 + static_cast<std::int64_t>(bytes / 256)); }

    /// One level of evaluation (of macro calls) for the life of the object.
    class level {
     public:
        explicit level(int& left) : left_(left) {
            if (left_ <= 0) throw failure{"the template nests too deeply"};
            --left_;
        }
        ~level() { ++left_; }
        level(const level&) = delete;
        level& operator=(const level&) = delete;

     private:
        int& left_;
    };
    level frame() { return level(frames_); }
    level call() { return level(calls_); }

 private:
    std::int64_t steps_;
    std::int64_t largest_;  ///< bytes of one string or list
    std::int64_t bytes_;    ///< still to be allocated in this render
    int calls_;
    int frames_;
};

/// Deepest nesting of data (lists in lists); keeps recursion over values shallow.
constexpr int max_value_depth = 128;

}  // namespace troupe::model::jinja
