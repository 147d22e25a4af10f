// Every golden distribution of every chain (float64 references, agreed with mainline's samplers): 30 logit vectors x 71
// chains, and 24 runs of mirostat. tests/data/sampling: inputs.json names vectors and chains, distributions.bin holds
// the distinct results and, vector by vector and chain by chain, which one is expected.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include <boost/json.hpp>

#include "model/sampling/chain.hpp"
#include "tests/model/sampling/neutral.hpp"
#include "tests/support/figures.hpp"

namespace troupe::model {
namespace {

namespace json = boost::json;
constexpr double tolerance = 2e-5;  // float32 against float64: mainline's own float32 differs by up to 1.5e-5

std::string read(const std::string& name) {
    const char* root = std::getenv("TROUPE_SOURCE_DIR");
    std::ifstream in(std::string(root != nullptr ? root : "") + "/tests/data/sampling/" + name, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    EXPECT_FALSE(text.str().empty()) << name;
    return text.str();
}

float number(const json::value& v) { return v.is_string() ? minus_infinity : v.to_number<float>(); }
std::int32_t integer(const json::object& o, const char* key) { return o.at(key).to_number<std::int32_t>(); }

std::vector<token_id> ids_of(const json::value& v) {
    std::vector<token_id> ids;
    for (const auto& id : v.as_array()) ids.push_back(id.to_number<token_id>());
    return ids;
}

std::vector<float> logits_of(const json::value& v, float scale) {
    std::vector<float> out;
    for (const auto& x : v.as_array()) out.push_back(x.is_null() ? minus_infinity : x.to_number<float>() / scale);
    return out;
}

struct expectation {
    std::vector<token_id> ids;
    std::vector<float> p;
    bool boundary = false;  ///< a sum or limit is within 2e-6 of a threshold: float32 may keep one token more or less
};

/// distributions.bin, little-endian: counts of distributions and cases; {u8 n, u8 ids[n], f32 p[n]}; {u16 index, u8
/// flags: 1 equal logits straddle a cut (the lowest ids stay), 2 boundary}.
std::vector<expectation> read_expectations() {
    const std::string bytes = read("distributions.bin");
    std::size_t at = 0;
    const auto take = [&](auto& x) {
        std::memcpy(&x, bytes.data() + at, sizeof x);
        at += sizeof x;
    };
    std::uint32_t n_distinct = 0, n_cases = 0;
    take(n_distinct);
    take(n_cases);
    std::vector<expectation> distinct(n_distinct), cases(n_cases);
    for (auto& d : distinct) {
        std::uint8_t n = 0;
        take(n);
        for (int i = 0; i < n; ++i) {
            std::uint8_t id = 0;
            take(id);
            d.ids.push_back(id);
        }
        d.p.resize(n);
        for (float& p : d.p) take(p);
    }
    for (auto& c : cases) {
        std::uint16_t index = 0;
        std::uint8_t flags = 0;
        take(index);
        take(flags);
        c = distinct.at(index);
        c.boundary = (flags & 2) != 0;
    }
    EXPECT_EQ(at, bytes.size());
    return cases;
}

using distribution = std::vector<std::pair<token_id, float>>;

/// Place of a step in the sampler's own chain.
int rank_of(std::string_view sampler) {
    constexpr std::string_view order[] = {"logit_bias", "penalties", "dry", "top_n_sigma", "top_k", "typical_p",
        "top_p", "min_p", "xtc", "dynatemp", "temperature"};
    const auto found = std::find(std::begin(order), std::end(order), sampler);
    EXPECT_NE(found, std::end(order)) << sampler;
    return static_cast<int>(found - std::begin(order));
}

void add_step(sampling_params& p, float& draw, const json::object& step) {
    const std::string_view name = step.at("sampler").as_string();
    const auto real = [&](const char* key) { return number(step.at(key)); };
    if (const auto* keep = step.if_contains("min_keep")) p.min_keep = std::max(p.min_keep, keep->to_number<int>());
    if (name == "temperature") p.temperature = real("t");
    if (name == "top_k") p.top_k = integer(step, "k");
    if (name == "top_p") p.top_p = real("p");
    if (name == "min_p") p.min_p = real("p");
    if (name == "typical_p") p.typical_p = real("p");
    if (name == "top_n_sigma") p.top_n_sigma = real("n");
    if (name == "dynatemp")
        p.temperature = real("temp"), p.dynatemp_range = real("range"), p.dynatemp_exponent = real("exponent");
    if (name == "xtc")
        p.xtc_probability = real("probability"), p.xtc_threshold = real("threshold"), draw = real("draw");
    if (name == "penalties") {
        p.penalty_last_n = integer(step, "last_n");
        p.repeat_penalty = real("repeat");
        p.frequency_penalty = real("freq");
        p.presence_penalty = real("present");
    }
    if (name == "dry") {
        p.dry = {real("multiplier"), real("base"), integer(step, "allowed_length"), integer(step, "last_n"), {}};
        for (const auto& b : step.at("breakers").as_array()) p.dry.breakers.push_back(ids_of(b));
        std::sort(p.dry.breakers.begin(), p.dry.breakers.end());
    }
    if (name == "logit_bias")
        for (const auto& [id, bias] : step.at("bias").as_object())
            p.logit_bias.emplace_back(std::stoi(std::string(id)), number(bias));
}

/// A chain that the sampler's fixed order cannot express: its steps one after the other.
distribution step_by_step(const std::vector<float>& logits, const json::array& steps) {
    chain::candidate_list list;
    chain::workspace w;
    chain::all(logits, list);
    for (const auto& value : steps) {
        const auto& step = value.as_object();
        const std::string_view name = step.at("sampler").as_string();
        if (name == "temperature")
            chain::temperature(list, number(step.at("t")));
        else if (name == "top_k")
            chain::top_k(list, integer(step, "k"));
        else if (name == "top_p")
            chain::top_p(list, number(step.at("p")), integer(step, "min_keep"), w);
        else
            ADD_FAILURE() << name;
    }
    std::sort(list.items.begin(), list.items.end(), chain::before);
    const double sum = chain::softmax_weights(list.items, w.weights);
    distribution out;
    for (std::size_t i = 0; i < list.items.size(); ++i)
        out.emplace_back(list.items[i].id, static_cast<float>(w.weights[i] / sum));
    return out;
}

distribution run(sampler& s, const std::vector<float>& logits, const json::object& description) {
    const auto& steps = description.at("steps").as_array();
    sampling_params p = neutral();
    float draw = 0;
    int last = -1;
    for (const auto& step : steps) {
        const int rank = rank_of(step.as_object().at("sampler").as_string());
        if (rank <= last) return step_by_step(logits, steps);
        last = rank;
        add_step(p, draw, step.as_object());
    }
    return s.distribution(logits, p, ids_of(description.at("history")), 0, draw);
}

/// The same tokens, and their probabilities; two that differ by a rounding may swap places. Returns the largest
/// difference.
double expect_same(const distribution& got, const expectation& want, const std::string& what) {
    std::map<token_id, double> by_id;
    std::size_t visible = 0;  // in float32
    for (std::size_t i = 0; i < want.ids.size(); ++i) {
        by_id[want.ids[i]] = want.p[i];
        visible += want.p[i] > 1e-30f ? 1 : 0;
    }
    EXPECT_GE(got.size(), visible) << what;
    EXPECT_LE(got.size(), want.ids.size()) << what;
    double worst = 0;
    for (std::size_t i = 0; i < got.size() && i < want.p.size(); ++i) {
        EXPECT_EQ(by_id.count(got[i].first), 1u) << what << " keeps " << got[i].first;
        for (const double p : {by_id[got[i].first], static_cast<double>(want.p[i])})
            worst = std::max(worst, std::abs(got[i].second - p));
    }
    EXPECT_LE(worst, tolerance) << what;
    return worst;
}

/// One token more or less than expected: the others share its probability.
void expect_nearly(const distribution& got, const expectation& want, const std::string& what) {
    EXPECT_LE(std::max(got.size(), want.ids.size()) - std::min(got.size(), want.ids.size()), 1u) << what;
    std::size_t strangers = 0;
    for (const auto& [id, p] : got) {
        const auto found = std::find(want.ids.begin(), want.ids.end(), id);
        if (found == want.ids.end()) {
            ++strangers;
            continue;
        }
        const double expected = want.p[static_cast<std::size_t>(found - want.ids.begin())];
        EXPECT_NEAR(p, expected, expected * want.p.front() / (1 - want.p.back() * 0.99) + tolerance) << what;
    }
    EXPECT_LE(strangers, 1u) << what;
}

TEST(sampling_golden, every_vector_through_every_chain) {
    const json::object inputs = json::parse(read("inputs.json")).as_object();
    const auto expectations = read_expectations();
    const auto scale = inputs.at("scale").to_number<float>();
    sampler s(integer(inputs, "n_vocab"));
    std::size_t i = 0, loose = 0;
    double worst = 0;
    for (const auto& [vector, values] : inputs.at("vectors").as_object()) {
        const auto logits = logits_of(values, scale);
        for (const auto& [chain, description] : inputs.at("chains").as_object()) {
            const auto got = run(s, logits, description.as_object());
            const auto& want = expectations.at(i++);
            const std::string what = std::string(vector) + "/" + std::string(chain);
            if (want.boundary)
                ++loose, expect_nearly(got, want, what);
            else
                worst = std::max(worst, expect_same(got, want, what));
        }
    }
    EXPECT_EQ(i, 2130u);
    EXPECT_EQ(i, expectations.size());
    EXPECT_LE(loose, 13u);
    troupe::testing::record_figure("Sampling",
        "71 chains x 30 logit vectors: same tokens, largest difference of a probability", fmt::format("{:.1e}", worst),
        "2e-5: what float32 costs mainline itself is 1.5e-5");
}

TEST(sampling_golden, mirostat_runs) {
    const json::object inputs = json::parse(read("inputs.json")).as_object();
    const auto scale = inputs.at("scale").to_number<float>();
    sampler s(integer(inputs, "n_vocab"));
    std::size_t steps = 0;
    double worst_mu = 0, worst_p = 0;
    const json::value runs = json::parse(read("mirostat.json"));
    for (const auto& value : runs.as_array()) {
        const auto& r = value.as_object();
        const std::string what(r.at("vector").as_string());
        const auto logits = logits_of(inputs.at("vectors").at(r.at("vector").as_string()), scale);
        sampling_params p = neutral();
        p.mirostat = 2;
        p.mirostat_tau = number(r.at("tau"));
        p.mirostat_eta = number(r.at("eta"));
        float mu = p.first_mu();
        expectation want;
        for (const auto& step : r.at("steps").as_array()) {
            const auto& o = step.as_object();
            EXPECT_NEAR(mu, o.at("mu").to_number<double>(), 1e-4) << what;
            if (o.contains("ids")) {
                want.ids = ids_of(o.at("ids"));
                want.p.clear();
                for (const auto& x : o.at("p").as_array()) want.p.push_back(x.to_number<float>());
            }
            const auto got = s.distribution(logits, p, {}, mu);
            worst_p = std::max(worst_p, expect_same(got, want, what));
            const auto token = integer(o, "token");
            const auto drawn = std::find_if(got.begin(), got.end(), [&](const auto& x) { return x.first == token; });
            ASSERT_NE(drawn, got.end()) << what;
            EXPECT_NEAR(-std::log2(drawn->second), o.at("surprise").to_number<double>(), 1e-4) << what;
            mu = chain::mirostat_next(mu, p.mirostat_tau, p.mirostat_eta, drawn->second);
            worst_mu = std::max(worst_mu, std::abs(mu - o.at("next").to_number<double>()));
            ++steps;
        }
    }
    EXPECT_EQ(steps, 144u);
    EXPECT_LE(worst_mu, 1e-4);  // six steps of eta <= 1 times the rounding of a surprise in float32
    troupe::testing::record_figure("Sampling", "mirostat 2, 144 steps: largest difference of mu / of a probability",
        fmt::format("{:.1e} / {:.1e}", worst_mu, worst_p), "1e-4 / 2e-5");
}

}  // namespace
}  // namespace troupe::model
