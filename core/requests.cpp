#include "core/requests.hpp"

namespace troupe {

generation_params overlay(const generation_params& base, const generation_params& over) {
    generation_params r = base;
    each_parameter([&](const char*, auto member) {
        if (over.*member) r.*member = over.*member;
    });
    if (!over.template_kwargs.empty()) r.template_kwargs = over.template_kwargs;
    return r;
}

}  // namespace troupe
