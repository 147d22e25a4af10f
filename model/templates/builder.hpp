// Makes a string value piece by piece, each paid for before it is stored.
#pragma once

#include <memory>
#include <utility>

#include "model/templates/value.hpp"

namespace troupe::model::jinja {

class builder {
 public:
    explicit builder(meter& m) : meter_(m) {}

    void append(std::string_view bytes, bool from_user) {
        pay(bytes.size());
        text_.append(bytes, from_user);
    }
    void append(const text& t) { append(t, 0, t.size()); }
    void append(const text& t, std::size_t from, std::size_t to) {
        // Runs cost memory too: user and template text in turns must not be free.
        pay(to - from + (t.n_runs() > 1 ? 16 * t.n_runs() : 0));
        text_.append(t, from, to);
    }
    void pad(std::size_t count, char c = ' ', bool from_user = false) {
        pay(count);
        text_.append(std::string(count, c), from_user);
    }
    meter& cost() { return meter_; }
    std::size_t size() const { return text_.size(); }
    value finish() { return std::make_shared<const text>(std::move(text_)); }
    text take() { return std::move(text_); }

 private:
    void pay(std::size_t bytes) { meter_.allocate(bytes, text_.size()); }
    meter& meter_;
    text text_;
};

/// Bytes [from, to) of `t` as a value.
inline value slice_of(const text& t, std::size_t from, std::size_t to, meter& m) {
    builder b(m);
    b.append(t, from, to);
    return b.finish();
}

}  // namespace troupe::model::jinja
