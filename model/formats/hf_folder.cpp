// Opens the files of the folder and has each translated.
#include "model/formats/hf_folder.hpp"

#include <map>
#include <set>

#include "model/formats/assembled_file.hpp"
#include "model/formats/gguf_parse.hpp"
#include "model/formats/hf_config.hpp"
#include "model/formats/hf_tensors.hpp"
#include "model/formats/hf_tokenizer.hpp"
#include "model/formats/json_file.hpp"
#include "model/formats/safetensors.hpp"

namespace troupe::model {

namespace {

namespace fs = std::filesystem;
using detail::json_document;
using detail::json_object;
using detail::printable_name;
using document = std::shared_ptr<const json_document>;

class folder_reader {
 public:
    explicit folder_reader(fs::path folder) : folder_(std::move(folder)), out_(std::make_shared<assembled_file>()) {}
    result<std::shared_ptr<const model_file>> read();

 private:
    result<std::string_view> text_of(const char* name);
    result<document> required(const char* name);
    result<document> optional(const char* name);
    result<void> read_template(const json_document* settings);
    result<void> read_shards();
    result<void> read_index(const json_document& index);
    result<std::vector<safetensors_entry>> read_shard(const std::string& name);
    bool has(const char* name) const {
        std::error_code failure;
        return fs::exists(folder_ / name, failure);
    }

    fs::path folder_;
    std::shared_ptr<assembled_file> out_;
    std::vector<safetensors_entry> entries_;
};

result<std::string_view> folder_reader::text_of(const char* name) {
    TROUPE_TRY(auto map, mapped_file::open(folder_ / name));
    const auto bytes = map->bytes();
    out_->keep(std::move(map), bytes.size());
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

result<document> folder_reader::required(const char* name) {
    TROUPE_TRY(const auto text, text_of(name));
    return json_document::parse(text, name);
}

result<document> folder_reader::optional(const char* name) { return has(name) ? required(name) : document(); }

result<void> folder_reader::read_template(const json_document* settings) {
    constexpr std::size_t most_bytes = 1u << 20;
    if (settings != nullptr) TROUPE_TRYV(detail::translate_template(*settings, *out_));
    if (!has("chat_template.jinja")) return {};
    TROUPE_TRY(const auto text, text_of("chat_template.jinja"));
    if (text.size() > most_bytes) return fail(errc::model_malformed, "chat_template.jinja is longer than 1 MiB");
    out_->set("tokenizer.chat_template", std::string(text));
    return {};
}

result<std::vector<safetensors_entry>> folder_reader::read_shard(const std::string& name) {
    TROUPE_TRY(auto map, mapped_file::open(folder_ / name));
    auto contents = parse_safetensors(map->bytes());
    if (!contents) return fail(contents.error().code, "'" + name + "': " + contents.error().message);
    out_->keep(std::move(map), contents->header_bytes);
    return std::move(contents->tensors);
}

/// weight_map says which shard holds which tensor; both sides must agree.
result<void> folder_reader::read_index(const json_document& index) {
    const json_object o(index.root(), index.what());
    TROUPE_TRY(const auto weights, o.object("weight_map"));
    if (!weights) return fail(errc::model_malformed, index.what() + " has no 'weight_map'");
    std::map<std::string, std::set<std::string>> shards;
    for (const auto [tensor, value] : weights->raw()) {
        std::string_view file;
        const bool plain = value.get(file) == simdjson::SUCCESS && file.ends_with(".safetensors") &&
                           file.find_first_of(std::string_view("/\\\0", 3)) == file.npos && file[0] != '.';
        if (!plain)
            return fail(errc::model_malformed,
                index.what() + ": tensor " + printable_name(tensor) + " is not in a .safetensors file of this folder");
        if (!shards[std::string(file)].insert(std::string(tensor)).second)
            return fail(errc::model_malformed, index.what() + ": tensor " + printable_name(tensor) + " occurs twice");
    }
    std::set<std::string> seen;
    for (auto& [file, expected] : shards) {
        TROUPE_TRY(auto tensors, read_shard(file));
        for (auto& t : tensors) {
            expected.erase(t.name);
            if (!seen.insert(t.name).second)
                return fail(errc::model_malformed, "tensor " + printable_name(t.name) + " is in two shards", t.name);
            entries_.push_back(std::move(t));
        }
        if (!expected.empty())
            return fail(errc::model_malformed,
                "'" + file + "' lacks tensor " + printable_name(*expected.begin()) + " of the index",
                *expected.begin());
    }
    return {};
}

result<void> folder_reader::read_shards() {
    TROUPE_TRY(const auto index, optional("model.safetensors.index.json"));
    if (index) return read_index(*index);
    TROUPE_TRY(entries_, read_shard("model.safetensors"));
    return {};
}

std::string format_name(const detail::hf_config& config, std::size_t n_shards) {
    std::string text = "Hugging Face folder, safetensors";
    if (config.awq) text += ", AWQ in groups of " + std::to_string(config.awq_group);
    return text + ", " + std::to_string(n_shards) + " files";
}

result<std::shared_ptr<const model_file>> folder_reader::read() {
    TROUPE_TRY(const auto config_json, required("config.json"));
    TROUPE_TRY(const auto generation, optional("generation_config.json"));
    TROUPE_TRY(const auto config, detail::translate_config(*config_json, generation.get(), *out_));
    std::error_code failure;
    const fs::path whole = fs::weakly_canonical(folder_, failure);
    out_->set("general.name", failure ? folder_.filename().string() : whole.filename().string());
    TROUPE_TRY(const auto tokenizer, required("tokenizer.json"));
    TROUPE_TRY(const auto settings, optional("tokenizer_config.json"));
    TROUPE_TRYV(detail::translate_tokenizer(*tokenizer, settings.get(), config, *out_));
    TROUPE_TRYV(read_template(settings.get()));
    TROUPE_TRYV(read_shards());
    TROUPE_TRYV(detail::translate_tensors(entries_, config, *out_));
    out_->set_format(format_name(config, out_->regions().size()));
    return std::shared_ptr<const model_file>(out_);
}

}  // namespace

result<std::shared_ptr<const model_file>> open_hf_folder(const fs::path& folder) {
    auto file = folder_reader(folder).read();
    if (!file) return fail(file.error().code, "'" + folder.string() + "': " + file.error().message, file.error().param);
    return file;
}

}  // namespace troupe::model
