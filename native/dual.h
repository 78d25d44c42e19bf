// A value with its derivatives in N directions. The value rounds as a plain vector's would.
#pragma once

#include "simd.h"

namespace lieattn {

template <int N>
struct Dual {
    vf v, d[N];
};

#define LIEATTN_EACH(DERIVATIVE)                      \
    for (int i = 0; i < N; i++) out.d[i] = DERIVATIVE; \
    return out;

template <int N>
LIEATTN_INLINE Dual<N> operator+(const Dual<N>& x, const Dual<N>& y) {
    Dual<N> out{x.v + y.v, {}};
    LIEATTN_EACH(x.d[i] + y.d[i])
}

template <int N>
LIEATTN_INLINE Dual<N> operator-(const Dual<N>& x, const Dual<N>& y) {
    Dual<N> out{x.v - y.v, {}};
    LIEATTN_EACH(x.d[i] - y.d[i])
}

template <int N>
LIEATTN_INLINE Dual<N> operator-(const Dual<N>& x) {
    Dual<N> out{-x.v, {}};
    LIEATTN_EACH(-x.d[i])
}

template <int N>
LIEATTN_INLINE Dual<N> operator+(float x, const Dual<N>& y) {
    Dual<N> out{x + y.v, {}};
    LIEATTN_EACH(y.d[i])
}

template <int N>
LIEATTN_INLINE Dual<N> operator-(const Dual<N>& x, float y) {
    Dual<N> out{x.v - y, {}};
    LIEATTN_EACH(x.d[i])
}

template <int N>
LIEATTN_INLINE Dual<N> operator-(float x, const Dual<N>& y) {
    Dual<N> out{x - y.v, {}};
    LIEATTN_EACH(-y.d[i])
}

template <int N>
LIEATTN_INLINE Dual<N> operator*(float x, const Dual<N>& y) {
    Dual<N> out{x * y.v, {}};
    LIEATTN_EACH(x * y.d[i])
}

template <int N>
LIEATTN_INLINE Dual<N> operator*(const Dual<N>& x, const Dual<N>& y) {
    Dual<N> out{x.v * y.v, {}};
    LIEATTN_EACH(two(x.v, y.d[i], x.d[i], y.v))
}

template <int N>
LIEATTN_INLINE Dual<N> fma(const Dual<N>& x, const Dual<N>& y, const Dual<N>& z) {
    Dual<N> out{fma(x.v, y.v, z.v), {}};
    LIEATTN_EACH(fma(x.v, y.d[i], fma(x.d[i], y.v, z.d[i])))
}

template <int N>
LIEATTN_INLINE Dual<N> fma(const Dual<N>& x, const Dual<N>& y, float z) {
    Dual<N> out{fma(x.v, y.v, splat(z)), {}};
    LIEATTN_EACH(two(x.v, y.d[i], x.d[i], y.v))
}

template <int N>
LIEATTN_INLINE Dual<N> fma(const Dual<N>& x, float y, const Dual<N>& z) {
    Dual<N> out{fma(x.v, y, z.v), {}};
    LIEATTN_EACH(fma(x.d[i], y, z.d[i]))
}

template <int N>
LIEATTN_INLINE Dual<N> fma(const Dual<N>& x, float y, float z) {
    Dual<N> out{fma(x.v, y, splat(z)), {}};
    LIEATTN_EACH(x.d[i] * y)
}

LIEATTN_INLINE vf fma(vf x, float y, float z) { return fma(x, splat(y), splat(z)); }
LIEATTN_INLINE vf fma(vf x, vf y, float z) { return fma(x, y, splat(z)); }

template <int N>
LIEATTN_INLINE Dual<N> two(const Dual<N>& a, const Dual<N>& b, const Dual<N>& c, const Dual<N>& d) {
    return fma(a, b, c * d);
}

template <int N>
LIEATTN_INLINE Dual<N> three(const Dual<N>& a, const Dual<N>& b, const Dual<N>& c, const Dual<N>& d,
                             const Dual<N>& e, const Dual<N>& f) {
    return fma(a, b, fma(c, d, e * f));
}

template <int N>
LIEATTN_INLINE Dual<N> difference(const Dual<N>& a, const Dual<N>& b, const Dual<N>& c,
                                  const Dual<N>& d) {
    return fma(a, b, -(c * d));
}

template <int N>
LIEATTN_INLINE Dual<N> inverse_sqrt(const Dual<N>& x) {
    Dual<N> out{inverse_sqrt(x.v), {}};
    const vf slope = -0.5f * out.v * out.v * out.v;
    LIEATTN_EACH(slope * x.d[i])
}

template <int N>
LIEATTN_INLINE Dual<N> inverse(const Dual<N>& x) {
    Dual<N> out{inverse(x.v), {}};
    const vf slope = -out.v * out.v;
    LIEATTN_EACH(slope * x.d[i])
}

#undef LIEATTN_EACH

template <class T>
struct Constant {
    LIEATTN_INLINE T of(float x) { return splat(x); }
};

template <int N>
struct Constant<Dual<N>> {
    LIEATTN_INLINE Dual<N> of(float x) { return {splat(x), {}}; }
};

}  // namespace lieattn
