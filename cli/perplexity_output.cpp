#include "cli/perplexity_output.hpp"

#include <cstdio>
#include <string_view>

#include <fmt/format.h>

namespace troupe::cli {
namespace {

using model::estimate;

void print_row(std::string_view name, const estimate& e) {
    fmt::print("{:<30}: {:10.6f} ± {:10.6f}\n", name, e.value, e.error);
}

struct level {
    std::string_view name;
    double fraction;
};

void print_kld(const model::divergence& d) {
    fmt::print("====== KL divergence statistics ======\n");
    fmt::print("Mean    KLD: {:10.6f} ± {:10.6f}\n", d.kld().value, d.kld().error);
    const auto values = d.sorted_kld();
    for (const auto& [name, fraction] : {level{"Maximum", 1}, {"99.9%  ", 0.999}, {"99.0%  ", 0.99}, {"95.0%  ", 0.95},
             {"90.0%  ", 0.9}, {"Median ", 0.5}, {"10.0%  ", 0.1}, {" 5.0%  ", 0.05}, {" 1.0%  ", 0.01},
             {" 0.1%  ", 0.001}, {"Minimum", 0}})
        fmt::print("{} KLD: {:10.6f}\n", name, model::percentile(values, fraction));
}

void print_p_diff(const model::divergence& d) {
    fmt::print("====== Token probability statistics ======\n");
    fmt::print("Mean    Δp: {:6.3f} ± {:5.3f} %\n", 100 * d.p_diff().value, 100 * d.p_diff().error);
    const auto values = d.sorted_p_diff();
    for (const auto& [name, fraction] : {level{"Maximum", 1}, {"99.9%  ", 0.999}, {"99.0%  ", 0.99}, {"95.0%  ", 0.95},
             {"90.0%  ", 0.9}, {"75.0%  ", 0.75}, {"Median ", 0.5}, {"25.0%  ", 0.25}, {"10.0%  ", 0.1},
             {" 5.0%  ", 0.05}, {" 1.0%  ", 0.01}, {" 0.1%  ", 0.001}, {"Minimum", 0}})
        fmt::print("{} Δp: {:6.3f}%\n", name, 100 * model::percentile(values, fraction));
    fmt::print("RMS Δp    : {:6.3f} ± {:5.3f} %\n", 100 * d.p_diff_rms().value, 100 * d.p_diff_rms().error);
    fmt::print("Same top p: {:6.3f} ± {:5.3f} %\n", 100 * d.same_top().value, 100 * d.same_top().error);
}

}  // namespace

void print_chunk(std::int32_t number, const model::mean_of& nll) {
    fmt::print("[{}]{:.4f},", number, model::perplexity(nll).value);
    std::fflush(stdout);
}

void print_estimate(const model::mean_of& nll) {
    const auto p = model::perplexity(nll);
    fmt::print("\nFinal estimate: PPL = {:.4f} +/- {:.5f}\n", p.value, p.error);
}

void print_comparison_head() {
    fmt::print("chunk             PPL               ln(PPL(Q)/PPL(base))          KL Divergence              Δp RMS"
               "            Same top p\n");
}

void print_comparison(std::int32_t number, const model::divergence& d) {
    const auto ppl = d.perplexity_model(), ratio = d.log_ratio(), kld = d.kld(), rms = d.p_diff_rms(),
               top = d.same_top();
    fmt::print("{:4}    {:9.4f} ± {:9.4f}    {:10.5f} ± {:10.5f}    {:10.5f} ± {:10.5f}    {:6.3f} ± {:6.3f} %    "
               "{:6.3f} ± {:6.3f} %\n",
        number, ppl.value, ppl.error, ratio.value, ratio.error, kld.value, kld.error, 100 * rms.value, 100 * rms.error,
        100 * top.value, 100 * top.error);
    std::fflush(stdout);
}

void print_statistics(const model::divergence& d) {
    constexpr std::size_t fewest = 100;
    if (d.count() < fewest) return;
    fmt::print("\n====== Perplexity statistics ======\n");
    print_row("Mean PPL(Q)", d.perplexity_model());
    print_row("Mean PPL(base)", d.perplexity_base());
    fmt::print("{:<30}: {:6.2f}%\n", "Cor(ln(PPL(Q)), ln(PPL(base)))", 100 * d.correlation());
    print_row("Mean ln(PPL(Q)/PPL(base))", d.log_ratio());
    print_row("Mean PPL(Q)/PPL(base)", d.ratio());
    print_row("Mean PPL(Q)-PPL(base)", d.difference());
    fmt::print("\n");
    print_kld(d);
    fmt::print("\n");
    print_p_diff(d);
}

}  // namespace troupe::cli
