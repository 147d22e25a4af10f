// A piece of rendered text that remembers who wrote it: only text of the template itself may hold control tokens.
#pragma once

#include <string>
#include <vector>

namespace troupe::model {

struct text_part {
    std::string text;
    bool from_user = false;  ///< true: came out of messages, tools or documents; never parsed for control tokens
    bool operator==(const text_part&) const = default;
};

}  // namespace troupe::model
