// The interface: parsing under a depth budget, and renders that turn JSON into marked values and failures into errors.
#include "model/templates/chat_template.hpp"

#include <new>

#include <boost/json.hpp>

#include "model/templates/interpreter.hpp"
#include "model/templates/parser.hpp"

namespace troupe::model {

namespace {

namespace json = boost::json;
using jinja::value;

value convert(const json::value& v, bool from_user, jinja::meter& m, int depth) {
    if (depth > jinja::max_value_depth) throw jinja::failure{"data nested too deeply"};
    switch (v.kind()) {
    case json::kind::null:
        return value::none();
    case json::kind::bool_:
        return value::of(v.get_bool());
    case json::kind::int64:
        return value::of(static_cast<jinja::integer>(v.get_int64()));
    case json::kind::uint64:
        return value::of(static_cast<jinja::integer>(v.get_uint64()));
    case json::kind::double_:
        return value::of(v.get_double());
    case json::kind::string:
        return value::of(std::string_view(v.get_string()), from_user);
    case json::kind::array: {
        std::vector<value> items;
        items.reserve(v.get_array().size());
        for (const auto& item : v.get_array()) items.push_back(convert(item, from_user, m, depth + 1));
        return jinja::make_sequence(std::move(items), m);
    }
    case json::kind::object:
        break;
    }
    jinja::dict d;
    for (const auto& item : v.get_object()) {  // keys of a JSON object are unique: no look-up for each
        d.items.emplace_back(
            value::of(std::string_view(item.key()), from_user), convert(item.value(), from_user, m, depth + 1));
    }
    return jinja::make_dict(std::move(d));
}

bool is_users(std::string_view key) { return key == "messages" || key == "tools" || key == "documents"; }

class parsed_template final : public chat_template {
 public:
    parsed_template(std::string source, template_budget budget, jinja::block program)
        : source_(std::move(source)), budget_(budget), program_(std::move(program)) {}

    result<std::vector<text_part>> render(const json::object& context, std::int64_t now) const override {
        try {
            jinja::meter cost(budget_);
            jinja::interpreter machine(cost, now);
            std::vector<std::pair<std::string_view, value>> variables;
            for (const auto& item : context) {
                variables.emplace_back(
                    std::string_view(item.key()), convert(item.value(), is_users(item.key()), cost, 0));
            }
            return machine.run(program_, std::move(variables)).parts();
        } catch (const jinja::failure& f) {
            if (f.line < 0) return fail(errc::invalid_request, f.message, "messages");  // the template's own words
            return fail(errc::invalid_request,
                "chat template" + (f.line > 0 ? ", line " + std::to_string(f.line) : "") + ": " + f.message,
                "messages");
        } catch (const std::bad_alloc&) {
            return fail(errc::out_of_memory, "no memory to render the chat template");
        }
    }
    const std::string& source() const override { return source_; }

 private:
    std::string source_;
    template_budget budget_;
    jinja::block program_;
};

}  // namespace

result<std::shared_ptr<const chat_template>> chat_template::parse(std::string source, template_budget budget) {
    try {
        jinja::block program = jinja::parse(source, budget.depth);
        return std::shared_ptr<const chat_template>(
            std::make_shared<parsed_template>(std::move(source), budget, std::move(program)));
    } catch (const jinja::failure& f) {
        return fail(errc::model_unsupported, "chat template, line " + std::to_string(f.line) + ": " + f.message,
            "tokenizer.chat_template");
    } catch (const std::bad_alloc&) {
        return fail(errc::out_of_memory, "no memory to parse the chat template");
    }
}

std::string join(const std::vector<text_part>& parts) {
    std::string out;
    for (const auto& p : parts) out += p.text;
    return out;
}

}  // namespace troupe::model
