// 3x3 matrices, row by row: products, and square roots in double precision.
#pragma once

#include "dual.h"
#include "halves.h"

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

LIEATTN_INLINE vf determinant(const vf* a) {
    return three(a[0], difference(a[4], a[8], a[5], a[7]), a[1],
                 difference(a[5], a[6], a[3], a[8]), a[2], difference(a[3], a[7], a[4], a[6]));
}

LIEATTN_INLINE void apply(const vf* a, const vf* t, vf* out) {
    for (int r = 0; r < 3; r++)
        out[r] = three(a[3 * r], t[0], a[3 * r + 1], t[1], a[3 * r + 2], t[2]);
}

LIEATTN_INLINE void multiply(const hd* a, const hd* b, hd* out) {
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++)
            out[3 * r + c] = a[3 * r] * b[c] + a[3 * r + 1] * b[3 + c] + a[3 * r + 2] * b[6 + c];
}

// The root of x^3 - j2 x - j3 = 0 with the sign of j3, alone on its side of zero, and the reciprocal
// of the slope there. Newton's method from at most a tenth above it.
LIEATTN_INLINE vf isolated(vf j2, vf j3, vf& by_slope) {
    const vf size = max(abs(j3), splat(1e-37f));
    // The cube root, from a third of the exponent.
    const vf bits = (1.0f / 3) * __builtin_convertvector((vi)size, vf);
    const vf cube = 1.03f * (vf)(__builtin_convertvector(bits, vi) + 0x2a5137a0);
    const vf square = cube * cube, ratio = j2 * rough_inverse(square);
    const vf sum = max(j2, vf{}) + square;
    vf x = select(j2 < 0.0f, cube * rough_inverse_sqrt(fma(ratio, ratio, splat(1.0f))),
                  sum * rough_inverse_sqrt(sum));
    for (int i = 0; i < 3; i++) {
        const vf xx = x * x;
        x = fma(-rough_inverse(fma(xx, 3.0f, -j2)), fma(x, xx - j2, -size), x);
    }
    by_slope = rough_inverse(fma(x * x, 3.0f, -j2));
    return with_sign(x, j3);
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

// A matrix as mean I + b with tr b = 0, and its square root.
struct Root {
    hd b[9], mean, j2, j3;  // x^3 - j2 x - j3 = 0 for the eigenvalues of b
    hd real, trace, det;    // a real eigenvalue of the root, trace and determinant of the other two
    hd linear, square;      // Z = (S - I)(S + I)^-1 = middle I + linear b + square (b^2 - 2/3 j2 I)
    hd middle;
    hl valid;

    LIEATTN_INLINED inline void of(const hd* a) {
        mean = ((a[0] + a[4]) + a[8]) * (1.0 / 3);
        for (int i = 0; i < 9; i++) b[i] = i % 4 == 0 ? a[i] - mean : a[i];
        const hd m0 = b[4] * b[8] - b[5] * b[7], m1 = b[5] * b[6] - b[3] * b[8];
        const hd m2 = b[3] * b[7] - b[4] * b[6];
        j2 = (b[2] * b[6] - b[0] * b[8]) + (b[1] * b[3] - b[0] * b[4]) - m0;
        j3 = b[0] * m0 + b[1] * m1 + b[2] * m2;
    }

    // Eigenvalues, from an estimate of the isolated one of b; `tangent` and `wide` as in the limits
    // of Aff(2). Where there is no root they become those of the identity.
    LIEATTN_INLINED inline void split(hd x, hd by_slope, double tangent, bool wide) {
        x = x - (x * (x * x - j2) - j3) * by_slope;
        const hd one = hd{} + 1.0, half = mean - 0.5 * x, gap = 0.75 * x * x - j2;
        const hd size = half * half;
        real = mean + x, trace = 2.0 * half, det = size + gap;
        const hl complex = gap > 1e-12 * size, positive = half > 0.0;
        const hl far = wide ? positive | (gap > tangent * size) : positive & (gap < tangent * size);
        valid = (real > 0.0) & (det > 0.0) & ((complex & far) | (~complex & positive));
        real = valid ? real : one, det = valid ? det : one, trace = valid ? trace : one + one;
    }

    // From those of the matrix to those of its root.
    LIEATTN_INLINED inline void take() {
        real = sqrt(real), det = accurate_sqrt(det), trace = sqrt(trace + 2.0 * det);
        const hd i1 = real + trace, i2 = real * trace + det, i3 = real * det;
        const hd sums = trace * (real * i1 + det), plus = (1.0 + real) * (1.0 + trace + det);
        const hd by = inverse(sums * plus), more = 1.0 + i1;
        square = -2.0 * by * more;
        linear = 2.0 * by * (more * (i1 * i1 + i2) * (1.0 / 3) - sums);
        middle = (by * sums) * ((i2 - i1) * (1.0 / 3) + (i3 - 1.0));
        linear = valid ? linear : hd{}, square = valid ? square : hd{};
    }

    // f1 b + f2 (b^2 - 2/3 j2 I)
    LIEATTN_INLINED inline void combine(hd f1, hd f2, hd* out) const {
        const hd less = (2.0 / 3) * j2 * f2;
        for (int r = 0; r < 3; r++) {
            const hd b0 = f2 * b[3 * r], b1 = f2 * b[3 * r + 1], b2 = f2 * b[3 * r + 2];
            for (int k = 0; k < 3; k++) {
                hd x = f1 * b[3 * r + k] + b0 * b[k];
                if (r == k) x -= less;
                out[3 * r + k] = x + b1 * b[3 + k] + b2 * b[6 + k];
            }
        }
    }

    // The root itself.
    LIEATTN_INLINED inline void matrix(hd* out) const {
        const hd i1 = real + trace, by = inverse(trace * (real * i1 + det));
        const hd f1 = by * (i1 * i1 + real * trace + det) * (1.0 / 3);
        combine(valid ? f1 : hd{}, valid ? -by : hd{}, out);
        for (int i = 0; i < 9; i += 4) out[i] += i1 * (1.0 / 3);
    }

    // Whether the logarithm of an eigenvalue may have a real part beyond 2.5: the root's is beyond
    // `most` or its reciprocal then.
    LIEATTN_INLINED inline bool large() const {
        const double most = 3.4903429574618414, least = 1 / most;  // e^1.25
        hd room = smaller(most - real, real - least);
        room = smaller(room, smaller(most * most - det, det - least * least));
        room = smaller(room, smaller(most * (most - trace) + det, least * (least - trace) + det));
        return any(room < 0.0);
    }

    // Z itself.
    LIEATTN_INLINED inline void tangent(hd* out) const {
        combine(linear, square, out);
        for (int i = 0; i < 9; i += 4) out[i] += middle;
    }

    // Goes on to the root of the root, where V^-1 of the matrix is that of its root times (I - Z).
    LIEATTN_INLINED inline void halve(hd* t) {
        hd z[9], s[9];
        tangent(z);
        const hd x = t[0], y = t[1], w = t[2];
        for (int r = 0; r < 3; r++) t[r] -= z[3 * r] * x + z[3 * r + 1] * y + z[3 * r + 2] * w;
        matrix(s);
        mean = (real + trace) * (1.0 / 3);
        const hd apart = real - mean;
        j2 = mean * (mean - apart) + apart * apart - det;
        for (int i = 0; i < 9; i++) b[i] = i % 4 == 0 ? s[i] - mean : s[i];
        take();
    }

    // The gradient of the matrix from that of Z and, if given, from another one of S:
    // dZ = (I - Z) dS (I - Z) / 2 and S dS + dS S = dA.
    LIEATTN_INLINED inline void pull_back(const hd* gz, const hd* gs, hd* out) const {
        hd z[9], x[9], S[9], g[9];
        tangent(z);
        for (int i = 0; i < 9; i++) x[i] = (i % 4 == 0 ? 1.0 : 0.0) - z[3 * (i % 3) + i / 3];
        multiply(x, gz, g);
        multiply(g, x, z);
        for (int i = 0; i < 9; i++) g[i] = gs ? gs[i] + 0.5 * z[i] : 0.5 * z[i];
        matrix(x);
        for (int i = 0; i < 9; i++) S[i] = x[3 * (i % 3) + i / 3];
        sylvester(S, real + trace, real * trace + det, real * det, g);
        for (int i = 0; i < 9; i++) out[i] = valid ? g[i] : hd{};
    }
};

}  // namespace lieattn
