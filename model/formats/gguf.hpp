// GGUF v2/v3 over a memory map. The file is hostile: every size is checked against the file before it is used, nothing
// is allocated by a length the file merely claims, and what is wrong comes back as model_malformed or
// model_unsupported. Source: the GGUF specification of the ggml project.
#pragma once

#include "model/formats/model_file.hpp"

namespace troupe::model {

class gguf_file : public model_file {
 public:
    /// Maps and parses. model_missing if the file cannot be opened.
    static result<std::shared_ptr<const gguf_file>> open(const std::filesystem::path& path);
    /// Parses bytes that stay alive as long as the result (fuzzing, tests).
    static result<std::shared_ptr<const gguf_file>> parse(std::span<const std::byte> bytes);

    virtual std::uint32_t version() const = 0;
    /// Key, and type and value as they stand in the file; in file order.
    virtual std::vector<std::pair<std::string, std::string>> packed_values() const = 0;
};

}  // namespace troupe::model
