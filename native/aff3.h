// Aff(3), principal logarithm by one square root and a rational function.
//
// The root S is taken in double precision, from the invariants of the matrix: next to the cut a pair
// of eigenvalues nearly cancels in them, and single precision would lose all its digits there. With
// Z = (S - I)(S + I)^-1 the logarithm is 4 Z L(Z^2) and V^-1 = L(Z^2) (I - Z)^2, where
// L(y) = atanh(sqrt y) / sqrt y: smooth up to the cut, where y = -1, so that the rest is well
// conditioned and runs in single precision. No step asks whether eigenvalues are real or equal.
#pragma once

#include "aff2.h"
#include "matrix3.h"

namespace lieattn {

constexpr float BY_SQRT3 = 0.577350269189626f, BY_SQRT6 = 0.408248290463863f;

// L(y) = AT_INFINITY + sum RESIDUE / (POLE - y), to 2e-8 where y = tanh(x / 4)^2 for |Re x| <= 2.5
// and |Im x| <= pi: by tools/fit_resolvents.py.
constexpr int POLES = 5;
constexpr float POLE[POLES] = {1.05626214f, 1.32881379f, 2.01749086f, 4.01428175f, 14.7619295f};
constexpr float RESIDUE[POLES] = {0.0718273073f, 0.18396683f, 0.374770105f, 0.895739436f, 3.72775698f};
constexpr float AT_INFINITY = 0.132130489f;

// log = 4 (x1 D + x2 D^2) but for its trace and V^-1 = v0 I + v1 D + v2 D^2, where Z = middle I + D
// with tr D = 0, D^3 = k2 D + k3 I.
template <class T>
struct Coefficients {
    T x1, x2, v0, v1, v2;

    Coefficients() = default;

    LIEATTN_INLINED inline Coefficients(T z, T k2, T k3) {
        // Z^2 = mean I + N, N^3 = j2 N + j3 I: poles are far from the mean, however large it is.
        const T zz = z * z, zk3 = z * k3, square = k2 * k2;
        const T mean = fma(k2, 2.0f / 3, zz);
        const T j2 = fma(square, 1.0f / 3, 4.0f * fma(zk3, 1.5f, zz * k2));
        const T j3 = fma(k3, k3, fma(fma(k2, -2.0f / 27, (8.0f / 3) * zz), square,
                                     2.0f * (zk3 * fma(zz, 4.0f, k2))));
        T l0 = Constant<T>::of(AT_INFINITY), l1 = Constant<T>::of(0.0f), l2 = l1;
        for (int i = 0; i < POLES; i++) {
            // (q - N)^-1 = (N^2 + q N + (q^2 - j2) I) / (q^3 - j2 q - j3)
            const T q = POLE[i] - mean, c = fma(q, q, -j2);
            const T share = RESIDUE[i] * inverse(fma(q, c, -j3));
            l0 = fma(share, c, l0), l1 = fma(share, q, l1), l2 = l2 + share;
        }
        // N = D^2 + 2 z D - 2/3 k2 I.
        const T c2 = fma(l2, fma(k2, -1.0f / 3, 4.0f * zz), l1);
        const T c1 = fma(l2, fma(z * k2, 4.0f / 3, k3), 2.0f * (z * l1));
        const T c0 = fma(l2, fma(square, 4.0f / 9, 4.0f * zk3), fma(k2 * l1, -2.0f / 3, l0));
        x1 = fma(z, c1, fma(k2, c2, c0)), x2 = fma(z, c2, c1);
        // Twice (I - Z) times it.
        const T h = 1.0f - z;
        const T a0 = difference(h, c0, k3, c2), a2 = fma(h, c2, -c1);
        const T a1 = difference(h, c1, k2, c2) - c0;
        v0 = difference(h, a0, k3, a2), v1 = difference(h, a1, k2, a2) - a0, v2 = fma(h, a2, -a1);
    }
};

struct Aff3 {
    static constexpr int D = 12, K = 4, M = 4;
    static constexpr int BLOCK[12] = {0, 0, 0, 1, 1, 1, 2, 3, 3, 3, 3, 3};
    static constexpr bool ALWAYS_CHECKED = true, MOVES_ = true;
    static constexpr int STAGED = 4, STAGES = 5;
    static constexpr int MOST_HALVINGS = 6;
    // A (9), t (3), log|det| high and low (2), the sign of det (1); queries have A^-1 (9) as well,
    // also as doubles (18).
    static constexpr int KEY = 15, EXACT = 24, QUERY = EXACT + 18;
    using Query = const float*;
    static constexpr int QUERY_GRAD = 13, KEY_GRAD = 13;

    typedef Aff2::Limits Limits;

    static bool fits(const Extent& x) {
        return x.fits_affine();
    }

    static bool pack(const float* g, float* out, int64_t stride, bool query, Extent& extent) {
        double a[9], adj[9], sum = 0, sum_of_inverse = 0;
        for (int i = 0; i < 9; i++) a[i] = g[i / 3 * 4 + i % 3];
        const double det = adjugate(a, adj), size = std::fabs(det);
        if (!(size > 1e-30) || !(size < 1e30)) return false;
        for (int i = 0; i < 9; i++) sum += a[i] * a[i], sum_of_inverse += adj[i] * adj[i];
        const float far = std::max({std::fabs(g[3]), std::fabs(g[7]), std::fabs(g[11])});
        extent.add(std::sqrt(sum), std::sqrt(sum_of_inverse) / size, far);
        for (int i = 0; i < 9; i++) out[i * stride] = (float)a[i];
        for (int i = 0; i < 3; i++) out[(9 + i) * stride] = g[4 * i + 3];
        const Split log(std::log(size));
        out[12 * stride] = log.high, out[13 * stride] = log.low;
        out[14 * stride] = det < 0 ? -1 : 1;
        if (query) {
            for (int i = 0; i < 9; i++) adj[i] /= det, out[15 + i] = (float)adj[i];
            memcpy(out + EXACT, adj, sizeof adj);
        }
        return true;
    }

    static bool pack_key(const float* g, float* out, int64_t stride, Extent& extent) {
        return pack(g, out, stride, false, extent);
    }

    static bool pack_query(const float* g, float* out, Extent& extent) {
        return pack(g, out, 1, true, extent);
    }

    // Of many vectors at a time: small, so that they stay in the cache.
    struct Early {
        double a[9][LANES];
        vf t[3], log_det, x, by_slope;
        Limits limits{0};
        vi valid;
        Root root[2];           // of the two halves of the lanes
        int halvings;           // roots before that one
        float d[9][LANES];      // Z less `middle` times I
        float moved[3][LANES];  // t after the halvings
        float middle[LANES];
        int32_t on_chart[LANES];
    };

    struct Late {
        vf z[9], zz[9], k2, k3;  // Z less middle I, its square and its invariants
        Coefficients<vf> f;
        vf once[3], twice[3], u[3];  // D t, D^2 t, V^-1 t
    };

    struct State : Early, Late {};

    template <bool CHECK, bool GRAD>
    LIEATTN_INLINE vi log(const float* q, const float* k, int64_t n, const Limits& limits, vf* w,
                          State& s) {
        first<GRAD>(q, k, n, limits, s);
        stage<0>(s), stage<1>(s), stage<2>(s), stage<3>(s), stage<4>(s);
        last(s, s);
        assemble(s, s, w);
        return s.valid;
    }

    template <bool GRAD>
    LIEATTN_INLINE void first(const float* q, const float* k, int64_t n, const Limits& limits,
                              Early& s) {
        // In double precision, as in Aff2.
        double exact[9];
        memcpy(exact, q + EXACT, sizeof exact);
        for (int at = 0; at < LANES; at += LANES / 2)
            for (int c = 0; c < 3; c++) {
                const hd b0 = load_half(k + c * n + at), b1 = load_half(k + (3 + c) * n + at);
                const hd b2 = load_half(k + (6 + c) * n + at);
                for (int r = 0; r < 3; r++)
                    store(s.a[3 * r + c] + at, three(exact[3 * r], b0, exact[3 * r + 1], b1,
                                                     exact[3 * r + 2], b2));
            }
        const float* inv = q + 15;
        vf x = load(k + 9 * n) - q[9], y = load(k + 10 * n) - q[10], z = load(k + 11 * n) - q[11];
        for (int r = 0; r < 3; r++) {
            s.t[r] = three(inv[3 * r], x, inv[3 * r + 1], y, inv[3 * r + 2], z);
            store(s.moved[r], s.t[r]);
        }
        s.log_det = (load(k + 12 * n) - q[12]) + (load(k + 13 * n) - q[13]);
        s.valid = limits.some ? (vi)(load(k + 14 * n) * q[14] > 0.0f) : vi{};
        s.limits = limits;
    }

    // One copy of the code of a stage for both passes: they must round alike, see simd.h.
    template <int number>
    LIEATTN_ONE_COPY void stage(Early& s) {
        if constexpr (number == 0) {
            for (int which = 0; which < 2; which++) invariants(s, which, s.root[which]);
        } else if constexpr (number == 1) {
            const Root *low = s.root, *high = s.root + 1;
            s.x = isolated(join(low->j2, high->j2), join(low->j3, high->j3), s.by_slope);
        } else if constexpr (number == 2) {
            for (int which = 0; which < 2; which++) split(s, which, s.root[which]);
        } else if constexpr (number == 3) {
            s.root[0].take(), s.root[1].take();
            s.halvings = 0;
            if (s.root[0].large() || s.root[1].large()) shrink(s);
        } else {
            for (int which = 0; which < 2; which++) {
                const int at = which * (LANES / 2);
                const Root& root = s.root[which];
                hd d[9];
                root.combine(root.linear, root.square, d);
                for (int i = 0; i < 9; i++) store(s.d[i] + at, d[i]);
                store(s.middle + at, root.middle);
                const hi valid = __builtin_convertvector(root.valid, hi);
                memcpy(s.on_chart + at, &valid, sizeof valid);
            }
        }
    }

    LIEATTN_INLINE void invariants(const Early& s, int which, Root& root) {
        hd a[9];
        for (int i = 0; i < 9; i++) a[i] = load(s.a[i] + which * (LANES / 2));
        root.of(a);
    }

    LIEATTN_INLINE void split(const Early& s, int which, Root& root) {
        root.split(half(s.x, which), half(s.by_slope, which), s.limits.tangent, s.limits.wide);
    }

    // Eigenvalues too far from 1: the logarithm of the root instead, until there are none.
    LIEATTN_ONE_COPY void shrink(Early& s) {
        while (s.halvings < MOST_HALVINGS && (s.root[0].large() || s.root[1].large())) {
            for (int which = 0; which < 2; which++) {
                hd t[3];
                for (int i = 0; i < 3; i++) t[i] = load_half(s.moved[i] + which * (LANES / 2));
                s.root[which].halve(t);
                for (int i = 0; i < 3; i++) store(s.moved[i] + which * (LANES / 2), t[i]);
            }
            s.halvings++;
        }
    }

    LIEATTN_ONE_COPY void last(Early& s, Late& l) {
        vi on_chart;
        memcpy(&on_chart, s.on_chart, sizeof on_chart);
        s.valid = s.valid & on_chart;
        for (int i = 0; i < 9; i++) l.z[i] = load(s.d[i]);
        multiply(l.z, l.z, l.zz);
        l.k2 = 0.5f * ((l.zz[0] + l.zz[4]) + l.zz[8]);
        l.k3 = determinant(l.z);
        l.f = Coefficients<vf>(load(s.middle), l.k2, l.k3);
        vf t[3];
        for (int i = 0; i < 3; i++) t[i] = load(s.moved[i]);
        apply(l.z, t, l.once);
        apply(l.zz, t, l.twice);
        for (int i = 0; i < 3; i++)
            l.u[i] = three(l.f.v0, t[i], l.f.v1, l.once[i], l.f.v2, l.twice[i]);
    }

    LIEATTN_INLINE vi valid(const Early& s, const vf*, const Limits&) { return s.valid; }

    LIEATTN_INLINE void assemble(const Early& s, const Late& l, vf* w) {
        const float scale = (float)(4 << s.halvings), r2 = scale / SQRT2, r6 = scale * BY_SQRT6;
        vf x[9];
        for (int i = 0; i < 9; i++) x[i] = two(l.f.x1, l.z[i], l.f.x2, l.zz[i]);
        for (int i = 0; i < 3; i++) w[i] = l.u[i];
        w[3] = r2 * (x[7] - x[5]), w[4] = r2 * (x[2] - x[6]), w[5] = r2 * (x[3] - x[1]);
        w[6] = BY_SQRT3 * s.log_det;
        w[7] = r2 * (x[0] - x[4]);
        w[8] = r6 * ((x[0] + x[4]) - 2.0f * x[8]);
        w[9] = r2 * (x[1] + x[3]), w[10] = r2 * (x[2] + x[6]), w[11] = r2 * (x[5] + x[7]);
    }

    LIEATTN_INLINE void backward(const float* q, const float*, int64_t, const State& s,
                                 const vf* gw, vf* gq, float* gk, int64_t stride) {
        // Coefficients with their derivatives in the invariants of Z.
        typedef Dual<3> Dual;
        const vf one = splat(1.0f), zero = {}, middle = load(s.middle);
        const Coefficients<Dual> f({middle, {one, zero, zero}}, {s.k2, {zero, one, zero}},
                                   {s.k3, {zero, zero, one}});
        // The gradient of log, a traceless matrix.
        const float scale = (float)(4 << s.halvings), r2 = scale / SQRT2, r6 = scale * BY_SQRT6;
        vf x[9], t[3], tau[3];
        for (int i = 0; i < 3; i++) t[i] = load(s.moved[i]);
        x[0] = r2 * gw[7] + r6 * gw[8], x[4] = r6 * gw[8] - r2 * gw[7], x[8] = -2.0f * r6 * gw[8];
        x[1] = r2 * (gw[9] - gw[5]), x[3] = r2 * (gw[9] + gw[5]);
        x[2] = r2 * (gw[10] + gw[4]), x[6] = r2 * (gw[10] - gw[4]);
        x[5] = r2 * (gw[11] - gw[3]), x[7] = r2 * (gw[11] + gw[3]);
        vf back[3], g1 = {}, g2 = {};  // D^T gu
        for (int c = 0; c < 3; c++)
            back[c] = s.z[c] * gw[0] + s.z[3 + c] * gw[1] + s.z[6 + c] * gw[2];
        for (int i = 0; i < 9; i++) g1 += x[i] * s.z[i], g2 += x[i] * s.zz[i];
        vf u0 = {}, u1 = {}, u2 = {};
        for (int i = 0; i < 3; i++) {
            u0 += gw[i] * t[i], u1 += gw[i] * s.once[i], u2 += gw[i] * s.twice[i];
            tau[i] = f.v0.v * gw[i] + f.v1.v * back[i] +
                     f.v2.v * (s.z[i] * back[0] + s.z[3 + i] * back[1] + s.z[6 + i] * back[2]);
        }
        vf e[3];
        for (int i = 0; i < 3; i++)
            e[i] = g1 * f.x1.d[i] + g2 * f.x2.d[i] + u0 * f.v0.d[i] + u1 * f.v1.d[i] +
                   u2 * f.v2.d[i];
        vf g[9];
        for (int r = 0; r < 3; r++)
            for (int c = 0; c < 3; c++) {
                const int i = 3 * r + c, j = 3 * c + r;
                vf both = {};  // of x D^T + D^T x
                for (int k = 0; k < 3; k++)
                    both += x[3 * r + k] * s.z[3 * c + k] + s.z[3 * k + r] * x[3 * k + c];
                g[i] = f.x1.v * x[i] + f.x2.v * both + f.v1.v * (gw[r] * t[c]) +
                       f.v2.v * (gw[r] * s.once[c] + back[r] * t[c]);
                g[i] += e[1] * s.z[j] + e[2] * s.zz[j];  // of k2 and k3
            }
        // D is Z less a third of its trace, which is `middle`.
        const vf rest = (1.0f / 3) * (e[0] - ((g[0] + g[4]) + g[8]));
        for (int i = 0; i < 9; i += 4) g[i] += rest;
        vf a[9];
        for (int which = 0; which < 2; which++) through_roots(s, which, g, tau, a);
        spread(q, s, a, tau, BY_SQRT3 * gw[6], gq, gk, stride);
    }

    // From the gradients of Z and of t after the halvings to those of A and t, in double precision.
    LIEATTN_INLINE void through_roots(const State& s, int which, const vf* g, vf* tau, vf* a) {
        hd gz[9], ga[9];
        for (int i = 0; i < 9; i++) gz[i] = half(g[i], which);
        if (s.halvings == 0) {
            s.root[which].pull_back(gz, nullptr, ga);
        } else {
            hd gt[3];
            for (int i = 0; i < 3; i++) gt[i] = half(tau[i], which);
            through_halvings(s, which, gz, gt, ga);
            for (int i = 0; i < 3; i++) store((float*)&tau[i] + which * (LANES / 2), gt[i]);
        }
        for (int i = 0; i < 9; i++) store((float*)&a[i] + which * (LANES / 2), ga[i]);
    }

    LIEATTN_ONE_COPY void through_halvings(const Early& s, int which, hd* gz, hd* gt, hd* ga) {
        Root roots[MOST_HALVINGS + 1];
        hd t[MOST_HALVINGS + 1][3], z[9];
        for (int i = 0; i < 3; i++) t[0][i] = half(s.t[i], which);
        invariants(s, which, roots[0]);
        split(s, which, roots[0]);
        roots[0].take();
        for (int n = 0; n < s.halvings; n++) {
            roots[n + 1] = roots[n];
            for (int i = 0; i < 3; i++) t[n + 1][i] = t[n][i];
            roots[n + 1].halve(t[n + 1]);
        }
        roots[s.halvings].pull_back(gz, nullptr, ga);
        for (int n = s.halvings - 1; n >= 0; n--) {  // t' = t - Z t
            roots[n].tangent(z);
            for (int i = 0; i < 9; i++) gz[i] = -gt[i / 3] * t[n][i % 3];
            hd next[3];
            for (int i = 0; i < 3; i++)
                next[i] = gt[i] - (z[i] * gt[0] + z[3 + i] * gt[1] + z[6 + i] * gt[2]);
            for (int i = 0; i < 3; i++) gt[i] = next[i];
            roots[n].pull_back(gz, ga, ga);
        }
    }

    // From the gradients of A_i^-1 A_j, of A_i^-1 (t_j - t_i) and of log det to those of the poses.
    LIEATTN_INLINE void spread(const float* q, const State& s, const vf* g, const vf* tau, vf log_det,
                               vf* gq, float* gk, int64_t stride) {
        const float* inv = q + 15;
        vf a[9];
        for (int i = 0; i < 9; i++) a[i] = join(load(s.a[i]), load(s.a[i] + LANES / 2));
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
