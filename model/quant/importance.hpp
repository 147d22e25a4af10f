// Importance matrices: for each weight matrix the mean squared activation of every input column, as llama-imatrix
// measures it. Both of its formats are read: GGUF, and the older one without a name ("imatrix.dat").
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/result.hpp"

namespace troupe::model {

struct importance_matrix {
    /// A tensor's name -> [cols], or [experts][cols].
    std::map<std::string, std::vector<float>, std::less<>> entries;
    std::string dataset;  ///< what it was measured on; may be empty
    std::uint32_t chunks = 0;

    /// Empty if there is none for this tensor.
    std::span<const float> find(std::string_view tensor) const;
};

/// model_missing, model_malformed (also for values that are negative or not finite).
result<importance_matrix> read_importance(const std::filesystem::path& path);
/// The same from bytes (tests, fuzzing).
result<importance_matrix> parse_importance(std::span<const std::byte> bytes);

}  // namespace troupe::model
