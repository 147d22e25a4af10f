// A small machine over the held-back text; each step consumes some of it or waits for more.
#include "model/tools/call_parser.hpp"

#include <algorithm>
#include <utility>

namespace troupe::model {
namespace {

bool begins(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }
/// `text` may still become something that begins with `whole`.
bool may_begin(std::string_view text, std::string_view whole) {
    return text.size() < whole.size() && begins(whole, text);
}

}  // namespace

call_parser::call_parser(call_style style, std::vector<std::string> names)
    : style_(style), text_(text_of(style)), names_(std::move(names)),
      phase_(style == call_style::llama3 ? phase::header : phase::content) {
    for (const auto& n : names_) heads_.push_back(std::string(text_.begin) + n + std::string(text_.middle));
}

std::vector<call_piece> call_parser::push(std::string_view text) {
    buffer_ += text;
    while (!buffer_.empty() && step()) {
    }
    return std::exchange(out_, {});
}

std::vector<call_piece> call_parser::finish() {
    // What is held back did not become a call's beginning or end. The line end between two calls is no content.
    const bool separator = between_ == 1 && buffer_ == "\n";
    if (phase_ != phase::arguments && phase_ != phase::tail && !separator) emit(call_piece::kind::content, buffer_);
    buffer_.clear();
    return std::exchange(out_, {});
}

void call_parser::emit(call_piece::kind what, std::string_view text) {
    if (text.empty()) return;
    if (!out_.empty() && out_.back().what == what && out_.back().index == index_ && what != call_piece::kind::name)
        out_.back().text += text;
    else
        out_.push_back({what, std::string(text), index_});
}

bool call_parser::step() {
    switch (phase_) {
    case phase::content:
        return content();
    case phase::header:
        return header();
    case phase::arguments:
        return arguments();
    case phase::tail:
        return tail();
    case phase::only_content:
        emit(call_piece::kind::content, buffer_);
        buffer_.clear();
        return false;
    }
    return false;
}

bool call_parser::content() {
    if (between_ == 1) {
        const auto next = "\n" + std::string(text_.trigger);
        if (may_begin(buffer_, next)) return false;
        between_ = 0;
        if (begins(buffer_, next)) buffer_.erase(0, 1);
    }
    const auto at = buffer_.find(text_.trigger);
    std::size_t certain = at;
    if (at == std::string::npos) {
        std::size_t held = std::min(buffer_.size(), text_.trigger.size() - 1);
        while (!begins(text_.trigger, std::string_view(buffer_).substr(buffer_.size() - held))) --held;
        certain = buffer_.size() - held;
    }
    emit(call_piece::kind::content, std::string_view(buffer_).substr(0, certain));
    buffer_.erase(0, certain);
    if (at == std::string::npos) return false;
    phase_ = phase::header;
    return true;
}

bool call_parser::header() {
    bool possible = false;
    for (std::size_t i = 0; i < heads_.size(); ++i) {
        if (begins(buffer_, heads_[i])) {
            buffer_.erase(0, heads_[i].size());
            out_.push_back({call_piece::kind::name, names_[i], index_});
            phase_ = phase::arguments;
            depth_ = 0;
            in_string_ = escaped_ = false;
            return true;
        }
        possible = possible || may_begin(buffer_, heads_[i]);
    }
    if (possible) return false;
    if (style_ == call_style::llama3) {
        phase_ = phase::only_content;
        return true;
    }
    emit(call_piece::kind::content, std::string_view(buffer_).substr(0, text_.trigger.size()));
    buffer_.erase(0, text_.trigger.size());
    phase_ = phase::content;
    return true;
}

/// To the brace that closes the object.
bool call_parser::arguments() {
    for (std::size_t i = 0; i < buffer_.size(); ++i) {
        const char c = buffer_[i];
        if (in_string_) {
            if (escaped_)
                escaped_ = false;
            else if (c == '\\')
                escaped_ = true;
            else if (c == '"')
                in_string_ = false;
            continue;
        }
        if (c == '"') in_string_ = true;
        if (c == '{' || c == '[') ++depth_;
        if ((c == '}' || c == ']') && --depth_ <= 0) {
            emit(call_piece::kind::arguments, std::string_view(buffer_).substr(0, i + 1));
            buffer_.erase(0, i + 1);
            phase_ = phase::tail;
            return true;
        }
    }
    emit(call_piece::kind::arguments, buffer_);
    buffer_.clear();
    return false;
}

bool call_parser::tail() {
    if (may_begin(buffer_, text_.end)) return false;
    if (begins(buffer_, text_.end)) {
        buffer_.erase(0, text_.end.size());
        ++complete_;
    }
    ++index_;
    between_ = 1;
    phase_ = style_ == call_style::llama3 ? phase::only_content : phase::content;
    return true;
}

}  // namespace troupe::model
