// What crosses the border to Python: one struct, mirrored by `ops/native.py`.
#pragma once

#include <cstdint>

extern "C" {

struct LieattnProblem {
    int64_t batch, heads, queries, keys, width;  // B, H, Nq, Nk, dv
    int64_t group;                               // see `attention.h`
    int64_t exclude_self;
    int64_t threads;
    // Runs a function on threads, as OpenMP's GOMP_parallel; null: the kernel starts its own.
    void (*team)(void (*function)(void*), void* data, unsigned threads, unsigned flags);
    double margin;  // pairs closer to the cut are left out
    double prune;   // share of a row's weights that may be left out, see `pruning.h`
    int64_t pruned; // set by the forward pass: pairs, times heads, that were left out
    const float* q_poses;  // [B, Nq, m, m]
    const float* k_poses;  // [B, Nk, m, m]
    const float* values;   // [B, H, Nk, dv]
    const float* weights;  // [H, K]
    const uint8_t* mask;   // 1 = may attend; strides of the batch, head, query, key
    int64_t mask_strides[4];
    const float* bias;  // added to the logits
    int64_t bias_strides[4];
    uint8_t* unfit;  // [B], set to 1 where the poses of a set are not what the kernel takes
};

struct LieattnGradients {
    const float* out;         // [B, H, Nq, dv], of the forward pass
    const float* coords;      // [B, H, Nq, D]
    const float* normaliser;  // [B, H, Nq, 3], see `forward.h`
    const float* out_grad;    // [B, H, Nq, dv]
    const float* coords_grad; // [B, H, Nq, D]
    float* values_grad;       // [B, H, Nk, dv]
    float* weights_grad;      // [H, K]
    float* q_grad;            // [B, Nq, m, m] or null, added to
    float* k_grad;            // [B, Nk, m, m] or null, added to
    float* bias_grad;         // [copies, bias] or null, added to; strides of `bias_strides`
    int64_t bias_copy;        // elements from one thread's copy to the next, 0 = one for all
};

// 0; or 1 where some sets are `unfit` (non-finite poses, far from a rotation, too ill-conditioned):
// their results are not written, those of the others are. 2 for an unknown group, 3 when memory is
// exhausted: no result is written.
int lieattn_forward(LieattnProblem* problem, float* out, float* coords, float* normaliser);
int lieattn_backward(LieattnProblem* problem, LieattnGradients* gradients);
}
