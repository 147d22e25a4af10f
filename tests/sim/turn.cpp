#include "turn.hpp"

namespace troupe::actors::sim {

sim_vocabulary::sim_vocabulary() {
    for (int i = 0; i < vocabulary; ++i) {
        const auto letter = [](int x) { return static_cast<char>('a' + x % 26); };
        pieces_.push_back({letter(i), letter(i / 26), letter(i * 7 + 3)});
    }
    pieces_[end_token].clear();
}

std::shared_ptr<const sim_vocabulary> the_vocabulary() {
    static const auto v = std::make_shared<const sim_vocabulary>();
    return v;
}

void solve(turn& t) {
    t.tokens = answer_of(t.prompt, t.max_tokens);
    t.full = static_cast<std::int64_t>(t.tokens.size()) == t.max_tokens;
    t.text.clear();
    t.n_tokens = 0;
    for (const token_id id : t.tokens) {
        t.text += the_vocabulary()->piece(id, false);
        ++t.n_tokens;
        if (t.stop.empty()) continue;
        if (const auto at = t.text.find(t.stop); at != std::string::npos) {
            t.text.resize(at);
            t.full = false;
            return;
        }
    }
}

}  // namespace troupe::actors::sim
