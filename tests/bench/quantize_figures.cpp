// quantize_figures TOKENS.i32 ORIGINAL QUANTIZED...: for each quantized file one line "RMSE KLD TOP1 FILE", the logits
// by the reference table (float activations), so that nothing but the weights makes the difference.
#include <cstdio>
#include <cstring>

#include "tests/support/quant_figures.hpp"

int main(int argc, char** argv) {
    namespace kernels = troupe::kernels;
    namespace model = troupe::model;
    if (argc < 4) {
        std::fputs("usage: quantize_figures TOKENS.i32 ORIGINAL QUANTIZED...\n", stderr);
        return 2;
    }
    std::ifstream in(argv[1], std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
    std::vector<std::int32_t> tokens(bytes.size() / 4);
    std::memcpy(tokens.data(), bytes.data(), tokens.size() * 4);
    const kernels::ops& ops = **kernels::table("ref");
    const auto original = model::model_file::open(argv[2]);
    const auto expected = troupe::testing::logits_of(argv[2], ops, tokens);
    if (!original || expected.empty()) return 1;
    for (int i = 3; i < argc; ++i) {
        const auto quantized = model::model_file::open(argv[i]);
        if (!quantized) {
            std::fprintf(stderr, "%s: %s\n", argv[i], quantized.error().message.c_str());
            return 1;
        }
        const auto d = troupe::testing::compare(
            expected, troupe::testing::logits_of(argv[i], ops, tokens), expected.size() / tokens.size());
        std::printf(
            "%.9e %.9e %.4f %s\n", troupe::testing::weight_rmse(**original, **quantized), d.mean_kld, d.top1, argv[i]);
        std::fflush(stdout);
    }
}
