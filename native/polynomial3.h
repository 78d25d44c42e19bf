// Functions of a 3x3 matrix E as quadratics in it, c0 I + c1 E + c2 E^2.
#pragma once

#include "matrix3.h"

namespace lieattn {

template <class T>
struct Quadratic {
    T c0, c1, c2;
};

// E^3 = e1 E^2 - e2 E + e3 I.
template <class T>
struct Modulus {
    T e1, e2, e3;

    LIEATTN_INLINED inline Quadratic<T> multiply(const Quadratic<T>& a,
                                                 const Quadratic<T>& b) const {
        const T fourth = a.c2 * b.c2, third = fma(fourth, e1, two(a.c1, b.c2, a.c2, b.c1));
        return {fma(third, e3, a.c0 * b.c0),
                fma(-third, e2, fma(fourth, e3, two(a.c0, b.c1, a.c1, b.c0))),
                fma(third, e1, fma(-fourth, e2, three(a.c0, b.c2, a.c1, b.c1, a.c2, b.c0)))};
    }
};

// Invariants s1, s2, s3 of a matrix. Their values come from a real eigenvalue and from trace and
// determinant of the other two, whose roots are simple; derivatives do not, because the real
// eigenvalue has none where it meets another.
template <class T>
struct Invariants {
    vf real, trace, det;
    T s1, s2, s3;

    LIEATTN_INLINED inline Invariants(vf real, vf trace, vf det)
        : real(real), trace(trace), det(det) {
        set(s1, real + trace), set(s2, fma(real, trace, det)), set(s3, real * det);
    }

    // Become those of the square root: s1^2 - 2 s2, s2^2 - 2 s1 s3 and s3^2 are those of the square.
    LIEATTN_INLINED inline void take_root() {
        real = real * inverse_sqrt(real), det = det * inverse_sqrt(det);
        trace = fma(det, 2.0f, trace);
        trace = trace * inverse_sqrt(trace);
        const T b1 = s1, b2 = s2, b3 = s3;
        set(s1, real + trace), set(s2, fma(real, trace, det)), set(s3, real * det);
        differentiate(b1, b2, b3);
    }

    LIEATTN_INLINE void set(vf& x, vf value) { x = value; }
    LIEATTN_INLINED inline void differentiate(vf, vf, vf) {}

    template <int N>
    LIEATTN_INLINE void set(Dual<N>& x, vf value) {
        x.v = value;
    }
    template <int N>
    LIEATTN_INLINED inline void differentiate(const Dual<N>& b1, const Dual<N>& b2,
                                              const Dual<N>& b3) {
        const vf half = 0.5f * inverse(fma(s1.v, s2.v, -s3.v)), by_s3 = 0.5f * inverse(s3.v);
        for (int i = 0; i < N; i++) {
            s3.d[i] = by_s3 * b3.d[i];
            s1.d[i] = half * (b2.d[i] + 2.0f * s1.v * s3.d[i] + s2.v * b1.d[i]);
            s2.d[i] = s1.v * s1.d[i] - 0.5f * b1.d[i];
        }
    }

    // The square root of a, whose square is given, where these are the invariants of the root.
    LIEATTN_INLINED inline Quadratic<T> root_of(const Quadratic<T>& a,
                                                const Quadratic<T>& square) const {
        const T by = inverse(fma(s1, s2, -s3)), linear = by * fma(s1, s1, -s2);
        return {fma(linear, a.c0, by * (s1 * s3)) - by * square.c0,
                fma(linear, a.c1, -(by * square.c1)), fma(linear, a.c2, -(by * square.c2))};
    }

    // (a + I)^-1 of the a that has these invariants, whose square is given: the adjugate is
    // (a + I)^2 - k1 (a + I) + k2 I with the invariants k of a + I.
    LIEATTN_INLINED inline Quadratic<T> inverse_of_sum(const Quadratic<T>& a,
                                                       const Quadratic<T>& square) const {
        const T by = inverse(1.0f + (s1 + (s2 + s3)));
        const T linear = -1.0f - s1, constant = 1.0f + (s1 + s2);  // 2 - k1 and 1 - k1 + k2
        return {by * fma(linear, a.c0, constant + square.c0),
                by * fma(linear, a.c1, square.c1), by * fma(linear, a.c2, square.c2)};
    }
};

// atanh(Z) = x0 I + x1 Z + x2 Z^2 and V^-1 = atanh(Z)/Z (I - Z) = v0 I + v1 Z + v2 Z^2 of the matrix
// S with the given invariants, Z = (S - I)(S + I)^-1; |Z|^2 <= 0.3.
template <class T>
struct Series {
    T x1, x2, v0, v1, v2;

    LIEATTN_INLINED inline explicit Series(const Invariants<T>& s) {
        const T s1 = s.s1, s2 = s.s2, s3 = s.s3;
        const T by = inverse(1.0f + (s1 + (s2 + s3)));
        // Of Z, whose eigenvalues are (s - 1)/(s + 1).
        const T j1 = by * (3.0f * (s3 - 1.0f) + (s2 - s1));
        const T j2 = by * (3.0f * (1.0f + s3) - (s2 + s1));
        const T j3 = by * ((s3 - 1.0f) - (s2 - s1));
        const T y1 = fma(j1, j1, -2.0f * j2), y2 = fma(j2, j2, -2.0f * (j1 * j3)), y3 = j3 * j3;
        constexpr int TERMS = 12;
        T c0 = Constant<T>::of(1.0f / (2 * TERMS - 5)), c1 = Constant<T>::of(1.0f / (2 * TERMS - 3));
        T c2 = Constant<T>::of(1.0f / (2 * TERMS - 1));
        for (int i = TERMS - 4; i >= 0; i--) {
            const T b0 = fma(y3, c2, 1.0f / (2 * i + 1)), b1 = fma(-y2, c2, c0);
            c2 = fma(y1, c2, c1);
            c0 = b0, c1 = b1;
        }
        // c0 + c1 Z^2 + c2 Z^4 = l0 + l1 Z + l2 Z^2, and that times Z.
        const T l0 = fma(c2, j1 * j3, c0), l1 = c2 * fma(-j1, j2, j3);
        const T l2 = fma(c2, fma(j1, j1, -j2), c1);
        x1 = fma(-l2, j2, l0), x2 = fma(l2, j1, l1);
        v0 = fma(-l2, j3, l0), v1 = l1 - x1, v2 = l2 - x2;
    }
};

}  // namespace lieattn
