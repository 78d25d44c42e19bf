// Aff(2), principal logarithm, in the ring spanned by I and the traceless part N of a matrix.
//
// N^2 = q I, so every function of the matrix is two numbers. Square roots bring it near the
// identity, where log = 2 atanh Z with Z = (S - I)(S + I)^-1; the same roots carry V^-1 along. No
// step asks whether the eigenvalues are real, equal or complex.
#pragma once

#include "dual.h"
#include "halves.h"
#include "rigid2.h"

namespace lieattn {

// Roots until |log| is at most 4.4 / 2^3, so that |tanh(log / 2)|^2 <= 0.08.
constexpr int FEW_ROOTS = 3, MANY_ROOTS = 5;
constexpr int SERIES = 5;  // atanh(z) / z up to z^10
// Pairs closer to the cut than this angle are off the chart, see `Group.resolution`.
constexpr double RESOLVED = 1e-5;

// The roots of m I + N, and what the logarithm and V^-1 are made of.
template <class T, int ROOTS>
struct Ladder {
    T b[ROOTS], above[ROOTS], delta[ROOTS];  // N's coefficients, 1 + trace / 2, det(S + I)

    // `root` is the squared trace of the first root, d[k] = det^(1 / 2^(k+1)).
    LIEATTN_INLINE void climb(Ladder& l, T root, const T* d) {
        for (int k = 0; k < ROOTS; k++) {
            T by_trace = inverse_sqrt(root);
            T trace = root * by_trace;
            l.b[k] = k == 0 ? by_trace : l.b[k - 1] * by_trace;
            l.above[k] = fma(trace, 0.5f, 1.0f);
            l.delta[k] = (1.0f + trace) + d[k];
            root = fma(d[k + 1 < ROOTS ? k + 1 : k], 2.0f, trace);
        }
    }

    // log = (log det / 2) I + f N, V^-1 = u0 I + u1 N. `excess` is the determinant of the last root
    // less 1, which is also what the unit part of Z comes from.
    LIEATTN_INLINE void finish(const Ladder& l, T excess, T q, T& f, T& u0, T& u1) {
        // The product of all (1 + S)^-1: adjugates first, then one division by their determinants.
        T p0 = l.above[0], p1 = -l.b[0], dets = l.delta[0];
        for (int k = 1; k < ROOTS; k++) {
            T next = difference(p0, l.above[k], p1 * l.b[k], q);
            p1 = difference(p1, l.above[k], p0, l.b[k]);
            p0 = next;
            dets = dets * l.delta[k];
        }
        T last = l.delta[ROOTS - 1];
        T both = inverse(dets * last);
        T by_last = both * dets, by_dets = (float)(1 << ROOTS) * (both * last);
        T z0 = excess * by_last, z1 = 2.0f * (l.b[ROOTS - 1] * by_last);
        T z1q = z1 * q;
        T y0 = two(z0, z0, z1, z1q), y1 = 2.0f * (z0 * z1), y1q = y1 * q;
        T c0 = fma(y0, 1.0f / (2 * SERIES + 1), 1.0f / (2 * SERIES - 1));
        T c1 = (1.0f / (2 * SERIES + 1)) * y1;
        for (int i = SERIES - 2; i >= 0; i--) {
            T next = fma(y1q, c1, fma(y0, c0, 1.0f / (2 * i + 1)));
            c1 = two(y0, c1, y1, c0);
            c0 = next;
        }
        f = (float)(2 << ROOTS) * two(c0, z1, c1, z0);
        // V^-1 of the last root is atanh(Z)/Z (I - Z); the product and 2^ROOTS make it that of all.
        T m0 = difference(c0, 1.0f - z0, c1, z1q), m1 = difference(c1, 1.0f - z0, c0, z1);
        u0 = by_dets * two(p0, m0, p1 * m1, q);
        u1 = by_dets * two(p0, m1, p1, m0);
    }
};

struct Aff2 {
    static constexpr int D = 6, K = 4, M = 3;
    static constexpr int BLOCK[6] = {0, 0, 1, 2, 3, 3};
    static constexpr bool ALWAYS_CHECKED = true, MOVES_ = true;
    // A (4), t (2), log|det| / 2 high and low (2), |det|^(1/2^k) for k = 1 to MANY_ROOTS with the
    // sign of det on the first (queries: reciprocals), the powers of FEW_ROOTS and MANY_ROOTS high
    // and low (4); queries have A^-1 (4) as well.
    static constexpr int POWERS = 8, LOW = POWERS + MANY_ROOTS, INVERSE = LOW + 4;
    static constexpr int EXACT = INVERSE + 4;  // A^-1 as doubles
    static constexpr int KEY = INVERSE, QUERY = EXACT + 8;
    using Query = const float*;
    static constexpr int QUERY_GRAD = 6, KEY_GRAD = 6;

    struct Limits {
        float tangent;    // squared, of the angle to the cut
        bool wide, some;  // whether eigenvalues with a negative real part may count, or any at all
        explicit Limits(double margin)
            : tangent((float)std::pow(std::tan(std::max(margin, RESOLVED)), 2)),
              wide(margin <= PI / 2),
              some(margin < PI) {}
    };

    static bool fits(const Extent& x) {
        return x.fits_affine();
    }

    static bool pack(const float* g, float* out, int64_t stride, bool query, Extent& extent) {
        const double a = g[0], b = g[1], c = g[3], d = g[4], det = a * d - b * c;
        if (!(std::fabs(det) > 1e-30) || !(std::fabs(det) < 1e30)) return false;
        const double size = std::sqrt(a * a + b * b + c * c + d * d);
        extent.add(size, size / std::fabs(det), std::max(std::fabs(g[2]), std::fabs(g[5])));
        out[0] = g[0], out[stride] = g[1], out[2 * stride] = g[3], out[3 * stride] = g[4];
        out[4 * stride] = g[2], out[5 * stride] = g[5];
        const Split half(0.5 * std::log(std::fabs(det)));
        out[6 * stride] = half.high, out[7 * stride] = half.low;
        double power = std::fabs(det);
        for (int k = 0; k < MANY_ROOTS; k++) {
            power = std::sqrt(power);
            const double sign = k == 0 && det < 0 ? -1 : 1;
            out[(POWERS + k) * stride] = (float)(sign * (query ? 1 / power : power));
            if (k + 1 == FEW_ROOTS || k + 1 == MANY_ROOTS) {
                const int64_t at = (LOW + (k + 1 == FEW_ROOTS ? 0 : 2)) * stride;
                const Split part(power);
                out[at] = part.high, out[at + stride] = part.low;
            }
        }
        if (query) {
            out[INVERSE] = (float)(d / det), out[INVERSE + 1] = (float)(-b / det);
            out[INVERSE + 2] = (float)(-c / det), out[INVERSE + 3] = (float)(a / det);
            const double exact[4] = {d / det, -b / det, -c / det, a / det};
            memcpy(out + EXACT, exact, sizeof exact);
        }
        return true;
    }

    static bool pack_key(const float* g, float* out, int64_t stride, Extent& extent) {
        return pack(g, out, stride, false, extent);
    }

    static bool pack_query(const float* g, float* out, Extent& extent) {
        return pack(g, out, 1, true, extent);
    }

    struct Early {
        vf a00, a01, a10, a11, t0, t1, h, b, c, m, det, f, u0, u1;
        vf q, root, half, d[MANY_ROOTS], excess;
        vf f_m, f_q, u0_m, u0_q, u1_m, u1_q;
        vi valid;
        bool many;
        Ladder<vf, FEW_ROOTS> few;
        Ladder<vf, MANY_ROOTS> ladder;
    };
    struct Late {};
    struct State : Early, Late {};

    template <bool CHECK, bool GRAD>
    LIEATTN_INLINE vi log(const float* q, const float* k, int64_t n, const Limits& limits, vf* w,
                          State& s) {
        first<GRAD>(q, k, n, limits, s);
        if (GRAD) {
            if (s.many)
                derive<MANY_ROOTS>(s);
            else
                derive<FEW_ROOTS>(s);
        } else {
            stage<0>(s);
            stage<1>(s);
        }
        assemble(s, s, w);
        return s.valid;
    }

    // The stages of a pair. Each is a long chain of operations that wait for each other: loops over
    // several vectors, a stage at a time, keep the machine busy where one over whole pairs would not.
    static constexpr int STAGED = 8, STAGES = 2;

    template <bool GRAD>
    LIEATTN_INLINE void first(const float* q, const float* k, int64_t n, const Limits& limits,
                              Early& s) {
        // The relative pose in double precision: its entries cancel where frames are far from
        // square, and next to the cut.
        double inv[4];
        memcpy(inv, q + EXACT, sizeof inv);
        hd h[2], b[2], c[2], m[2], square[2], t0[2], t1[2];
        for (int i = 0; i < 2; i++) {
            const float* key = k + i * (LANES / 2);
            const hd k0 = load_half(key), k1 = load_half(key + n);
            const hd k2 = load_half(key + 2 * n), k3 = load_half(key + 3 * n);
            const hd a00 = two(inv[0], k0, inv[1], k2), a11 = two(inv[2], k1, inv[3], k3);
            b[i] = two(inv[0], k1, inv[1], k3), c[i] = two(inv[2], k0, inv[3], k2);
            h[i] = 0.5 * (a00 - a11), m[i] = 0.5 * (a00 + a11);
            square[i] = fma(h[i], h[i], b[i] * c[i]);
            const hd dx = load_half(key + 4 * n) - q[4], dy = load_half(key + 5 * n) - q[5];
            t0[i] = two(inv[0], dx, inv[1], dy), t1[i] = two(inv[2], dx, inv[3], dy);
        }
        s.h = join(h[0], h[1]), s.b = join(b[0], b[1]), s.c = join(c[0], c[1]);
        s.m = join(m[0], m[1]), s.q = join(square[0], square[1]);
        s.t0 = join(t0[0], t0[1]), s.t1 = join(t1[0], t1[1]);
        if (GRAD) s.a00 = s.m + s.h, s.a01 = s.b, s.a10 = s.c, s.a11 = s.m - s.h;
        for (int i = 0; i < FEW_ROOTS; i++) s.d[i] = load(k + (POWERS + i) * n) * q[POWERS + i];
        s.half = (load(k + 6 * n) - q[6]) + (load(k + 7 * n) - q[7]);
        s.excess = excess<0>(q, k, n);
        vf bound = limits.tangent * s.m * s.m;
        vi positive = s.m > 0.0f, complex = s.q < 0.0f;
        vi far = limits.wide ? positive | (-s.q > bound) : positive & (-s.q < bound);
        s.valid = (complex & far) | (~complex & positive & (s.d[0] > 0.0f));
        if (!limits.some) s.valid = vi{};
        s.many = any(((abs(s.half) > 2.2f) | (s.m > 4.6f * s.d[0])) & s.valid);
        if (s.many) {
            for (int i = FEW_ROOTS; i < MANY_ROOTS; i++)
                s.d[i] = load(k + (POWERS + i) * n) * q[POWERS + i];
            s.excess = excess<1>(q, k, n);
        }
        // Off the chart: any numbers that stay finite, with finite derivatives.
        s.d[0] = abs(s.d[0]);
        s.m = select(s.valid, s.m, s.d[0]), s.q = select(s.valid, s.q, vf{});
        // (trace of the root)^2 = 2 (m + sqrt det), which cancels next to the cut.
        vf root = select(s.m < 0.0f, -2.0f * (s.q * inverse(s.d[0] - s.m)), 2.0f * (s.m + s.d[0]));
        s.root = select(s.valid, root, splat(4.0f));
    }

    // The determinant of the last root less 1, from differences that keep its digits.
    template <int MANY>
    LIEATTN_INLINE vf excess(const float* q, const float* k, int64_t n) {
        const int at = LOW + 2 * MANY, power = POWERS + (MANY ? MANY_ROOTS : FEW_ROOTS) - 1;
        return ((load(k + at * n) - q[at]) + (load(k + (at + 1) * n) - q[at + 1])) * q[power];
    }

    template <int number>
    LIEATTN_INLINE void stage(Early& s) {
        if (s.many)
            step<number>(s.ladder, s);
        else
            step<number>(s.few, s);
    }

    template <int number, class Ladder>
    LIEATTN_INLINE void step(Ladder& ladder, Early& s) {
        if constexpr (number == 0)
            Ladder::climb(ladder, s.root, s.d);
        else
            Ladder::finish(ladder, s.excess, s.q, s.f, s.u0, s.u1);
    }

    LIEATTN_INLINE void last(Early&, Late&) {}

    LIEATTN_INLINE vi valid(const Early& s, const vf*, const Limits&) { return s.valid; }

    LIEATTN_INLINE void assemble(const Early& s, const Late&, vf* w) {
        vf turn = (1 / SQRT2) * s.f;
        w[0] = fma(s.u0, s.t0, s.u1 * two(s.h, s.t0, s.b, s.t1));
        w[1] = fma(s.u0, s.t1, s.u1 * difference(s.c, s.t0, s.h, s.t1));
        w[2] = turn * (s.c - s.b);
        w[3] = SQRT2 * s.half;
        w[4] = SQRT2 * (s.f * s.h);
        w[5] = turn * (s.b + s.c);
    }

    template <int ROOTS>
    LIEATTN_INLINE void derive(State& s) {
        // Derivatives in m and q: det = m^2 - q.
        vf by_d = inverse(s.d[0]), by_det = by_d * by_d;
        typedef Dual<2> Dual;
        Dual powers[ROOTS];
        for (int k = 0; k < ROOTS; k++) {
            vf scaled = s.d[k] * by_det * (1.0f / (2 << k));
            powers[k] = Dual{s.d[k], {2.0f * scaled * s.m, -scaled}};
        }
        Ladder<Dual, ROOTS> ladder;
        Dual f, u0, u1;
        ladder.climb(ladder, Dual{s.root, {s.root * by_d, -by_d}}, powers);
        Dual excess = powers[ROOTS - 1];
        excess.v = s.excess;
        ladder.finish(ladder, excess, Dual{s.q, {vf{}, splat(1.0f)}}, f, u0, u1);
        s.det = by_det;
        s.f = f.v, s.f_m = f.d[0], s.f_q = f.d[1];
        s.u0 = u0.v, s.u0_m = u0.d[0], s.u0_q = u0.d[1];
        s.u1 = u1.v, s.u1_m = u1.d[0], s.u1_q = u1.d[1];
    }

    LIEATTN_INLINE void backward(const float* q, const float*, int64_t, const State& s,
                                 const vf* gw, vf* gq, float* gk, int64_t stride) {
        const float r = 1 / SQRT2;
        vf turn = r * gw[2], skew = SQRT2 * gw[4], shear = r * gw[5];
        vf gf = turn * (s.c - s.b) + skew * s.h + shear * (s.b + s.c);
        vf gh = s.f * skew, gb = s.f * (shear - turn), gc = s.f * (shear + turn);
        // u = u0 t + u1 N t
        vf g0 = gw[0] * s.t0 + gw[1] * s.t1;
        vf g1 = gw[0] * (s.h * s.t0 + s.b * s.t1) + gw[1] * (s.c * s.t0 - s.h * s.t1);
        vf tau0 = s.u0 * gw[0] + s.u1 * (s.h * gw[0] + s.c * gw[1]);
        vf tau1 = s.u0 * gw[1] + s.u1 * (s.b * gw[0] - s.h * gw[1]);
        gh += s.u1 * (gw[0] * s.t0 - gw[1] * s.t1);
        gb += s.u1 * (gw[0] * s.t1), gc += s.u1 * (gw[1] * s.t0);
        vf scale = SQRT2 * gw[3] * s.det;
        vf gm = gf * s.f_m + g0 * s.u0_m + g1 * s.u1_m + scale * s.m;
        vf gs = gf * s.f_q + g0 * s.u0_q + g1 * s.u1_q - 0.5f * scale;
        gh += 2.0f * s.h * gs, gb += s.c * gs, gc += s.b * gs;
        vf g00 = 0.5f * (gm + gh), g11 = 0.5f * (gm - gh);
        gq[0] += g00 * s.a00 + gb * s.a01 + tau0 * s.t0;
        gq[1] += g00 * s.a10 + gb * s.a11 + tau0 * s.t1;
        gq[2] += gc * s.a00 + g11 * s.a01 + tau1 * s.t0;
        gq[3] += gc * s.a10 + g11 * s.a11 + tau1 * s.t1;
        gq[4] += tau0, gq[5] += tau1;
        const float* inv = q + INVERSE;
        const vf grads[6] = {inv[0] * g00 + inv[2] * gc,    inv[0] * gb + inv[2] * g11,
                             inv[1] * g00 + inv[3] * gc,    inv[1] * gb + inv[3] * g11,
                             inv[0] * tau0 + inv[2] * tau1, inv[1] * tau0 + inv[3] * tau1};
        for (int i = 0; i < 6; i++) store(gk + i * stride, load(gk + i * stride) + grads[i]);
    }

    static void unpack_key(const float*, const float* acc, int64_t stride, float* out) {
        out[0] += acc[0], out[1] += acc[stride], out[3] += acc[2 * stride];
        out[4] += acc[3 * stride], out[2] += acc[4 * stride], out[5] += acc[5 * stride];
    }

    // -A^-T of what was added up.
    static void unpack_query(const float* g, const float* acc, float* out) {
        const double a = g[0], b = g[1], c = g[3], d = g[4], det = a * d - b * c;
        auto top = [&](float x, float y) { return (float)-((d * x - c * y) / det); };
        auto bottom = [&](float x, float y) { return (float)-((a * y - b * x) / det); };
        out[0] += top(acc[0], acc[2]), out[1] += top(acc[1], acc[3]);
        out[3] += bottom(acc[0], acc[2]), out[4] += bottom(acc[1], acc[3]);
        out[2] += top(acc[4], acc[5]), out[5] += bottom(acc[4], acc[5]);
    }
};

}  // namespace lieattn
