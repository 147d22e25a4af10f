// Finds stop strings in text that arrives in pieces: text is held back exactly while it may still become one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe::actors {

class stop_strings {
 public:
    /// None of them empty.
    explicit stop_strings(std::vector<std::string> stops);

    /// Text that is now certain. When a stop string is complete, the text before it is the last there is: of all
    /// matches the one that ends first counts, and of those the one that begins first.
    std::string push(std::string_view text);
    /// No more text comes: what was held back.
    std::string flush();
    bool matched() const { return matched_; }
    /// The one that did; empty before.
    const std::string& which() const { return which_; }

 private:
    std::size_t held_back() const;
    std::vector<std::string> stops_;
    std::string buffer_, which_;
    bool matched_ = false;
};

}  // namespace troupe::actors
