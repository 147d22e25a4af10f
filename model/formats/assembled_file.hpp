// A model_file put together in memory from translated metadata and tensors that lie in mapped files.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "model/formats/mapped_file.hpp"
#include "model/formats/model_file.hpp"

namespace troupe::model {

class assembled_file final : public model_file {
 public:
    using value = std::variant<std::int64_t, double, bool, std::string, std::vector<std::string>,
        std::vector<std::int64_t>, std::vector<double>>;

    // -- putting together ------------------------------------------------------------------------------------------
    void set_format(std::string text) { format_ = std::move(text); }
    void set(std::string key, value v);
    /// False if the name is taken.
    bool add(model_tensor tensor);
    /// Keeps a file mapped as long as this lives; its first `header_bytes` count whole for the model hash.
    void keep(std::shared_ptr<const mapped_file> file, std::size_t header_bytes);

    // -- model_file ------------------------------------------------------------------------------------------------
    std::string format() const override { return format_; }
    std::vector<std::string_view> keys() const override;
    std::optional<gguf_type> type_of(std::string_view key) const override;
    result<std::optional<std::uint64_t>> get_uint(std::string_view key) const override;
    result<std::optional<std::int64_t>> get_int(std::string_view key) const override;
    result<std::optional<double>> get_float(std::string_view key) const override;
    result<std::optional<bool>> get_bool(std::string_view key) const override;
    result<std::optional<std::string_view>> get_string(std::string_view key) const override;
    result<std::optional<std::vector<std::string_view>>> get_strings(std::string_view key) const override;
    result<std::optional<std::vector<std::int64_t>>> get_ints(std::string_view key) const override;
    result<std::optional<std::vector<double>>> get_floats(std::string_view key) const override;
    std::string describe(std::string_view key) const override;
    std::span<const model_tensor> tensors() const override { return tensors_; }
    const model_tensor* tensor(std::string_view name) const override;
    std::vector<region> regions() const override { return regions_; }

 private:
    template <class T, class Out = T> result<std::optional<Out>> get(std::string_view key, const char* wanted) const;

    std::string format_;
    std::map<std::string, value, std::less<>> values_;
    std::vector<model_tensor> tensors_;
    std::unordered_map<std::string, std::size_t> index_;
    std::vector<std::shared_ptr<const mapped_file>> maps_;
    std::vector<region> regions_;
};

}  // namespace troupe::model
