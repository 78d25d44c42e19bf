// 3x3 matrices, row by row: products, inverses, and square roots in double precision.
#pragma once

#include "dual.h"

namespace lieattn {

// Adjugate of a scalar matrix; returns the determinant.
inline double adjugate(const double* a, double* out) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            const int r = (j + 1) % 3, s = (j + 2) % 3, c = (i + 1) % 3, d = (i + 2) % 3;
            out[3 * i + j] = a[3 * r + c] * a[3 * s + d] - a[3 * r + d] * a[3 * s + c];
        }
    return a[0] * out[0] + a[1] * out[3] + a[2] * out[6];
}

LIEATTN_INLINE void multiply(const vf* a, const vf* b, vf* out) {
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++)
            out[3 * r + c] = three(a[3 * r], b[c], a[3 * r + 1], b[3 + c], a[3 * r + 2], b[6 + c]);
}

LIEATTN_INLINE void invariants(const vf* a, vf& i1, vf& i2, vf& i3) {
    vf m0 = difference(a[4], a[8], a[5], a[7]);
    vf m1 = difference(a[5], a[6], a[3], a[8]), m2 = difference(a[3], a[7], a[4], a[6]);
    i1 = (a[0] + a[4]) + a[8];
    i2 = m0 + (difference(a[0], a[8], a[2], a[6]) + difference(a[0], a[4], a[1], a[3]));
    i3 = three(a[0], m0, a[1], m1, a[2], m2);
}

LIEATTN_INLINE void apply(const vf* a, const vf* t, vf* out) {
    for (int r = 0; r < 3; r++)
        out[r] = three(a[3 * r], t[0], a[3 * r + 1], t[1], a[3 * r + 2], t[2]);
}

// ---- double precision, half of the lanes at a time ---------------------------------------------

typedef double hd __attribute__((vector_size(4 * LIEATTN_LANES)));
typedef int64_t hl __attribute__((vector_size(4 * LIEATTN_LANES)));
typedef float hf __attribute__((vector_size(2 * LIEATTN_LANES)));
typedef int32_t hi __attribute__((vector_size(2 * LIEATTN_LANES)));

LIEATTN_INLINE hd half(vf x, int which) {
#if defined(__AVX512F__)
    const __m512 y = (__m512)x;
    const hf part = (hf)(which ? _mm512_extractf32x8_ps(y, 1) : _mm512_castps512_ps256(y));
#else
    hf part;
    memcpy(&part, (const char*)&x + which * sizeof part, sizeof part);
#endif
    return __builtin_convertvector(part, hd);
}

LIEATTN_INLINE vf join(hd low, hd high) {
#if defined(__AVX512F__)
    return (vf)_mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)low)),
                                  _mm512_cvtpd_ps((__m512d)high), 1);
#else
    const hf parts[2] = {__builtin_convertvector(low, hf), __builtin_convertvector(high, hf)};
    vf out;
    memcpy(&out, parts, sizeof out);
    return out;
#endif
}

LIEATTN_INLINE bool any(hl mask) {
#if defined(__AVX512F__)
    return _mm512_movepi64_mask((__m512i)mask) != 0;
#else
    int64_t some = 0;
    for (int l = 0; l < LANES / 2; l++) some |= mask[l];
    return some != 0;
#endif
}

LIEATTN_INLINE hd load_half(const float* p) {
    hf x;
    memcpy(&x, p, sizeof x);
    return __builtin_convertvector(x, hd);
}

LIEATTN_INLINE void store(float* p, hd x) {
    const hf y = __builtin_convertvector(x, hf);
    memcpy(p, &y, sizeof y);
}

LIEATTN_INLINE hd inverse(hd x) {
#if defined(__AVX512F__)
    hd y = (hd)_mm512_rcp14_pd((__m512d)x);
    for (int i = 0; i < 2; i++) y = y + y * (1.0 - x * y);
    return y;
#else
    return 1.0 / x;
#endif
}

// 1 / sqrt(x)
LIEATTN_INLINE hd inverse_sqrt(hd x) {
#if defined(__AVX512F__)
    hd y = (hd)_mm512_rsqrt14_pd((__m512d)x);
    for (int i = 0; i < 2; i++) y = y + (0.5 * y) * (1.0 - (x * y) * y);
    return y;
#else
    for (int l = 0; l < LANES / 2; l++) x[l] = 1 / __builtin_sqrt(x[l]);
    return x;
#endif
}

LIEATTN_INLINE hd sqrt(hd x) { return x * inverse_sqrt(x); }

LIEATTN_INLINE hd abs(hd x) { return (hd)((hl)x & 0x7fffffffffffffff); }

// The root of x^3 - j2 x - j3 = 0 with the sign of j3, alone on its side of zero, and the reciprocal
// of the slope there. Newton's method descends to it from an upper bound.
LIEATTN_INLINE vf isolated(vf j2, vf j3, vf& by_slope) {
    const float tiny = 1e-37f;
    const vf size = max(abs(j3), splat(tiny));
    // A little above the cube root, from a third of the exponent.
    vf bits = (1.0f / 3) * __builtin_convertvector((vi)size, vf);
    const vf root = 1.06f * (vf)(__builtin_convertvector(bits, vi) + 0x2a5137a0);
    const vi negative = j2 < 0.0f;
    vf positive = max(j2, splat(tiny));
    vf upper = fma(positive, inverse_sqrt(positive), root);
    vf quotient = size * inverse(select(negative, -j2, splat(1.0f)));
    vf x = select(negative, select(quotient < root, quotient, root), upper);
    for (int i = 0; i < 5; i++) {
        vf square = x * x;
        by_slope = inverse(fma(square, 3.0f, -j2));
        x = fma(-by_slope, fma(x, square - j2, -size), x);
    }
    by_slope = inverse(fma(x * x, 3.0f, -j2));
    return with_sign(abs(x), j3);
}

// Invariants of a matrix, and x^3 - j2 x - j3 = 0 for its eigenvalues less their mean.
struct Cubic {
    hd i1, i3, mean, j2, j3;

    LIEATTN_INLINED inline void of(const hd* a) {
        hd m0 = a[4] * a[8] - a[5] * a[7], m1 = a[5] * a[6] - a[3] * a[8];
        hd m2 = a[3] * a[7] - a[4] * a[6];
        hd i2 = m0 + (a[0] * a[8] - a[2] * a[6]) + (a[0] * a[4] - a[1] * a[3]);
        i1 = (a[0] + a[4]) + a[8];
        i3 = a[0] * m0 + a[1] * m1 + a[2] * m2;
        mean = i1 * (1.0 / 3);
        j2 = i1 * mean - i2;
        j3 = i3 + mean * (mean * (2.0 * mean) - i2);
    }
};

// Square root of a matrix: a real eigenvalue is split off, and the invariants of the root follow
// from its root and from trace and determinant of the other two.
struct Root {
    hd real, trace, det;  // of the root
    hl valid;

    hd by, linear, constant;  // the root of a is linear a + constant I - by a^2

    // Takes an estimate of the isolated eigenvalue less the mean; `tangent` and `wide` as in the limits
    // of Aff(2). Where there is no root it is that of the identity.
    LIEATTN_INLINED inline void split(const Cubic& c, hd x, hd by_slope, double tangent, bool wide) {
        for (int i = 0; i < 2; i++) x = x - (x * (x * x - c.j2) - c.j3) * by_slope;
        const hd one = hd{} + 1.0;
        real = c.mean + x;
        trace = c.i1 - real, det = c.i3 * inverse(real);
        const hd square = trace * trace, discriminant = square - 4.0 * det;
        const hl complex = discriminant < -1e-12 * square;
        const hl positive = trace > 0.0;
        const hl far = wide ? positive | (-discriminant > tangent * square)
                            : positive & (-discriminant < tangent * square);
        valid = (real > 0.0) & (det > 0.0) & ((complex & far) | (~complex & positive));
        real = valid ? real : one, det = valid ? det : one, trace = valid ? trace : one + one;
    }

    // (-a^2 + (i1^2 - i2) a + i1 i3 I) / (i1 i2 - i3) with the invariants of the root.
    LIEATTN_INLINED inline void take() {
        real = sqrt(real), det = sqrt(det), trace = sqrt(trace + 2.0 * det);
        const hd i1 = real + trace, i2 = real * trace + det, i3 = real * det;
        by = inverse(i1 * i2 - i3), linear = (i1 * i1 - i2) * by, constant = i1 * i3 * by;
    }

    LIEATTN_INLINED inline void of(const hd* a, hd* out) const {
        const hd one = hd{} + 1.0;
        for (int r = 0; r < 3; r++) {
            const hd b0 = by * a[3 * r], b1 = by * a[3 * r + 1], b2 = by * a[3 * r + 2];
            for (int k = 0; k < 3; k++) {
                const hd x = linear * a[3 * r + k] + (r == k ? constant : hd{}) - b0 * a[k] -
                             b1 * a[3 + k] - b2 * a[6 + k];
                out[3 * r + k] = valid ? x : (r == k ? one : hd{});
            }
        }
    }

    // Eigenvalues so far from 1 that the series would need more roots.
    LIEATTN_INLINED inline bool large() const {
        const hd i1 = real + trace, i2 = real * trace + det, i3 = real * det;
        return any((i1 > 5.5) | (i2 > 30.0) | (i2 > 5.5 * i3) | (i1 > 30.0 * i3));
    }
};

LIEATTN_INLINE void multiply(const hd* a, const hd* b, hd* out) {
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++)
            out[3 * r + c] = a[3 * r] * b[c] + a[3 * r + 1] * b[3 + c] + a[3 * r + 2] * b[6 + c];
}

// G becomes the solution of S Z + Z S = G, for S with invariants i1, i2, i3. Cayley-Hamilton makes it
// Z (2 i1 S^2 + 2 i3 I) = S^2 G - S G S + G S^2 - i1 (S G - G S) + i2 G.
LIEATTN_INLINE void sylvester(const hd* S, hd i1, hd i2, hd i3, hd* G) {
    hd left[9], right[9], x[9], y[9], square[9], adj[9];
    multiply(S, G, left);
    multiply(G, S, right);
    for (int i = 0; i < 9; i++) y[i] = i2 * G[i] - i1 * (left[i] - right[i]);
    multiply(S, left, x);
    for (int i = 0; i < 9; i++) y[i] += x[i];
    multiply(left, S, x);
    for (int i = 0; i < 9; i++) y[i] -= x[i];
    multiply(right, S, x);
    for (int i = 0; i < 9; i++) y[i] += x[i];
    multiply(S, S, square);
    for (int i = 0; i < 9; i++) square[i] = 2.0 * (i1 * square[i] + (i % 4 == 0 ? i3 : hd{}));
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            const int r = (j + 1) % 3, s = (j + 2) % 3, c = (i + 1) % 3, d = (i + 2) % 3;
            adj[3 * i + j] = square[3 * r + c] * square[3 * s + d] - square[3 * r + d] * square[3 * s + c];
        }
    const hd by = inverse(square[0] * adj[0] + square[1] * adj[3] + square[2] * adj[6]);
    multiply(y, adj, x);
    for (int i = 0; i < 9; i++) G[i] = by * x[i];
}

}  // namespace lieattn
