// Vectors of floats and of doubles, as wide as the machine the file is compiled for.
//
// GCC's vector extensions give arithmetic, comparison and selection on every machine; what they
// lack (square root, fused multiply-add, the max instruction) is filled in below.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
#define LIEATTN_LANES 16
#elif defined(__AVX2__)
#define LIEATTN_LANES 8
#else
#define LIEATTN_LANES 4
#endif

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace lieattn {

constexpr int LANES = LIEATTN_LANES;

typedef float vf __attribute__((vector_size(4 * LIEATTN_LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LIEATTN_LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LIEATTN_LANES)));
typedef uint8_t vb __attribute__((vector_size(LIEATTN_LANES)));
typedef double vd __attribute__((vector_size(8 * LIEATTN_LANES)));  // two registers a vector

#define LIEATTN_INLINE static inline __attribute__((always_inline))
#define LIEATTN_INLINED __attribute__((always_inline))
#define LIEATTN_ONE_COPY static __attribute__((noinline))

// Rounds numbers below the normal ones to zero for as long as it lives: computing with them is a
// hundred times slower, and weights that small weigh nothing.
class NoSubnormals {
   public:
#if defined(__SSE2__)
    NoSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
    ~NoSubnormals() { _mm_setcsr(before_); }
    NoSubnormals(const NoSubnormals&) = delete;
    NoSubnormals& operator=(const NoSubnormals&) = delete;

   private:
    unsigned before_;
#endif
};

LIEATTN_INLINE vf load(const float* p) {
    vf x;
    memcpy(&x, p, sizeof x);
    return x;
}

LIEATTN_INLINE void store(float* p, vf x) { memcpy(p, &x, sizeof x); }

LIEATTN_INLINE vf splat(float x) { return x - vf{}; }
LIEATTN_INLINE vf splat(vf x) { return x; }

// Numbers that are the same for many vectors, as wide as those in memory: from there they are
// operands at no cost, where the compiler would make them wide again and again.
template <int n>
class Widened {
   public:
    explicit Widened(const float* x) {
        for (int i = 0; i < n; i++) store(at_ + i * LANES, splat(x[i]));
        asm volatile("" : : "r"(at_) : "memory");  // not to be seen through
    }
    LIEATTN_INLINED inline vf operator[](int i) const { return load(at_ + i * LANES); }

   private:
    alignas(64) float at_[n * LANES];
};

LIEATTN_INLINE vd widen(vf x) { return __builtin_convertvector(x, vd); }

LIEATTN_INLINE vf narrow(vd x) { return __builtin_convertvector(x, vf); }

// a where the mask is set, else b. A NaN in the lane that is not taken does no harm.
LIEATTN_INLINE vf select(vi mask, vf a, vf b) { return mask ? a : b; }

// b where a is NaN.
LIEATTN_INLINE vf max(vf a, vf b) {
#if defined(__AVX512F__)
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return a > b ? a : b;
#endif
}

LIEATTN_INLINE vf abs(vf x) { return (vf)((vi)x & 0x7fffffff); }

// The sign of `of` put on the non-negative x.
LIEATTN_INLINE vf with_sign(vf x, vf of) {
    return (vf)((vi)x | ((vi)of & (int32_t)0x80000000));
}

LIEATTN_INLINE vf sqrt(vf x) {
#if defined(__AVX512F__)
    return (vf)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
    return (vf)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE2__)
    return (vf)_mm_sqrt_ps((__m128)x);
#else
    for (int l = 0; l < LANES; l++) x[l] = __builtin_sqrtf(x[l]);
    return x;
#endif
}

// 1 / sqrt(x) and 1 / x. With AVX-512 an estimate of 14 bits and one step of Newton's method, which
// cost a quarter of the exact instructions and err by an ulp or two.
LIEATTN_INLINE vf inverse_sqrt(vf x) {
#if defined(__AVX512F__)
    vf y = (vf)_mm512_rsqrt14_ps((__m512)x);
    vf miss = (vf)_mm512_fnmadd_ps((__m512)(x * y), (__m512)y, _mm512_set1_ps(1.0f));
    return (vf)_mm512_fmadd_ps((__m512)(0.5f * y), (__m512)miss, (__m512)y);
#else
    return 1.0f / sqrt(x);
#endif
}

LIEATTN_INLINE vf inverse(vf x) {
#if defined(__AVX512F__)
    vf y = (vf)_mm512_rcp14_ps((__m512)x);
    vf miss = (vf)_mm512_fnmadd_ps((__m512)x, (__m512)y, _mm512_set1_ps(1.0f));
    return (vf)_mm512_fmadd_ps((__m512)y, (__m512)miss, (__m512)y);
#else
    return 1.0f / x;
#endif
}

// The same to 14 bits at least, for iterations that correct themselves; 1 / inf is 0.
LIEATTN_INLINE vf rough_inverse_sqrt(vf x) {
#if defined(__AVX512F__)
    return (vf)_mm512_rsqrt14_ps((__m512)x);
#else
    return 1.0f / sqrt(x);
#endif
}

LIEATTN_INLINE vf rough_inverse(vf x) {
#if defined(__AVX512F__)
    return (vf)_mm512_rcp14_ps((__m512)x);
#else
    return 1.0f / x;
#endif
}

// a b + c, fused where the machine can.
LIEATTN_INLINE vf fma(vf a, vf b, vf c) {
#if defined(__AVX512F__)
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

LIEATTN_INLINE vf fma(vf a, float b, vf c) { return fma(a, splat(b), c); }

// What is computed in the forward and again in the backward pass must round alike, or weights come
// out differently where logits are large. So it is written with the functions below, which leave
// the compiler no choice of what to fuse.

LIEATTN_INLINE vf fma(float a, vf b, vf c) { return fma(splat(a), b, c); }

template <class A, class C>
LIEATTN_INLINE vf two(A a, vf b, C c, vf d) {  // a b + c d
    return fma(a, b, c * d);
}

template <class A, class C>
LIEATTN_INLINE vf difference(A a, vf b, C c, vf d) {  // a b - c d
    return fma(a, b, -(c * d));
}

template <class A>
LIEATTN_INLINE vf three(A a, vf b, A c, vf d, A e, vf f) {  // a b + c d + e f
    return fma(a, b, fma(c, d, e * f));
}

// a b + c d with one rounding or two at the end, cancellation or not.
LIEATTN_INLINE vf sum_of_products(vf a, vf b, vf c, vf d) {
#if defined(__FMA__)
    vf cd = c * d;
    return fma(a, b, cd) + fma(c, d, -cd);
#else
    return narrow(widen(a) * widen(b) + widen(c) * widen(d));
#endif
}

LIEATTN_INLINE float sum(vf x) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)x);
#else
    for (int step = LANES / 2; step > 0; step /= 2)
        for (int l = 0; l < step; l++) x[l] += x[l + step];
    return x[0];
#endif
}

LIEATTN_INLINE float largest(vf x) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)x);
#else
    float m = x[0];
    for (int l = 1; l < LANES; l++) m = x[l] > m ? x[l] : m;
    return m;
#endif
}

LIEATTN_INLINE bool any(vi mask) {
#if defined(__AVX512F__)
    return _mm512_movepi32_mask((__m512i)mask) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_ps((__m256)mask) != 0;
#elif defined(__SSE2__)
    return _mm_movemask_ps((__m128)mask) != 0;
#else
    int32_t some = 0;
    for (int l = 0; l < LANES; l++) some |= mask[l];
    return some != 0;
#endif
}

// Polynomial with its coefficients given from the constant on, by Horner's rule.
template <int n>
LIEATTN_INLINE vf horner(const float (&c)[n], vf x) {
    vf y = splat(c[n - 1]);
    for (int i = n - 2; i >= 0; i--) y = fma(y, x, splat(c[i]));
    return y;
}

// Its derivative.
template <int n>
LIEATTN_INLINE vf slope(const float (&c)[n], vf x) {
    vf y = splat((n - 1) * c[n - 1]);
    for (int i = n - 2; i >= 1; i--) y = fma(y, x, splat(i * c[i]));
    return y;
}

constexpr float SMALLEST_LOG = -87.0f;  // e^x is a normal number from here on

// e^x for |x| < 88: 2^n 2^r with n the integer next to x / log 2. Of several vectors, each step of
// all of them in turn, as a step waits for the one before it.
template <int n>
LIEATTN_INLINE void exp_core(vf (&x)[n]) {
    const float magic = 12582912.0f;  // 1.5 2^23: adding it rounds to an integer
    const float log2e = 1.44269504088896341f;
    const float c[] = {1.0f,           0.69314720670f,  0.24022650922f,  0.55503272267e-1f,
                       0.96180566785e-2f, 0.13400428178e-2f, 0.15461444699e-3f};
    vf shifted[n], rest[n];
    for (int i = 0; i < n; i++) shifted[i] = fma(x[i], log2e, splat(magic));
    for (int i = 0; i < n; i++) rest[i] = fma(x[i], log2e, magic - shifted[i]);
    for (int i = 0; i < n; i++) x[i] = splat(c[6]);
    for (int k = 5; k >= 0; k--)
        for (int i = 0; i < n; i++) x[i] = fma(x[i], rest[i], splat(c[k]));
    for (int i = 0; i < n; i++) x[i] = (vf)((vu)x[i] + ((vu)shifted[i] << 23));
}

// e^x for x < 88, exactly 0 below e^-87 and for NaN.
template <int n>
LIEATTN_INLINE void exp(vf (&x)[n]) {
    vf y[n];
    memcpy(y, x, sizeof y);
    exp_core(y);
    for (int i = 0; i < n; i++) {
#if defined(__AVX512F__)
        __mmask16 keep = _mm512_cmp_ps_mask((__m512)x[i], _mm512_set1_ps(SMALLEST_LOG), _CMP_GE_OQ);
        x[i] = (vf)_mm512_maskz_mov_ps(keep, (__m512)y[i]);
#else
        x[i] = (vf)((vi)y[i] & (x[i] >= SMALLEST_LOG));
#endif
    }
}

LIEATTN_INLINE vf exp(vf x) {
    vf y[] = {x};
    exp(y);
    return y[0];
}

}  // namespace lieattn
