// Queries and keys in an order in which neighbours in the list are neighbours in space.
#pragma once

#include <algorithm>

#include "inputs.h"

namespace lieattn {

// A number that has an order: sets with others are not for the kernel, but are sorted all the same.
inline float ordered(float x) { return std::fabs(x) < FARTHEST ? x : 0; }

// Halved along its longest side again and again, a set falls into tiles whose boxes are small,
// wherever its clusters and outliers are; a curve through a grid would put all of a set with one
// outlier into one cell.
template <class G>
class Order {
   public:
    // Positions of `poses` [n, m, m], those with `last` set behind the others: tiles of `large`,
    // and tiles of `small` inside them.
    Order(const float* poses, int64_t n, const char* last, int64_t large, int64_t small)
        : points_(n) {
        for (int64_t i = 0; i < n; i++) {
            for (int d = 0; d < N; d++) points_[i].at[d] = ordered(poses[(i * G::M + d) * G::M + N]);
            points_[i].index = i;
        }
        Point* const end = points_.data() + n;
        Point* const rest = std::stable_partition(
            points_.data(), end, [=](const Point& p) { return !last[p.index]; });
        halve(points_.data(), rest, large);
        halve(rest, end, large);
        for (int64_t i = 0; i < n; i += large)
            halve(points_.data() + i, points_.data() + std::min(i + large, n), small);
    }

    void write(int64_t* out) const {
        for (const Point& p : points_) *out++ = p.index;
    }

   private:
    static constexpr int N = G::M - 1;

    struct Point {
        float at[N];
        int64_t index;
    };

    static void halve(Point* begin, Point* end, int64_t tile) {
        const int64_t tiles = (end - begin + tile - 1) / tile;
        if (tiles < 2) return;
        const int axis = longest(begin, end);
        Point* const middle = begin + tiles / 2 * tile;
        // By index where coordinates agree, so that there is one answer.
        std::nth_element(begin, middle, end, [=](const Point& a, const Point& b) {
            return a.at[axis] != b.at[axis] ? a.at[axis] < b.at[axis] : a.index < b.index;
        });
        halve(begin, middle, tile);
        halve(middle, end, tile);
    }

    static int longest(const Point* begin, const Point* end) {
        float low[N], high[N];
        for (int d = 0; d < N; d++) low[d] = high[d] = begin->at[d];
        for (const Point* p = begin; p < end; p++)
            for (int d = 0; d < N; d++) {
                low[d] = std::min(low[d], p->at[d]);
                high[d] = std::max(high[d], p->at[d]);
            }
        int axis = 0;
        for (int d = 1; d < N; d++)
            if (high[d] - low[d] > high[axis] - low[axis]) axis = d;
        return axis;
    }

    std::vector<Point> points_;
};

// A problem with copies of its queries and keys in such an order.
template <class G>
class Sorted {
   public:
    Sorted(const LieattnProblem& p, int64_t tile, int64_t rows)
        : problem(p),
          queries(p.batch * p.queries),
          keys(p.batch * p.keys),
          q_poses_(p.batch * p.queries * G::M * G::M),
          k_poses_(p.batch * p.keys * G::M * G::M),
          values_(p.batch * p.heads * p.keys * p.width),
          mask_(p.batch * p.keys, 1) {
        const bool of_keys = p.mask && !p.mask_strides[1] && !p.mask_strides[2];
        std::vector<char> last(p.keys), none(p.queries);
        for (int64_t b = 0; b < p.batch; b++) {
            const int64_t* s = p.mask_strides;
            for (int64_t j = 0; of_keys && j < p.keys; j++) last[j] = !p.mask[b * s[0] + j * s[3]];
            int64_t *const q = &queries[b * p.queries], *const k = &keys[b * p.keys];
            const float *const q_set = p.q_poses + b * p.queries * G::M * G::M,
                        *const k_set = p.k_poses + b * p.keys * G::M * G::M;
            Order<G>(k_set, p.keys, last.data(), tile, rows).write(k);
            // Query i is key i where it leaves itself out, and has to remain so.
            if (p.exclude_self)
                std::copy(k, k + p.keys, q);
            else
                Order<G>(q_set, p.queries, none.data(), rows, rows).write(q);
            for (int64_t j = 0; j < p.keys; j++) mask_[b * p.keys + j] = !last[k[j]];
        }
        gather(p.q_poses, queries, 1, G::M * G::M, q_poses_);
        gather(p.k_poses, keys, 1, G::M * G::M, k_poses_);
        gather(p.values, keys, p.heads, p.width, values_);
        problem.q_poses = q_poses_, problem.k_poses = k_poses_, problem.values = values_;
        if (!of_keys) return;
        problem.mask = mask_.data();
        const int64_t strides[4] = {p.keys, 0, 0, 1};
        memcpy(problem.mask_strides, strides, sizeof strides);
    }

    // Rows [B, copies, N, width] into the order of `index` [B, N], and back.
    void gather(const float* from, const std::vector<int64_t>& index, int64_t copies, int64_t width,
                float* to) const {
        each(index, copies, [=](int64_t place, int64_t origin) {
            if (width) memcpy(to + place * width, from + origin * width, width * sizeof(float));
        });
    }

    void scatter(const float* from, const std::vector<int64_t>& index, int64_t copies,
                 int64_t width, float* to) const {
        each(index, copies, [=](int64_t place, int64_t origin) {
            if (width) memcpy(to + origin * width, from + place * width, width * sizeof(float));
        });
    }

    LieattnProblem problem;              // but masks of pairs are in the original order
    std::vector<int64_t> queries, keys;  // [B, N], where each of them was

   private:
    template <class Move>
    void each(const std::vector<int64_t>& index, int64_t copies, const Move& move) const {
        const int64_t n = index.size() / problem.batch;
        for (int64_t c = 0; c < problem.batch * copies; c++)
            for (int64_t i = 0; i < n; i++) move(c * n + i, c * n + index[c / copies * n + i]);
    }

    Buffer q_poses_, k_poses_, values_;
    std::vector<uint8_t> mask_;
};

template <class G>
PairTerms pair_terms(const LieattnProblem& p, const Sorted<G>* sorted) {
    return sorted ? PairTerms(p, sorted->queries.data(), sorted->keys.data()) : PairTerms(p);
}

}  // namespace lieattn
