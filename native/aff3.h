// Aff(3), principal logarithm by square roots and a series.
//
// The roots are taken in double precision, from the invariants of the matrix: next to the cut a pair
// of eigenvalues nearly cancels in them, and single precision would lose all its digits there. What
// follows is well conditioned and runs in single precision.
#pragma once

#include "aff2.h"
#include "polynomial3.h"

namespace lieattn {

struct Aff3 {
    static constexpr int D = 12, K = 4, M = 4;
    static constexpr int BLOCK[12] = {0, 0, 0, 1, 1, 1, 2, 3, 3, 3, 3, 3};
    static constexpr bool ALWAYS_CHECKED = true, MOVES_ = true;
    static constexpr int STAGED = 4;
    static constexpr int FEW = 2, MANY = 4;  // roots, the first in double precision
    // A (9), t (3), log|det| high and low (2), |det|^(1/3) with the sign of det (1; queries its
    // reciprocal); queries have A^-1 (9) as well.
    static constexpr int KEY = 15, QUERY = 24;
    static constexpr int QUERY_GRAD = 13, KEY_GRAD = 13;

    typedef Aff2::Limits Limits;

    static bool pack(const float* g, float* out, int64_t stride, bool query) {
        double a[9], adj[9];
        for (int i = 0; i < 9; i++) a[i] = g[i / 3 * 4 + i % 3];
        const double det = adjugate(a, adj), size = std::fabs(det);
        if (!(size > 1e-30) || !(size < 1e30)) return false;
        for (int i = 0; i < 9; i++) out[i * stride] = (float)a[i];
        for (int i = 0; i < 3; i++) out[(9 + i) * stride] = g[4 * i + 3];
        const Split log(std::log(size));
        out[12 * stride] = log.high, out[13 * stride] = log.low;
        const double scale = std::cbrt(det);
        out[14 * stride] = (float)(query ? 1 / scale : scale);
        if (query)
            for (int i = 0; i < 9; i++) out[15 + i] = (float)(adj[i] / det);
        return true;
    }

    static bool pack_key(const float* g, float* out, int64_t stride) {
        return pack(g, out, stride, false);
    }

    static bool pack_query(const float* g, float* out) { return pack(g, out, 1, true); }

    struct State {
        float a[9][LANES];  // the matrix less `unit` times I
        vf unit, t[3], log_det, x, by_slope;
        Limits limits{0};
        Cubic cubic[2];       // of the two halves of the lanes
        Root root[2];
        float e[9][LANES];    // the first root less I
        float real[LANES], trace[LANES], det[LANES];  // its invariants
        int32_t on_chart[LANES];
        bool many;
        int roots;
        vi valid;
        vf z[9], y[9], e1, e2, e3;  // E, the first root less I, its square and its invariants
        vf x1, x2;                  // log = 2^(roots + 1) (x1 E + x2 E^2) but for its trace
        Quadratic<vf> v;            // V^-1
        vf once[3], twice[3], u[3];  // E t, E^2 t, V^-1 t
    };

    template <bool CHECK, bool GRAD>
    LIEATTN_INLINE vi log(const float* q, const float* k, int64_t n, const Limits& limits, vf* w,
                          State& s) {
        first<GRAD>(q, k, n, limits, s);
        second(s);
        third(s);
        fourth(s);
        fifth(s);
        sixth(s);
        seventh(s);
        assemble(s, w);
        return s.valid;
    }

    template <bool GRAD>
    LIEATTN_INLINE void first(const float* q, const float* k, int64_t n, const Limits& limits,
                              State& s) {
        const float* inv = q + 15;
        vf scale = load(k + 14 * n) * q[14];
        // A - I keeps the digits of a small difference, A those of a small matrix.
        vi near = abs(scale) > 0.5f;
        s.unit = select(near, splat(1.0f), vf{});
        for (int c = 0; c < 3; c++) {
            vf b0 = load(k + c * n), b1 = load(k + (3 + c) * n), b2 = load(k + (6 + c) * n);
            b0 -= select(near, splat(q[c]), vf{});
            b1 -= select(near, splat(q[3 + c]), vf{});
            b2 -= select(near, splat(q[6 + c]), vf{});
            for (int r = 0; r < 3; r++)
                store(s.a[3 * r + c],
                      three(inv[3 * r], b0, inv[3 * r + 1], b1, inv[3 * r + 2], b2));
        }
        vf x = load(k + 9 * n) - q[9], y = load(k + 10 * n) - q[10], z = load(k + 11 * n) - q[11];
        for (int r = 0; r < 3; r++)
            s.t[r] = three(inv[3 * r], x, inv[3 * r + 1], y, inv[3 * r + 2], z);
        s.log_det = (load(k + 12 * n) - q[12]) + (load(k + 13 * n) - q[13]);
        s.valid = limits.some ? (vi)(scale > 0.0f) : vi{};
        s.limits = limits;
    }

    // One copy of the code for both passes: they must round alike, see simd.h.
    LIEATTN_ONE_COPY void second(State& s) {
        for (int which = 0; which < 2; which++) {
            hd a[9];
            matrix(s, which, a);
            s.cubic[which].of(a);
        }
    }

    // The eigenvalue that lies alone on its side of the mean, in single precision.
    LIEATTN_ONE_COPY void third(State& s) {
        const Cubic *low = s.cubic, *high = s.cubic + 1;
        s.x = isolated(join(low->j2, high->j2), join(low->j3, high->j3), s.by_slope);
    }

    LIEATTN_ONE_COPY void fourth(State& s) {
        for (int which = 0; which < 2; which++)
            s.root[which].split(s.cubic[which], half(s.x, which), half(s.by_slope, which),
                                s.limits.tangent, s.limits.wide);
    }

    LIEATTN_ONE_COPY void fifth(State& s) {
        for (int which = 0; which < 2; which++) s.root[which].take();
        s.many = s.root[0].large() || s.root[1].large();
        s.roots = s.many ? MANY : FEW;
    }

    LIEATTN_ONE_COPY void sixth(State& s) {
        for (int which = 0; which < 2; which++) {
            const int at = which * (LANES / 2);
            const Root& root = s.root[which];
            hd a[9], out[9];
            matrix(s, which, a);
            root.of(a, out);
            for (int i = 0; i < 9; i++) store(s.e[i] + at, i % 4 == 0 ? out[i] - 1.0 : out[i]);
            store(s.real + at, root.real);
            store(s.trace + at, root.trace);
            store(s.det + at, root.det);
            const hi valid = __builtin_convertvector(root.valid, hi);
            memcpy(s.on_chart + at, &valid, sizeof valid);
        }
    }

    LIEATTN_ONE_COPY void seventh(State& s) {
        vi on_chart;
        memcpy(&on_chart, s.on_chart, sizeof on_chart);
        s.valid = s.valid & on_chart;
        for (int i = 0; i < 9; i++) s.z[i] = load(s.e[i]);
        multiply(s.z, s.z, s.y);
        invariants(s.z, s.e1, s.e2, s.e3);
        const Invariants<vf> of(load(s.real), load(s.trace), load(s.det));
        coefficients(of, Modulus<vf>{s.e1, s.e2, s.e3}, s.roots, s.x1, s.x2, s.v);
        apply(s.z, s.t, s.once);
        apply(s.z, s.once, s.twice);
        for (int i = 0; i < 3; i++)
            s.u[i] = three(s.v.c0, s.t[i], s.v.c1, s.once[i], s.v.c2, s.twice[i]);
    }

    // Logarithm and V^-1 are polynomials of the first root less I: everything commutes, and by
    // Cayley-Hamilton three numbers stand for a matrix. atanh(Z) = ... + x1 E + x2 E^2, V^-1 = v.
    template <class T>
    LIEATTN_INLINE void coefficients(Invariants<T> of, const Modulus<T>& mod, int roots, T& x1,
                                     T& x2, Quadratic<T>& v) {
        const T zero = Constant<T>::of(0.0f), one = Constant<T>::of(1.0f);
        Quadratic<T> root{one, one, zero}, square{one, one + one, one};  // S = I + E and S^2
        // (I + S)^-1 of every root, and their product.
        Quadratic<T> inverse = of.inverse_of_sum(root, square), product = inverse;
        for (int k = 1; k < roots; k++) {
            of.take_root();
            const Quadratic<T> next = of.root_of(root, square);
            square = root, root = next;
            inverse = of.inverse_of_sum(root, square);
            product = mod.multiply(product, inverse);
        }
        // Z = (S - I)(S + I)^-1 = I - 2 (S + I)^-1.
        const Quadratic<T> z{fma(inverse.c0, -2.0f, 1.0f), -2.0f * inverse.c1, -2.0f * inverse.c2};
        const Quadratic<T> zz = mod.multiply(z, z);
        const Series<T> series(of);
        x1 = two(series.x1, z.c1, series.x2, zz.c1);
        x2 = two(series.x1, z.c2, series.x2, zz.c2);
        const Quadratic<T> last{fma(series.v2, zz.c0, fma(series.v1, z.c0, series.v0)),
                                two(series.v2, zz.c1, series.v1, z.c1),
                                two(series.v2, zz.c2, series.v1, z.c2)};
        v = mod.multiply(product, last);
        const float scale = (float)(1 << roots);
        v.c0 = scale * v.c0, v.c1 = scale * v.c1, v.c2 = scale * v.c2;
    }

    LIEATTN_INLINE void matrix(const State& s, int which, hd* a) {
        const hd one = half(s.unit, which);
        for (int i = 0; i < 9; i++) {
            a[i] = load_half(s.a[i] + which * (LANES / 2));
            if (i % 4 == 0) a[i] += one;
        }
    }

    LIEATTN_INLINE void assemble(const State& s, vf* w) {
        const float scale = (float)(2 << s.roots), r2 = scale / SQRT2, r6 = scale * 0.408248290463863f;
        vf x[9];
        for (int i = 0; i < 9; i++) x[i] = two(s.x1, s.z[i], s.x2, s.y[i]);
        for (int i = 0; i < 3; i++) w[i] = s.u[i];
        w[3] = r2 * (x[7] - x[5]), w[4] = r2 * (x[2] - x[6]), w[5] = r2 * (x[3] - x[1]);
        w[6] = 0.577350269189626f * s.log_det;
        w[7] = r2 * (x[0] - x[4]);
        w[8] = r6 * ((x[0] + x[4]) - 2.0f * x[8]);
        w[9] = r2 * (x[1] + x[3]), w[10] = r2 * (x[2] + x[6]), w[11] = r2 * (x[5] + x[7]);
    }

    LIEATTN_INLINE void backward(const float* q, const float*, int64_t, const State& s,
                                 const vf* gw, vf* gq, float* gk, int64_t stride) {
        // Coefficients with their derivatives in the invariants of E.
        typedef Dual<3> Dual;
        const vf one = splat(1.0f), zero = {};
        Invariants<Dual> of(load(s.real), load(s.trace), load(s.det));
        for (int i = 0; i < 3; i++) {
            of.s1.d[i] = i == 0 ? one : zero;
            of.s2.d[i] = i == 0 ? one + one : i == 1 ? one : zero;
            of.s3.d[i] = one;
        }
        const Modulus<Dual> mod{{s.e1, {one, zero, zero}}, {s.e2, {zero, one, zero}},
                                {s.e3, {zero, zero, one}}};
        Dual x1, x2;
        Quadratic<Dual> v;
        coefficients(of, mod, s.roots, x1, x2, v);
        // The gradient of log, a traceless matrix.
        const float scale = (float)(2 << s.roots), r2 = scale / SQRT2, r6 = scale * 0.408248290463863f;
        vf x[9], g[9];
        x[0] = r2 * gw[7] + r6 * gw[8], x[4] = r6 * gw[8] - r2 * gw[7], x[8] = -2.0f * r6 * gw[8];
        x[1] = r2 * (gw[9] - gw[5]), x[3] = r2 * (gw[9] + gw[5]);
        x[2] = r2 * (gw[10] + gw[4]), x[6] = r2 * (gw[10] - gw[4]);
        x[5] = r2 * (gw[11] - gw[3]), x[7] = r2 * (gw[11] + gw[3]);
        vf back[3], g1 = {}, g2 = {};  // E^T gu
        for (int c = 0; c < 3; c++)
            back[c] = s.z[c] * gw[0] + s.z[3 + c] * gw[1] + s.z[6 + c] * gw[2];
        for (int i = 0; i < 9; i++) g1 += x[i] * s.z[i], g2 += x[i] * s.y[i];
        vf u0 = {}, u1 = {}, u2 = {}, tau[3];
        for (int i = 0; i < 3; i++) {
            u0 += gw[i] * s.t[i], u1 += gw[i] * s.once[i], u2 += gw[i] * s.twice[i];
            tau[i] = v.c0.v * gw[i] + v.c1.v * back[i] +
                     v.c2.v * (s.z[i] * back[0] + s.z[3 + i] * back[1] + s.z[6 + i] * back[2]);
        }
        vf e[3];
        for (int i = 0; i < 3; i++)
            e[i] = g1 * x1.d[i] + g2 * x2.d[i] + u0 * v.c0.d[i] + u1 * v.c1.d[i] + u2 * v.c2.d[i];
        for (int r = 0; r < 3; r++)
            for (int c = 0; c < 3; c++) {
                const int i = 3 * r + c, j = 3 * c + r;
                vf both = {};  // of x E^T + E^T x
                for (int k = 0; k < 3; k++)
                    both += x[3 * r + k] * s.z[3 * c + k] + s.z[3 * k + r] * x[3 * k + c];
                g[i] = x1.v * x[i] + x2.v * both + v.c1.v * (gw[r] * s.t[c]) +
                       v.c2.v * (gw[r] * s.once[c] + back[r] * s.t[c]);
                // Trace, second invariant and determinant of E.
                g[i] += e[2] * (s.y[j] - s.e1 * s.z[j]) - e[1] * s.z[j];
                if (r == c) g[i] += e[0] + e[1] * s.e1 + e[2] * s.e2;
            }
        vf a[9];
        for (int which = 0; which < 2; which++) through_root(s, which, g, a);
        spread(q, s, a, tau, 0.577350269189626f * gw[6], gq, gk, stride);
    }

    // The gradient of A from that of its root S, in double precision: S^T G + G S^T = g.
    LIEATTN_INLINE void through_root(const State& s, int which, vf* g, vf* a) {
        const Root& root = s.root[which];
        hd a_half[9], straight[9], S[9], G[9];
        matrix(s, which, a_half);
        root.of(a_half, straight);  // again: in single precision a small root has lost digits to I
        for (int i = 0; i < 9; i++) {
            S[i] = straight[3 * (i % 3) + i / 3];
            G[i] = half(g[i], which);
        }
        sylvester(S, root.real + root.trace, root.real * root.trace + root.det,
                  root.real * root.det, G);
        for (int i = 0; i < 9; i++)
            store((float*)&a[i] + which * (LANES / 2), root.valid ? G[i] : hd{});
    }

    // From the gradients of A_i^-1 A_j, of A_i^-1 (t_j - t_i) and of log det to those of the poses.
    LIEATTN_INLINE void spread(const float* q, const State& s, const vf* g, const vf* tau, vf log_det,
                               vf* gq, float* gk, int64_t stride) {
        const float* inv = q + 15;
        vf a[9];
        for (int i = 0; i < 9; i++) a[i] = load(s.a[i]) + (i % 4 == 0 ? s.unit : vf{});
        for (int r = 0; r < 3; r++) {
            for (int c = 0; c < 3; c++) {
                gq[3 * r + c] += g[3 * r] * a[3 * c] + g[3 * r + 1] * a[3 * c + 1] +
                                 g[3 * r + 2] * a[3 * c + 2] + tau[r] * s.t[c];
                float* out = gk + (3 * r + c) * stride;
                store(out, load(out) + inv[r] * g[c] + inv[3 + r] * g[3 + c] + inv[6 + r] * g[6 + c]);
            }
            gq[9 + r] += tau[r];
            float* out = gk + (9 + r) * stride;
            store(out, load(out) + inv[r] * tau[0] + inv[3 + r] * tau[1] + inv[6 + r] * tau[2]);
        }
        gq[12] -= log_det;
        store(gk + 12 * stride, load(gk + 12 * stride) + log_det);
    }

    static void unpack_key(const float* g, const float* acc, int64_t stride, float* out) {
        double a[9], adj[9];
        for (int i = 0; i < 9; i++) a[i] = g[i / 3 * 4 + i % 3];
        const double det = adjugate(a, adj);
        for (int r = 0; r < 3; r++) {
            for (int c = 0; c < 3; c++)
                out[4 * r + c] +=
                    (float)(acc[(3 * r + c) * stride] + acc[12 * stride] * adj[3 * c + r] / det);
            out[4 * r + 3] += acc[(9 + r) * stride];
        }
    }

    // -A^-T of what was added up for A^-1 A_j, and the gradient of log det.
    static void unpack_query(const float* g, const float* acc, float* out) {
        double a[9], adj[9];
        for (int i = 0; i < 9; i++) a[i] = g[i / 3 * 4 + i % 3];
        const double det = adjugate(a, adj);
        for (int r = 0; r < 3; r++)
            for (int c = 0; c < 4; c++) {
                double sum = c < 3 ? acc[12] * adj[3 * c + r] : 0;
                for (int k = 0; k < 3; k++) sum -= adj[3 * k + r] * acc[c < 3 ? 3 * k + c : 9 + k];
                out[4 * r + c] += (float)(sum / det);
            }
    }
};

}  // namespace lieattn
