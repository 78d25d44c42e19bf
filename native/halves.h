// Doubles, half of the lanes at a time: a register each.
#pragma once

#include "simd.h"

namespace lieattn {

typedef double hd __attribute__((vector_size(4 * LIEATTN_LANES)));
typedef int64_t hl __attribute__((vector_size(4 * LIEATTN_LANES)));
typedef float hf __attribute__((vector_size(2 * LIEATTN_LANES)));
typedef int32_t hi __attribute__((vector_size(2 * LIEATTN_LANES)));

LIEATTN_INLINE hd widen(hf x) {  // the compiler's own conversion goes in two steps
#if defined(__AVX512F__)
    return (hd)_mm512_cvtps_pd((__m256)x);
#else
    return __builtin_convertvector(x, hd);
#endif
}

LIEATTN_INLINE hd half(vf x, int which) {
#if defined(__AVX512F__)
    const __m512 y = (__m512)x;
    return widen((hf)(which ? _mm512_extractf32x8_ps(y, 1) : _mm512_castps512_ps256(y)));
#else
    hf part;
    memcpy(&part, (const char*)&x + which * sizeof part, sizeof part);
    return widen(part);
#endif
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

// a b + c, fused where the machine can, and a b + c d.
LIEATTN_INLINE hd fma(hd a, hd b, hd c) {
#if defined(__AVX512F__)
    return (hd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__)
    return (hd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return a * b + c;
#endif
}

LIEATTN_INLINE hd two(double a, hd b, double c, hd d) { return fma(a - hd{}, b, c * d); }

LIEATTN_INLINE hd three(double a, hd b, double c, hd d, double e, hd f) {
    return fma(a - hd{}, b, fma(c - hd{}, d, e * f));
}

LIEATTN_INLINE hd load(const double* p) {
    hd x;
    memcpy(&x, p, sizeof x);
    return x;
}

LIEATTN_INLINE void store(double* p, hd x) { memcpy(p, &x, sizeof x); }

LIEATTN_INLINE hd load_half(const float* p) {
    hf x;
    memcpy(&x, p, sizeof x);
    return widen(x);
}

LIEATTN_INLINE void store(float* p, hd x) {
#if defined(__AVX512F__)
    _mm256_storeu_ps(p, _mm512_cvtpd_ps((__m512d)x));
#else
    const hf y = __builtin_convertvector(x, hf);
    memcpy(p, &y, sizeof y);
#endif
}

// 1 / x and sqrt(x). With AVX-512 an estimate of 14 bits and a step of third order: errors of 1e-12,
// which a residual of its own brings down to the last bit where sums cancel.
LIEATTN_INLINE hd inverse(hd x) {
#if defined(__AVX512F__)
    const hd y = (hd)_mm512_rcp14_pd((__m512d)x), miss = 1.0 - x * y;
    return y + y * (miss + miss * miss);
#else
    return 1.0 / x;
#endif
}

LIEATTN_INLINE hd sqrt(hd x) {
#if defined(__AVX512F__)
    const hd y = (hd)_mm512_rsqrt14_pd((__m512d)x), root = x * y, miss = 1.0 - root * y;
    return root + root * miss * (0.5 + 0.375 * miss);
#else
    for (int l = 0; l < LANES / 2; l++) x[l] = __builtin_sqrt(x[l]);
    return x;
#endif
}

LIEATTN_INLINE hd accurate_sqrt(hd x) {
#if defined(__AVX512F__)
    const hd y = (hd)_mm512_rsqrt14_pd((__m512d)x), first = x * y, miss = 1.0 - first * y;
    const hd root = first + first * miss * (0.5 + 0.375 * miss);
    return root + 0.5 * y * (x - root * root);
#else
    return sqrt(x);
#endif
}

LIEATTN_INLINE hd abs(hd x) { return (hd)((hl)x & 0x7fffffffffffffff); }

LIEATTN_INLINE hd smaller(hd a, hd b) {
#if defined(__AVX512F__)
    return (hd)_mm512_min_pd((__m512d)a, (__m512d)b);
#else
    return a < b ? a : b;
#endif
}

}  // namespace lieattn
