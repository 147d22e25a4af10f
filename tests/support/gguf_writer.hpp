// Writes small GGUF files in memory, right or wrong on purpose.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace troupe::testing {

class gguf_writer {
 public:
    struct tensor {
        std::string name;
        std::vector<std::uint64_t> shape;  ///< GGUF order
        std::uint32_t type = 0;            ///< ggml's number; 0: f32
        std::uint64_t bytes = 0;
    };

    void text(const std::string& key, const std::string& value) { add_value(key, 8, packed(value)); }
    void u32(const std::string& key, std::uint32_t value) { add_value(key, 4, raw(value)); }
    void f32(const std::string& key, float value) { add_value(key, 6, raw(value)); }
    void flag(const std::string& key, bool value) { add_value(key, 7, raw(value)); }
    void texts(const std::string& key, const std::vector<std::string>& values) {
        std::string body = raw(std::uint32_t{8}) + raw(std::uint64_t{values.size()});
        for (const std::string& v : values) body += packed(v);
        add_value(key, 9, body);
    }
    void remove(const std::string& key) {
        std::erase_if(values, [&](const auto& v) { return v.first == key; });
    }
    void add(const std::string& name, std::vector<std::uint64_t> shape, std::uint32_t type = 0) {
        std::uint64_t n = 1;
        for (const std::uint64_t d : shape) n *= d;
        tensors.push_back({name, std::move(shape), type, type == 0 ? 4 * n : type == 8 ? n / 32 * 34 : 2 * n});
    }
    tensor& find(const std::string& name) {
        for (tensor& t : tensors)
            if (t.name == name) return t;
        std::abort();
    }

    /// Everything before the tensor data, padded.
    std::string header() const {
        std::string out =
            "GGUF" + raw(std::uint32_t{3}) + raw(std::uint64_t{tensors.size()}) + raw(std::uint64_t{values.size()});
        for (const auto& [key, value] : values) out += packed(key) + value;
        std::uint64_t offset = 0;
        for (const tensor& t : tensors) {
            out += packed(t.name) + raw(static_cast<std::uint32_t>(t.shape.size()));
            for (const std::uint64_t d : t.shape) out += raw(d);
            out += raw(t.type) + raw(offset);
            offset += (t.bytes + 31) / 32 * 32;
        }
        out.resize((out.size() + 31) / 32 * 32);
        return out;
    }
    std::uint64_t data_bytes() const {
        std::uint64_t sum = 0;
        for (const tensor& t : tensors) sum += (t.bytes + 31) / 32 * 32;
        return sum;
    }
    /// The file; tensor data is zero.
    std::string bytes() const { return header() + std::string(data_bytes(), '\0'); }

    std::vector<std::pair<std::string, std::string>> values;
    std::vector<tensor> tensors;

 private:
    template <class T> static std::string raw(T value) {
        std::string bytes(sizeof value, '\0');
        std::memcpy(bytes.data(), &value, sizeof value);
        return bytes;
    }
    static std::string packed(const std::string& s) { return raw(std::uint64_t{s.size()}) + s; }
    void add_value(const std::string& key, std::uint32_t type, const std::string& body) {
        remove(key);
        values.emplace_back(key, raw(type) + body);
    }
};

}  // namespace troupe::testing
