// Fuzz entry of the GGUF reader: whatever the bytes, opening and reading every key and tensor neither crashes nor reads
// outside them.
#include <cstddef>
#include <cstdint>

#include "core/check.hpp"
#include "model/formats/gguf.hpp"

namespace {

std::uint64_t sum(std::span<const std::byte> bytes) {
    std::uint64_t total = 0;
    for (const auto byte : bytes) total += static_cast<std::uint8_t>(byte);
    return total;
}

std::uint64_t read_key(const troupe::model::gguf_file& file, std::string_view key) {
    std::uint64_t total = file.describe(key).size();
    CHECK(file.type_of(key).has_value());
    total += file.get_uint(key).ok() + file.get_int(key).ok() + file.get_float(key).ok() + file.get_bool(key).ok();
    if (const auto text = file.get_string(key)) total += sum(std::as_bytes(std::span(**text)));
    if (const auto texts = file.get_strings(key))
        for (const auto text : **texts) total += sum(std::as_bytes(std::span(text)));
    if (const auto numbers = file.get_ints(key)) total += (*numbers)->size();
    if (const auto numbers = file.get_floats(key)) total += (*numbers)->size();
    return total;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto file = troupe::model::gguf_file::parse(std::as_bytes(std::span(data, size)));
    if (!file) {
        CHECK(!file.error().message.empty());
        return 0;
    }
    std::uint64_t total = 0;
    for (const auto key : (*file)->keys()) total += read_key(**file, key);
    for (const auto& tensor : (*file)->tensors()) {
        CHECK((*file)->tensor(tensor.name) == &tensor);
        CHECK(tensor.data.size() <= size);
        total += sum(tensor.data);
    }
    // Keeps the compiler from dropping the reads.
    asm volatile("" : : "r"(total));
    return 0;
}
