// The tiny deepseek2 model beyond what tiny_test.cpp asks of every family: its two forms are one model, quantized files
// mean what their values mean, and a wrong reading of any hyper-parameter is as far off as transformers' is when it is
// given the same mistake (KL divergences and top-1 shares of the goldens' README).
#include <gtest/gtest.h>

#include <cstring>

#include <fmt/format.h>

#include "model/formats/gguf.hpp"
#include "tests/support/figures.hpp"
#include "tests/support/paged_runner.hpp"
#include "tests/support/test_models.hpp"

namespace troupe::testing {
namespace {

constexpr std::size_t n_vocab = 320;

std::vector<float> logits_of(model::model& m) {
    paged_runner runner(m);
    paged_sequence seq;
    return runner.feed_all(seq, read_array<std::int32_t>("logits/tokens.i32"), 64);
}

std::vector<float> logits_of(
    const std::string& name, const kernels::ops& ops, kernels::dtype kv = kernels::dtype::f32) {
    const loaded l = load_model(cache_path("tiny/" + name + ".gguf"), ops, kv);
    return l.m ? logits_of(*l.m) : std::vector<float>();
}

TEST(deepseek2_golden, both_forms_have_the_same_bits) {
    for (const kernels::ops* ops : kernels::available_tables())
        EXPECT_EQ(logits_of("deepseek2", *ops), logits_of("deepseek2-legacy", *ops)) << ops->name;
}

/// attn_kv_b in Q8_0, whose keys' part is turned around as float, against the other form made of the same values: only
/// the order of sums in `ref`'s double differs, and float roundings of activations (2^-24 each, some hundred deep).
TEST(deepseek2_golden, quantized_weights_mean_their_values) {
    const auto& ref = **kernels::table("ref");
    const auto expected = logits_of("deepseek2-mixed-f32", ref);
    const distance exact = compare(expected, logits_of("deepseek2-mixed", ref), n_vocab);
    EXPECT_LT(exact.relative, 1e-6);
    // Fast tables round activations to 8 bits. llama.cpp, which does the same, has a mean KLD of 1.6e-2 on the tiny
    // llama in Q4_K (goldens' README); here a router may besides prefer another expert.
    for (const kernels::ops* ops : kernels::available_tables().subspan(1)) {
        const distance d = compare(expected, logits_of("deepseek2-mixed", *ops), n_vocab);
        const std::string figure =
            fmt::format("relative L2 {:.1e}, mean KLD {:.1e}, top-1 {:.1f} %", d.relative, d.mean_kld, 100 * d.top1);
        fmt::print("deepseek2 Q4_K and Q8_0, {}: {}\n", ops->name, figure);
        record_figure("Logits of tiny models", fmt::format("deepseek2 Q4_K + Q8_0, KV f32, {}", ops->name), figure,
            "mean KLD <= 1.6e-2 to ref in float");
        EXPECT_LE(d.mean_kld, 1.6e-2) << ops->name;
    }
}

/// The model's file in memory, with other numbers in it.
class edited_file {
 public:
    edited_file() {
        std::ifstream in(cache_path("tiny/deepseek2.gguf"), std::ios::binary);
        bytes_ = std::string(std::istreambuf_iterator<char>(in), {});
        EXPECT_GT(bytes_.size(), 24u);
    }
    void set(const std::string& key, float value) { put("deepseek2." + key, 6, value); }
    void set(const std::string& key, std::uint32_t value) { put("deepseek2." + key, 4, value); }
    void set(const std::string& key, bool value) { put("deepseek2." + key, 7, value); }

    distance measure() const {
        const auto file = model::gguf_file::parse(std::as_bytes(std::span(bytes_)));
        EXPECT_TRUE(file.ok()) << file.error().message;
        kernels::pool threads(2);
        const auto m = model::model::load(*file,
            {.ops = *kernels::table("auto"), .threads = &threads, .kv_type = kernels::dtype::f32, .max_rows = 64});
        EXPECT_TRUE(m.ok()) << m.error().message;
        return m.ok() ? compare(read_array<float>("logits/deepseek2.f32"), logits_of(**m), n_vocab) : distance{};
    }

 private:
    template <class T> void put(const std::string& key, std::uint32_t type, T value) {
        if (const auto at = bytes_.find(key); at != std::string::npos) {
            std::memcpy(bytes_.data() + at + key.size() + 4, &value, sizeof value);
            return;
        }
        // New keys go to the front, with one of filling, so that the tensors keep their alignment.
        std::string added = text(key) + raw(type) + raw(value);
        std::string filler = text("filler." + key) + raw(std::uint32_t{8});
        filler += text(std::string(32 - (added.size() + filler.size() + 8) % 32, ' '));
        bytes_.insert(24, added + filler);
        std::uint64_t count;
        std::memcpy(&count, bytes_.data() + 16, sizeof count);
        count += 2;
        std::memcpy(bytes_.data() + 16, &count, sizeof count);
    }
    template <class T> static std::string raw(T value) {
        return std::string(reinterpret_cast<const char*>(&value), sizeof value);
    }
    static std::string text(const std::string& s) { return raw(std::uint64_t{s.size()}) + s; }
    std::string bytes_;
};

struct mistake {
    const char* what;
    double kld, top1;
    void (*make)(edited_file&);
};

constexpr float magnitude = 1.36888795f;  // 0.1 ln 40 + 1

const mistake mistakes[] = {
    {"top-k renormalised", 1.16e-1, 81, [](edited_file& f) { f.set("expert_weights_norm", true); }},
    {"routed scale 1", 2.00e-1, 65, [](edited_file& f) { f.set("expert_weights_scale", 1.0f); }},
    {"softmax scale without mscale^2", 1.36, 44,
        [](edited_file& f) {
            f.set("rope.scaling.yarn_log_multiplier", 0.0f);
            f.set("rope.scaling.yarn_attn_factor", 1.0f);
        }},
    {"YaRN magnitude on cos/sin too", 3.05, 10,
        [](edited_file& f) { f.set("rope.scaling.yarn_attn_factor", magnitude); }},
    {"factor 1 with the same softmax scale", 6.73e-1, 54,
        [](edited_file& f) {  // the ramp begins behind the last frequency: none is stretched
            f.set("rope.scaling.yarn_beta_fast", 1e-3f);
            f.set("rope.scaling.yarn_beta_slow", 1e-3f);
        }},
    {"top-2", 1.50e-1, 69, [](edited_file& f) { f.set("expert_used_count", 2u); }},
};

TEST(deepseek2_golden, mistakes_are_seen_and_are_those_of_transformers) {
    EXPECT_LT(edited_file().measure().relative, 1e-5);
    for (const mistake& m : mistakes) {
        edited_file file;
        m.make(file);
        const distance d = file.measure();
        EXPECT_NEAR(d.mean_kld, m.kld, 0.01 * m.kld) << m.what;  // known to three digits
        EXPECT_NEAR(100 * d.top1, m.top1, 1.0) << m.what;
        record_figure("Mistakes in tiny models", fmt::format("deepseek2: {}", m.what),
            fmt::format("mean KLD {:.2e}, top-1 {:.0f} %", d.mean_kld, 100 * d.top1),
            fmt::format("{:.2e} and {:.0f} %, those of transformers with the same mistake", m.kld, m.top1));
    }
}

}  // namespace
}  // namespace troupe::testing
