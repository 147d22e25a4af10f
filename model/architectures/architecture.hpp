// What a family file provides: a name to recognise it by, and a network built from a file's metadata and tensors.
#pragma once

#include <memory>
#include <string_view>

#include "model/architectures/builder.hpp"
#include "model/architectures/step.hpp"

namespace troupe::model {

/// A family's hyper-parameters and weights; the weights are there once the builder's plan has been loaded.
class network {
 public:
    virtual ~network() = default;
    /// One pass over the rows of the step, ending with step::head.
    virtual void forward(step& s) = 0;
};

struct architecture {
    std::string_view name;  ///< general.architecture
    /// Reads and declares everything through the builder, whose first refusal is the result (finish()). Allocates
    /// nothing that the file's mere claims could make large.
    std::unique_ptr<network> (*describe)(builder& b);
};

}  // namespace troupe::model
