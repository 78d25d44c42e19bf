// What a call was given, in the layout that the loops want.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "extent.h"
#include "matrix.h"
#include "parallel.h"
#include "problem.h"

namespace lieattn {

constexpr float INFINITE = std::numeric_limits<float>::infinity();
constexpr float FARTHEST = 1e12f;  // of translations: squares and their sums stay finite

constexpr int64_t WORTH_A_THREAD = 1 << 16;  // pairs times heads

inline int64_t threads_for(const LieattnProblem& p) {
    const double work = (double)p.batch * p.queries * p.keys * p.heads / WORTH_A_THREAD;
    const int64_t useful = work < 1 ? 1 : work < 1024 ? (int64_t)work : 1024;
    return p.threads < 1 ? 1 : p.threads < useful ? p.threads : useful;
}

// Poses packed for the loops: queries one after the other, keys lane by lane.
template <class G>
class Packed {
   public:
    Packed(const LieattnProblem& p)
        : p_(p),
          stride_(padded(p.keys, LANES)),
          queries_(p.batch * p.queries * G::QUERY),
          keys_(p.batch * G::KEY * stride_),
          allowed_(p.batch * stride_),
          all_allowed_(p.batch, true),
          fit_(p.batch, true) {
        const int64_t chunk = 128, most = std::max(p.queries, stride_);
        const int64_t chunks = (most + chunk - 1) / chunk;
        std::vector<char> packed(p.batch * chunks);
        std::vector<Extent> extents(p.batch * chunks);
        parallel(p.batch * chunks, threads_for(p), p.team, [&](int64_t item, int64_t) {
            const int64_t b = item / chunks, first = item % chunks * chunk, end = first + chunk;
            packed[item] = pack(b, first, end, extents[item]);
        });
        for (int64_t b = 0; b < p.batch; b++) {
            Extent whole;
            for (int64_t item = b * chunks; item < (b + 1) * chunks; item++) {
                fit_[b] &= packed[item];
                whole.join(extents[item]);
            }
            fit_[b] &= G::fits(whole);
        }
        for (int64_t b = 0; b < p.batch; b++)
            for (int64_t j = 0; j < stride_; j++) {
                const bool allowed = j < p.keys && key_allowed(b, j);
                allowed_[b * stride_ + j] = allowed ? 0.0f : -INFINITE;
                if (j < p.keys && !allowed) all_allowed_[b] = false;
            }
        for (int64_t i = 0; i < p.heads * G::K; i++) {
            if (!std::isfinite(p.weights[i])) std::fill(fit_.begin(), fit_.end(), false);
            negative_weights_ |= p.weights[i] < 0;
        }
    }

    // Whether the poses of a set are for the kernel.
    bool fit(int64_t b) const { return fit_[b]; }

    // Tell the caller which sets are not; whether there are any.
    bool report(uint8_t* unfit) const {
        bool some = false;
        for (int64_t b = 0; b < p_.batch; b++) some |= unfit[b] = !fit_[b];
        return some;
    }

    int64_t stride() const { return stride_; }
    float* query(int64_t b, int64_t i) { return queries_ + (b * p_.queries + i) * G::QUERY; }
    const float* keys(int64_t b, int64_t j) { return keys_ + b * G::KEY * stride_ + j; }
    // 0 for a key that may be attended to, else -infinity.
    const float* allowed(int64_t b, int64_t j) { return allowed_ + b * stride_ + j; }
    bool all_allowed(int64_t b) const { return all_allowed_[b]; }
    bool negative_weights() const { return negative_weights_; }
    // lambda / tau of a head.
    const float* weights(int64_t h) const { return p_.weights + h * G::K; }

   private:
    bool pack(int64_t b, int64_t first, int64_t end, Extent& extent) {
        const LieattnProblem& p = p_;
        bool fit = true;
        for (int64_t i = first; i < std::min(end, p.queries); i++)
            fit &= pack(p.q_poses + (b * p.queries + i) * G::M * G::M, query(b, i), 1, true, extent);
        for (int64_t j = first; j < std::min(end, stride_); j++) {
            // Lanes past the last key repeat it and are never attended to.
            const int64_t real = j < p.keys ? j : p.keys - 1;
            fit &= pack(p.k_poses + (b * p.keys + real) * G::M * G::M,
                        keys_ + b * G::KEY * stride_ + j, stride_, false, extent);
        }
        return fit;
    }

    static bool pack(const float* g, float* out, int64_t stride, bool query, Extent& extent) {
        for (int i = 0; i < G::M - 1; i++)
            if (G::MOVES_ && !(std::fabs(g[i * G::M + G::M - 1]) < FARTHEST)) return false;
        return query ? G::pack_query(g, out, extent) : G::pack_key(g, out, stride, extent);
    }

    bool key_allowed(int64_t b, int64_t j) const {
        if (!p_.mask || p_.mask_strides[1] || p_.mask_strides[2]) return true;
        return p_.mask[b * p_.mask_strides[0] + j * p_.mask_strides[3]];
    }

    const LieattnProblem& p_;
    int64_t stride_;
    Buffer queries_, keys_, allowed_;
    std::vector<char> all_allowed_, fit_;
    bool negative_weights_ = false;
};

// Masks of pairs and biases, which change logits one by one.
class PairTerms {
   public:
    // Masks are read through the order of queries and keys, [B, N], where they were sorted.
    explicit PairTerms(const LieattnProblem& p, const int64_t* queries = nullptr,
                       const int64_t* keys = nullptr)
        : p_(p), queries_(queries), keys_(keys) {
        masked_ = p.mask && (p.mask_strides[1] || p.mask_strides[2]);
    }

    bool some() const { return masked_ || p_.bias; }

    // The logits of lanes j to j + LANES of query i.
    vf apply(vf logits, int64_t b, int64_t h, int64_t i, int64_t j) const {
        const int64_t n = p_.keys - j < LANES ? p_.keys - j : LANES;
        if (p_.bias) {
            const int64_t* s = p_.bias_strides;
            logits += lanes(p_.bias + b * s[0] + h * s[1] + i * s[2] + j * s[3], s[3], n);
        }
        if (masked_) {
            const int64_t* s = p_.mask_strides;
            if (queries_) i = queries_[b * p_.queries + i];
            const uint8_t* mask = p_.mask + b * s[0] + h * s[1] + i * s[2];
            uint8_t bytes[LANES] = {};
            if (keys_)
                for (int64_t l = 0; l < n; l++) bytes[l] = mask[keys_[b * p_.keys + j + l] * s[3]];
            else if (mask += j * s[3], s[3] == 1)
                memcpy(bytes, mask, n);
            else
                for (int64_t l = 0; l < n; l++) bytes[l] = mask[l * s[3]];
            vb packed;
            memcpy(&packed, bytes, sizeof packed);
            logits = select(__builtin_convertvector(packed, vi) != 0, logits, splat(-INFINITE));
        }
        return logits;
    }

    void add_bias_gradient(float* grad, vf ds, int64_t b, int64_t h, int64_t i, int64_t j) const {
        const int64_t n = p_.keys - j < LANES ? p_.keys - j : LANES;
        const int64_t* s = p_.bias_strides;
        float* at = grad + b * s[0] + h * s[1] + i * s[2] + j * s[3];
        if (s[3] == 1 && n == LANES)
            store(at, load(at) + ds);
        else
            for (int64_t l = 0; l < n; l++) at[l * s[3]] += ds[l];
    }

   private:
    static vf lanes(const float* x, int64_t stride, int64_t n) {
        if (stride == 1 && n == LANES) return load(x);
        vf out = {};
        for (int64_t l = 0; l < n; l++) out[l] = x[l * stride];
        return out;
    }

    const LieattnProblem& p_;
    const int64_t *queries_, *keys_;
    bool masked_;
};

// |w|^2 of each block.
template <class G>
LIEATTN_INLINE void squared_norms(const vf* w, vf* norms) {
    for (int k = 0; k < G::K; k++) norms[k] = vf{};
    for (int d = 0; d < G::D; d++) norms[G::BLOCK[d]] = fma(w[d], w[d], norms[G::BLOCK[d]]);
}

}  // namespace lieattn
