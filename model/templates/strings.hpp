// String operations shared by filters and methods.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "model/templates/value.hpp"

namespace troupe::model::jinja {

enum class side : std::uint8_t { both, left, right };

/// `chars` null: white space, else the set of its characters.
value strip(const text& t, side where, const text* chars, meter& m);
value replace(const text& t, const text& from, const text& to, integer count, meter& m);
/// Lines as [from, to) without their ends, as str.splitlines finds them.
std::vector<std::pair<std::size_t, std::size_t>> lines(std::string_view s);
value upper(const text& t, meter& m);
value lower(const text& t, meter& m);
value capitalize(const text& t, meter& m);
/// str.title: a letter after anything but a letter is upper case. `by_words`: the filter's rule, only after space - ( {
/// [ <.
value title(const text& t, bool by_words, meter& m);
value center(const text& t, integer width, meter& m);

}  // namespace troupe::model::jinja
