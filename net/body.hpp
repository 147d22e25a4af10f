// The JSON object of a request's body, kept alive together with its document.
#pragma once

#include "net/http_types.hpp"
#include "net/json_in.hpp"

namespace troupe::net {

struct json_body {
    json_document document;
    json_object object;
    static result<json_body> parse(std::string_view text) {
        TROUPE_TRY(auto document, json_document::parse(text));
        TROUPE_TRY(auto object, json_object::from(document.root(), "the body"));
        return json_body{std::move(document), std::move(object)};
    }
};

}  // namespace troupe::net
