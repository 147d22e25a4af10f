// exp and tanh on sixteen lanes. Included once by each kernels_<isa>.cpp after its vec_<isa>.hpp; TROUPE_ISA is its
// namespace.

namespace troupe::kernels::TROUPE_ISA {
namespace {

/// x = n ln 2 + r with integer n and |r| <= 0.35.
struct reduced {
    vf n, r;
};
inline reduced reduce(vf x) {
    const vf n = round(mul(x, set1(0x1.715476p+0f)));
    // ln 2 in two parts, the first with 14 bits, so that n * high is exact and r keeps full precision.
    const vf high = fnma(n, set1(0x1.62e4p-1f), x);
    return {n, fnma(n, set1(0x1.7f7d1cp-20f), high)};
}

/// (e^r - 1 - r) / r^2 by Taylor's series to r^5: with the r^2 in front the rest is below 5.2e-9 for |r| <= 0.35.
inline vf exp_tail(vf r) {
    vf p = set1(1.0f / 5040);
    p = fma(p, r, set1(1.0f / 720));
    p = fma(p, r, set1(1.0f / 120));
    p = fma(p, r, set1(1.0f / 24));
    p = fma(p, r, set1(1.0f / 6));
    return fma(p, r, set1(0.5f));
}

/// Within 1.5 units in the last place. exp(0) = 1 and exp(-inf) = 0 exactly, NaN stays NaN: outside the clamp the
/// result rounds to 0 or infinity by itself, and the constants come first in min and max because those return their
/// second operand on NaN. 2^n is applied in two halves, since it alone may overflow or be subnormal.
inline vf exp(vf x) {
    const vf clamped = min(set1(89.0f), max(set1(-105.0f), x));
    const auto [n, r] = reduce(clamped);
    const vf p = add(fma(mul(r, r), exp_tail(r), r), set1(1.0f));
    const vf half = round(mul(n, set1(0.5f)));
    return mul(mul(p, pow2(half)), pow2(sub(n, half)));
}

/// Within 3 units in the last place, by t = e^(2|x|) - 1 (exact cancellation only where 2^n = 1), tanh = t / (t + 2).
inline vf tanh(vf x) {
    const vf a = min(set1(10.0f), abs(x));  // tanh(10) rounds to 1
    const auto [n, r] = reduce(add(a, a));
    const vf minus_one = fma(mul(r, r), exp_tail(r), r);
    const vf power = pow2(n);
    const vf t = fma(power, minus_one, sub(power, set1(1.0f)));
    return with_sign(div(t, add(t, set1(2.0f))), sign_of(x));
}

}  // namespace
}  // namespace troupe::kernels::TROUPE_ISA
