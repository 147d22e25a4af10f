#include "model/templates/load_chat_format.hpp"

namespace troupe::model {

result<std::shared_ptr<const chat_format>> load_chat_format(const model_file& file, const tokenizer& words) {
    TROUPE_TRY(const auto source, file.get_string("tokenizer.chat_template"));
    const auto text_of = [&](token_id id) { return id < 0 ? std::string() : std::string(words.piece(id, true)); };
    const auto has_token = [&](std::string_view text) { return words.encode(text, true, false).size() == 1; };
    return chat_format::load(std::string(source.value_or("")), text_of(words.bos()), text_of(words.eos()), has_token);
}

}  // namespace troupe::model
