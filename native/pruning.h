// Tiles of keys so far away that all of them together weigh too little to be computed.
//
// For SE(n). The translation coordinates u of a pair are at least as long as the distance d of its
// translations, so that its weight e^logit is at most e^(-weight d^2), times e^(2 pi^2 |weight|) if
// the weight of rotations is negative, as those are at most sqrt(2) pi long. A block of queries
// takes tiles nearest first and ends where those bounds, summed over all tiles that are left, are
// below a share `prune` of what every row of the block has summed up by then. That sum only grows,
// whatever masks left out of it.
//
// The bounds are taken times max(1, sqrt(weight) |u|), which the sum of coordinates needs: for
// x = weight |u|^2 both e^-x and sqrt(x) e^-x, the latter from x = 1 on, fall.
#pragma once

#include "order.h"
#include "rigid2.h"

namespace lieattn {

// Smaller tiles and blocks than usual have smaller boxes, so that more can be left out.
constexpr int64_t PRUNED_TILE = 64, PRUNED_ROWS = 16;
// Of squared distances: matrices may be off a rotation by 1e-3, and logits are rounded.
constexpr double SHRUNK = 0.998;
constexpr double LONGEST_ROTATION = 2 * PI * PI * 1.001;  // squared, in orthonormal coordinates
constexpr double ROUNDING = 0.01;                         // of the logarithms of sums

// Whether there is anything to gain. Biases are not bounded, and would have to be sorted.
template <class G>
bool may_prune(const LieattnProblem& p) {
    if (G::K != 2 || !(p.prune > 0) || p.bias || p.keys <= PRUNED_TILE) return false;
    bool decays = false;
    for (int64_t h = 0; h < p.heads; h++) decays |= p.weights[h * G::K] > 0;
    return decays;
}

// Boxes around the translations of tiles of keys and of blocks of queries.
template <class G>
class Boxes {
   public:
    Boxes(const LieattnProblem& p, Packed<G>& packed, int64_t rows)
        : rows_(rows),
          blocks_((p.queries + rows - 1) / rows),
          tiles_((p.keys + PRUNED_TILE - 1) / PRUNED_TILE),
          of_queries_(p.batch * blocks_),
          of_keys_(p.batch * tiles_) {
        const int64_t size = G::M * G::M;
        for (int64_t b = 0; b < p.batch; b++) {
            for (int64_t i = 0; i < p.queries; i++)
                of_queries_[b * blocks_ + i / rows].add(p.q_poses + (b * p.queries + i) * size);
            for (int64_t j = 0; j < p.keys; j++)
                if (*packed.allowed(b, j) == 0)
                    of_keys_[b * tiles_ + j / PRUNED_TILE].add(p.k_poses + (b * p.keys + j) * size);
        }
    }

    int64_t rows() const { return rows_; }
    int64_t tiles() const { return tiles_; }
    // Keys of a tile that may be attended to.
    int64_t count(int64_t b, int64_t tile) const { return of_keys_[b * tiles_ + tile].count; }

    // No query of a block and key of a tile are closer, squared; infinite where there are no keys.
    float distance(int64_t b, int64_t first, int64_t tile) const {
        const Box &q = of_queries_[b * blocks_ + first / rows_], &k = of_keys_[b * tiles_ + tile];
        if (!k.count) return INFINITE;
        double sum = 0;
        for (int d = 0; d < N; d++) {
            const double below = (double)k.low[d] - q.high[d], above = (double)q.low[d] - k.high[d];
            const double gap = std::max(0.0, std::max(below, above));
            sum += gap * gap;
        }
        return (float)sum;
    }

   private:
    static constexpr int N = G::M - 1;

    struct Box {
        float low[N], high[N];
        int64_t count = 0;

        Box() {
            for (int d = 0; d < N; d++) low[d] = INFINITE, high[d] = -INFINITE;
        }

        void add(const float* pose) {
            for (int d = 0; d < N; d++) {
                low[d] = std::min(low[d], ordered(pose[d * G::M + N]));
                high[d] = std::max(high[d], ordered(pose[d * G::M + N]));
            }
            count++;
        }
    };

    const int64_t rows_, blocks_, tiles_;
    std::vector<Box> of_queries_, of_keys_;
};

// The tiles of one block of queries, nearest first, and what those from each one on may weigh.
class Walk {
   public:
    template <class G>
    void plan(const Boxes<G>& boxes, const LieattnProblem& p, int64_t b, int64_t first) {
        steps_.clear();
        for (int64_t t = 0; t < boxes.tiles(); t++)
            if (boxes.count(b, t)) steps_.push_back({boxes.distance(b, first, t), t});
        std::sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) {
            return a.distance != b.distance ? a.distance < b.distance : a.tile < b.tile;
        });
        const int64_t n = size();
        bounds_.resize(p.heads * n);
        for (int64_t h = 0; h < p.heads; h++) {
            const double weight = p.weights[G::K * h] * SHRUNK;
            if (!(weight > 0)) continue;
            double sum = 0, farther = n ? weight * steps_[n - 1].distance : 0;
            for (int64_t k = n - 1; k >= 0; k--) {
                const double x = weight * steps_[k].distance;
                // In units of e^-x, which may be too small to be a number.
                sum *= farther - x < 40 ? std::exp((float)(x - farther)) : 5e-18;
                sum += boxes.count(b, steps_[k].tile) * std::max(1.0, std::sqrt(x));
                bounds_[h * n + k] = {sum, x};
                farther = x;
            }
        }
    }

    int64_t size() const { return steps_.size(); }
    int64_t start(int64_t k) const { return steps_[k].tile * PRUNED_TILE; }
    float distance(int64_t k) const { return steps_[k].distance; }

    // Logarithm of what all tiles from step k on may weigh.
    double rest(const float* weights, int64_t h, int64_t k) const {
        if (!(weights[0] > 0)) return INFINITE;
        const Bound& bound = bounds_[h * size() + k];
        return std::log(bound.sum) - bound.x + LONGEST_ROTATION * std::max(0.0f, -weights[1]);
    }

    // The backward pass tells tiles by their distance, so there is no end between equal ones.
    bool may_end(int64_t k) const { return k < size() && distance(k - 1) < distance(k); }

   private:
    struct Step {
        float distance;  // squared
        int64_t tile;
    };
    struct Bound {
        double sum, x;  // sum e^-x
    };
    std::vector<Step> steps_;
    std::vector<Bound> bounds_;
};

}  // namespace lieattn
