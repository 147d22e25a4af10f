// Writes safetensors files for tests: as a checkpoint tool would, or with whatever header a test wants.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace troupe::testing {

inline std::vector<std::byte> bytes_of(const std::string& text) {
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    return {begin, begin + text.size()};
}

inline std::string safetensors_text(const std::string& header, std::size_t data_bytes, std::uint64_t claimed = 0) {
    const std::uint64_t length = claimed != 0 ? claimed : header.size();
    std::string out(sizeof length, '\0');
    std::memcpy(out.data(), &length, sizeof length);
    out += header;
    for (std::size_t i = 0; i < data_bytes; ++i) out += static_cast<char>(i * 37 + 11);
    return out;
}

class safetensors_writer {
 public:
    /// shape outermost first
    safetensors_writer& add(
        const std::string& name, const std::string& type, const std::string& shape, std::size_t bytes) {
        if (!header_.empty()) header_ += ',';
        header_ += '"' + name + "\":{\"dtype\":\"" + type + "\",\"shape\":[" + shape + "],\"data_offsets\":[" +
                   std::to_string(size_) + ',' + std::to_string(size_ + bytes) + "]}";
        size_ += bytes;
        return *this;
    }
    std::string text() const { return safetensors_text('{' + header_ + '}', size_); }
    std::vector<std::byte> bytes() const { return bytes_of(text()); }

 private:
    std::string header_;
    std::size_t size_ = 0;
};

}  // namespace troupe::testing
