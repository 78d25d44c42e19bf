// Small matrix products on tiles that sit in the cache.
#pragma once

#include "simd.h"

namespace lieattn {

constexpr int ROWS = 8;  // tiles have a multiple of it
constexpr int64_t CHAIN = 128;  // products summed up before they join a longer sum, for accuracy

// C[r][c] += sum_k A[r * lda + k * step] B[k][c] for R rows and V vectors of columns.
template <int R, int V>
LIEATTN_INLINE void block_product(int64_t depth, const float* A, int64_t lda, int64_t step,
                                  const float* B, int64_t ldb, float* C, int64_t ldc) {
    vf acc[R][V] = {};
    for (int64_t k = 0; k < depth; k++) {
        vf b[V];
        for (int v = 0; v < V; v++) b[v] = load(B + k * ldb + v * LANES);
        for (int r = 0; r < R; r++) {
            vf a = splat(A[r * lda + k * step]);
            for (int v = 0; v < V; v++) acc[r][v] = fma(a, b[v], acc[r][v]);
        }
    }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) {
            float* c = C + r * ldc + v * LANES;
            store(c, load(c) + acc[r][v]);
        }
}

template <int V>
LIEATTN_INLINE void column_product(int64_t rows, int64_t depth, const float* A, int64_t lda,
                                   int64_t step, const float* B, int64_t ldb, float* C,
                                   int64_t ldc) {
    for (int64_t k = 0; k < depth; k += CHAIN) {
        const int64_t n = depth - k < CHAIN ? depth - k : CHAIN;
        int64_t r = 0;
        if (V == 1 && LANES == 16)  // fewer loads for a product
            for (; r + 2 * ROWS <= rows; r += 2 * ROWS)
                block_product<2 * ROWS, V>(n, A + r * lda + k * step, lda, step, B + k * ldb, ldb,
                                           C + r * ldc, ldc);
        for (; r < rows; r += ROWS)
            block_product<ROWS, V>(n, A + r * lda + k * step, lda, step, B + k * ldb, ldb,
                                   C + r * ldc, ldc);
    }
}

// C += A B with `rows` a multiple of ROWS and `columns` a multiple of LANES.
static void add_product(int64_t rows, int64_t columns, int64_t depth, const float* A, int64_t lda,
                        int64_t step, const float* B, int64_t ldb, float* C, int64_t ldc) {
    constexpr int WIDE = LANES == 16 ? 2 : 1;  // sixteen registers hold no more
    int64_t c = 0;
    for (; c + WIDE * LANES <= columns; c += WIDE * LANES)
        column_product<WIDE>(rows, depth, A, lda, step, B + c, ldb, C + c, ldc);
    if (c < columns) column_product<1>(rows, depth, A, lda, step, B + c, ldb, C + c, ldc);
}

LIEATTN_INLINE int64_t padded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

}  // namespace lieattn
