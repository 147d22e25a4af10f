#include "core/requests.hpp"

#include "core/result.hpp"

namespace troupe {

generation_params overlay(const generation_params& base, const generation_params& over) {
    generation_params r = base;
    each_parameter([&](const char*, auto member) {
        if (over.*member) r.*member = over.*member;
    });
    // One form of the answer takes the place of another.
    if (over.grammar || over.json_schema) {
        r.grammar = over.grammar;
        r.json_schema = over.json_schema;
    }
    if (!over.template_kwargs.empty()) r.template_kwargs = over.template_kwargs;
    return r;
}

error no_such_model(const std::string& name) {
    return fail(errc::model_not_found, "there is no model '" + name + "'; /v1/models lists them", "model");
}

}  // namespace troupe
