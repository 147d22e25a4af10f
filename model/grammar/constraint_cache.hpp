// Compiled grammars by their source: sequences with the same grammar share one, and the last few stay when nobody uses
// them.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "core/limits.hpp"
#include "model/grammar/constraint.hpp"

namespace troupe::model {

/// Not thread-safe.
class constraint_cache {
 public:
    /// `vocabulary` is the same at every call. Errors as constraint::compile.
    result<std::shared_ptr<constraint>> get(
        const std::string& source, const std::shared_ptr<const token_trie>& vocabulary) {
        for (auto it = kept_.begin(); it != kept_.end(); ++it)
            if (it->source == source) {
                kept_.splice(kept_.begin(), kept_, it);
                return kept_.front().grammar;
            }
        TROUPE_TRY(auto grammar, constraint::compile(source, vocabulary));
        kept_.push_front({source, grammar});
        // Those in use are shared for as long as they are; of the others the last few are kept.
        std::size_t idle = 0;
        for (auto it = kept_.begin(); it != kept_.end();)
            it = it->grammar.use_count() == 1 && ++idle > limits::grammars_kept ? kept_.erase(it) : std::next(it);
        return grammar;
    }

 private:
    struct entry {
        std::string source;
        std::shared_ptr<constraint> grammar;
    };
    std::list<entry> kept_;  ///< last used first
};

}  // namespace troupe::model
