// A value with its derivatives in two directions. The value rounds as a plain vector's would.
#pragma once

#include "simd.h"

namespace lieattn {

struct Dual {
    vf v, a, b;
};

template <class T>
T constant(float x);
template <>
inline vf constant<vf>(float x) {
    return splat(x);
}
template <>
inline Dual constant<Dual>(float x) {
    return {splat(x), vf{}, vf{}};
}

LIEATTN_INLINE Dual operator+(Dual x, Dual y) { return {x.v + y.v, x.a + y.a, x.b + y.b}; }
LIEATTN_INLINE Dual operator-(Dual x, Dual y) { return {x.v - y.v, x.a - y.a, x.b - y.b}; }
LIEATTN_INLINE Dual operator-(Dual x) { return {-x.v, -x.a, -x.b}; }
LIEATTN_INLINE Dual operator+(float x, Dual y) { return {x + y.v, y.a, y.b}; }
LIEATTN_INLINE Dual operator-(float x, Dual y) { return {x - y.v, -y.a, -y.b}; }
LIEATTN_INLINE Dual operator*(float x, Dual y) { return {x * y.v, x * y.a, x * y.b}; }
LIEATTN_INLINE Dual operator*(Dual x, Dual y) {
    return {x.v * y.v, two(x.v, y.a, x.a, y.v), two(x.v, y.b, x.b, y.v)};
}

LIEATTN_INLINE Dual fma(Dual x, Dual y, Dual z) {
    return {fma(x.v, y.v, z.v), fma(x.v, y.a, fma(x.a, y.v, z.a)),
            fma(x.v, y.b, fma(x.b, y.v, z.b))};
}
LIEATTN_INLINE Dual fma(Dual x, Dual y, float z) {
    return {fma(x.v, y.v, splat(z)), two(x.v, y.a, x.a, y.v), two(x.v, y.b, x.b, y.v)};
}
LIEATTN_INLINE Dual fma(Dual x, float y, Dual z) {
    return {fma(x.v, y, z.v), fma(x.a, y, z.a), fma(x.b, y, z.b)};
}
LIEATTN_INLINE Dual fma(Dual x, float y, float z) {
    return {fma(x.v, y, splat(z)), x.a * y, x.b * y};
}
LIEATTN_INLINE vf fma(vf x, float y, float z) { return fma(x, splat(y), splat(z)); }
LIEATTN_INLINE vf fma(vf x, vf y, float z) { return fma(x, y, splat(z)); }

LIEATTN_INLINE Dual two(Dual a, Dual b, Dual c, Dual d) { return fma(a, b, c * d); }
LIEATTN_INLINE Dual difference(Dual a, Dual b, Dual c, Dual d) { return fma(a, b, -(c * d)); }

LIEATTN_INLINE Dual inverse_sqrt(Dual x) {
    vf y = inverse_sqrt(x.v), slope = -0.5f * y * y * y;
    return {y, slope * x.a, slope * x.b};
}

LIEATTN_INLINE Dual inverse(Dual x) {
    vf y = inverse(x.v), slope = -y * y;
    return {y, slope * x.a, slope * x.b};
}

}  // namespace lieattn
