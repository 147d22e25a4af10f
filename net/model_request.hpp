// What every route that uses the model begins with: the model is there, the body is JSON, the model it names exists.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "net/http_types.hpp"
#include "net/json_in.hpp"
#include "net/routes.hpp"

namespace troupe::net {

using model_cards = std::vector<model_card>;

/// Calls use(body, cards) with at least one card, on the I/O thread; answers its error, or not_ready while loading.
void with_model(services& s, const exchange_ptr& x,
    std::function<result<void>(const json_object& body, const model_cards& cards)> use);
/// The model's name, the default's if `name` is empty; model_not_found.
result<std::string> model_named(const model_cards& cards, const std::string& name);

}  // namespace troupe::net
