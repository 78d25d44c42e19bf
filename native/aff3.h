// Aff(3), principal logarithm by square roots and a series.
//
// The roots are taken in double precision, from the invariants of the matrix: next to the cut a pair
// of eigenvalues nearly cancels in them, and single precision would lose all its digits there. What
// follows is well conditioned and runs in single precision.
#pragma once

#include "polynomial3.h"
#include "rigid2.h"

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
    static constexpr int QUERY_GRAD = 12, KEY_GRAD = 12;

    struct Limits {
        double tangent;  // squared, of the angle to the cut
        explicit Limits(double margin) : tangent(std::tan(margin) * std::tan(margin)) {}
    };

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
        vf unit, t[3], log_det, tangent, x, by_slope;
        Cubic cubic[2];       // of the two halves of the lanes
        Root root[2];
        float e[9][LANES];    // the first root less I
        float real[LANES], trace[LANES], det[LANES];  // its invariants
        int32_t on_chart[LANES];
        bool many;
        int roots;
        vi valid;
        vf z[9], y[9], x1, x2, u[3];  // log = 2^(roots + 1) (x1 E + x2 E^2) but for its trace
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
        s.valid = scale > 0.0f;
        s.tangent = splat((float)limits.tangent);
    }

    LIEATTN_INLINE void second(State& s) {
        for (int which = 0; which < 2; which++) {
            hd a[9];
            matrix(s, which, a);
            s.cubic[which].of(a);
        }
    }

    // The eigenvalue that lies alone on its side of the mean, in single precision.
    LIEATTN_INLINE void third(State& s) {
        const Cubic *low = s.cubic, *high = s.cubic + 1;
        s.x = isolated(join(low->j2, high->j2), join(low->j3, high->j3), s.by_slope);
    }

    LIEATTN_INLINE void fourth(State& s) {
        for (int which = 0; which < 2; which++)
            s.root[which].split(s.cubic[which], half(s.x, which), half(s.by_slope, which),
                                half(s.tangent, which));
    }

    LIEATTN_INLINE void fifth(State& s) {
        for (int which = 0; which < 2; which++) s.root[which].take();
        s.many = s.root[0].large() || s.root[1].large();
        s.roots = s.many ? MANY : FEW;
    }

    LIEATTN_INLINE void sixth(State& s) {
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

    // The rest is a polynomial of the first root less I: everything commutes, and by Cayley-Hamilton
    // three numbers stand for a matrix.
    LIEATTN_INLINE void seventh(State& s) {
        vi on_chart;
        memcpy(&on_chart, s.on_chart, sizeof on_chart);
        s.valid = s.valid & on_chart;
        for (int i = 0; i < 9; i++) s.z[i] = load(s.e[i]);
        multiply(s.z, s.z, s.y);
        vf e1, e2, e3;
        invariants(s.z, e1, e2, e3);
        const Modulus<vf> mod{e1, e2, e3};
        vf real = load(s.real), trace = load(s.trace), det = load(s.det);
        // (I + S)^-1 of every root, and their product.
        Quadratic<vf> root{splat(1.0f), splat(1.0f), vf{}}, inverse, product;
        Invariants<vf> of{real, trace, det};
        for (int k = 0; k < s.roots; k++) {
            Quadratic<vf> before = root;
            if (k == 0) {
                // S^2 is I + 2 E + E^2 where S itself is I + E.
                inverse = of.inverse_of_sum(root, {splat(1.0f), splat(2.0f), splat(1.0f)});
                product = inverse;
                continue;
            }
            Quadratic<vf> square = k == 1 ? Quadratic<vf>{splat(1.0f), splat(2.0f), splat(1.0f)}
                                          : mod.multiply(root, root);
            of.take_root();
            root = of.root_of(root, square);
            inverse = of.inverse_of_sum(root, before);
            product = mod.multiply(product, inverse);
        }
        // Z = (S - I)(S + I)^-1 = I - 2 (S + I)^-1.
        const Quadratic<vf> z{fma(inverse.c0, -2.0f, 1.0f), -2.0f * inverse.c1, -2.0f * inverse.c2};
        Series<vf> series(of);
        const Quadratic<vf> square = mod.multiply(z, z);
        s.x1 = two(series.x1, z.c1, series.x2, square.c1);
        s.x2 = two(series.x1, z.c2, series.x2, square.c2);
        const Quadratic<vf> last{fma(series.v2, square.c0, fma(series.v1, z.c0, series.v0)),
                                 two(series.v2, square.c1, series.v1, z.c1),
                                 two(series.v2, square.c2, series.v1, z.c2)};
        const Quadratic<vf> v = mod.multiply(product, last);
        const float scale = (float)(1 << s.roots);
        vf once[3], twice[3];
        apply(s.z, s.t, once);
        apply(s.z, once, twice);
        for (int i = 0; i < 3; i++)
            s.u[i] = scale * three(v.c0, s.t[i], v.c1, once[i], v.c2, twice[i]);
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

    LIEATTN_INLINE void backward(const float*, const float*, int64_t, const State&, const vf*, vf*,
                                 float*, int64_t) {}
    static void unpack_key(const float*, const float*, int64_t, float*) {}
    static void unpack_query(const float*, const float*, float*) {}
};

}  // namespace lieattn
