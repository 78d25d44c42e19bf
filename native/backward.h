// Gradients of values, weights, poses and bias, from weights that are computed again tile by tile.
#pragma once

#include <memory>

#include "forward.h"

namespace lieattn {

template <class G, bool POSES>
class Backward {
   public:
    Backward(const LieattnProblem& p, Packed<G>& packed, const LieattnGradients& g,
             const Boxes<G>* boxes = nullptr, const Sorted<G>* sorted = nullptr)
        : p_(p),
          packed_(packed),
          boxes_(boxes),
          terms_(pair_terms(p, sorted)),
          g_(g),
          limits_(p.margin),
          tile_(boxes ? PRUNED_TILE : KEY_TILE),
          rows_(boxes ? boxes->rows() : query_tile(p)),
          columns_(padded(p.width, LANES)),
          inner_(p.batch * p.heads * p.queries) {
        for (int64_t c = 0; c < p.batch * p.heads * p.queries; c++) {
            // Rounded as `products` rounds: where a query attends to one key, all must cancel.
            vf sum = {};
            for (int64_t d = 0; d < p.width; d++)
                sum = fma(splat(g.out_grad[c * p.width + d]), splat(g.out[c * p.width + d]), sum);
            inner_[c] = sum[0];
        }
    }

    // Which thread does what is fixed, so that sums do not depend on who was faster.
    void run(int64_t threads) {
        const int64_t blocks = (p_.keys + tile_ - 1) / tile_;
        std::vector<std::unique_ptr<Scratch>> scratch(threads);
        for (auto& s : scratch) s.reset(new Scratch(*this));
        parallel(threads, threads, p_.team, [&](int64_t thread, int64_t) {
            for (int64_t item = thread; item < p_.batch * blocks; item += threads)
                if (packed_.fit(item / blocks))
                    block(*scratch[thread], thread, item / blocks, item % blocks * tile_);
        });
        finish_weights(scratch);
        for (auto& s : scratch) {
            if (!g_.q_grad) continue;
            for (int64_t c = 0; c < p_.batch * p_.queries; c++)
                if (packed_.fit(c / p_.queries)) G::unpack_query(p_.q_poses + c * G::M * G::M, s->queries + c * G::QUERY_GRAD,
                                g_.q_grad + c * G::M * G::M);
        }
    }

   private:
    // Sums over the keys of a query: of ds, of ds |w|^2, of a |w|^2 (a block each).
    static constexpr int SUMS = 1 + 2 * G::K;

    struct Scratch {
        explicit Scratch(const Backward& b)
            : p(b.p_.heads * b.rows_ * KEY_TILE),
              transposed(b.p_.heads * b.p_.width * KEY_TILE),
              mixed(b.p_.heads * KEY_TILE * b.columns_),
              out_grad(b.columns_ == b.p_.width ? 0 : b.rows_ * b.columns_),
              sums(b.p_.heads * SUMS * LANES),
              totals(b.p_.batch * b.p_.heads * b.p_.queries * SUMS),
              queries(POSES ? b.p_.batch * b.p_.queries * G::QUERY_GRAD : 0),
              keys(POSES ? G::KEY_GRAD * KEY_TILE : 0),
              keys_total(POSES ? G::KEY_GRAD * KEY_TILE : 0) {
            memset(totals, 0, b.p_.batch * b.p_.heads * b.p_.queries * SUMS * sizeof(float));
            if (POSES)
                memset(queries, 0, b.p_.batch * b.p_.queries * G::QUERY_GRAD * sizeof(float));
            for (int64_t h = 0; h < b.p_.heads; h++) heads.push_back(h);
        }
        Buffer p;           // [H, rows, KEY_TILE] products of gradients and values, then weights
        Buffer transposed;  // [H, width, KEY_TILE] values
        Buffer mixed;       // [H, KEY_TILE, columns] their gradients
        Buffer out_grad;    // [rows, columns] filled up with zeros
        Buffer sums;        // [H, SUMS, LANES], see below, of one query and tile
        Buffer totals;      // [B, H, Nq, SUMS]
        Buffer queries;     // [B, Nq, QUERY_GRAD]
        Buffer keys;        // [KEY_GRAD, KEY_TILE], of some queries
        Buffer keys_total;  // of all: sums of sums round less
        std::vector<int64_t> heads;  // that looked at the tile
    };

    void block(Scratch& s, int64_t thread, int64_t b, int64_t start) {
        const int64_t n = p_.keys - start < tile_ ? p_.keys - start : tile_;
        const int64_t lanes = padded(n, LANES);
        transpose(s, b, start, n);
        memset(s.mixed, 0, p_.heads * KEY_TILE * columns_ * sizeof(float));
        if (POSES) memset(s.keys_total, 0, G::KEY_GRAD * KEY_TILE * sizeof(float));
        for (int64_t first = 0; first < p_.queries; first += rows_) {
            if (G::K == 2 && boxes_ && !seen(s, b, first, start)) continue;
            const int64_t rows = p_.queries - first < rows_ ? p_.queries - first : rows_;
            products(s, b, first, rows, lanes);
            for (int d = 0; POSES && d < G::KEY_GRAD; d++)
                memset(s.keys + d * KEY_TILE, 0, lanes * sizeof(float));
            for (int64_t r = 0; r < rows; r++) row(s, thread, b, first + r, r, start, lanes);
            for (int d = 0; POSES && d < G::KEY_GRAD; d++)
                for (int64_t c = d * KEY_TILE; c < d * KEY_TILE + lanes; c += LANES)
                    store(s.keys_total + c, load(s.keys_total + c) + load(s.keys + c));
            mix(s, b, first, rows, n);
        }
        finish(s, b, start, n);
    }

    // Heads whose forward pass took the tile; whether there are any.
    bool seen(Scratch& s, int64_t b, int64_t first, int64_t start) const {
        const float distance = boxes_->distance(b, first, start / tile_);
        s.heads.clear();
        for (int64_t h = 0; h < p_.heads && distance < INFINITE; h++)
            if (distance <= g_.normaliser[3 * ((b * p_.heads + h) * p_.queries + first) + 2])
                s.heads.push_back(h);
        return !s.heads.empty();
    }

    void transpose(Scratch& s, int64_t b, int64_t start, int64_t n) {
        const int64_t width = p_.width;
        for (int64_t h = 0; h < p_.heads; h++) {
            const float* values = p_.values + ((b * p_.heads + h) * p_.keys + start) * width;
            float* to = s.transposed + h * width * KEY_TILE;
            for (int64_t d = 0; d < width; d++) {
                for (int64_t j = 0; j < n; j++) to[d * KEY_TILE + j] = values[j * width + d];
                for (int64_t j = n; j < KEY_TILE; j++) to[d * KEY_TILE + j] = 0;
            }
        }
    }

    const float* out_grad(int64_t b, int64_t h, int64_t i) const {
        return g_.out_grad + ((b * p_.heads + h) * p_.queries + i) * p_.width;
    }

    // Gradients of the outputs times the values, [H, rows, KEY_TILE].
    void products(Scratch& s, int64_t b, int64_t first, int64_t rows, int64_t lanes) {
        for (const int64_t h : s.heads) {
            float* p = s.p + h * rows_ * KEY_TILE;
            for (int64_t r = 0; r < rows; r++) memset(p + r * KEY_TILE, 0, lanes * sizeof(float));
            int64_t r = 0;
            const float* values = s.transposed + h * p_.width * KEY_TILE;
            const int64_t whole = rows / ROWS * ROWS;
            if (whole > 0)
                add_product(whole, lanes, p_.width, out_grad(b, h, first), p_.width, 1, values,
                            KEY_TILE, p, KEY_TILE);
            for (r = whole; r < rows; r++)
                for (int64_t c = 0; c < lanes; c += LANES)
                    block_product<1, 1>(p_.width, out_grad(b, h, first + r), 0, 1, values + c,
                                        KEY_TILE, p + r * KEY_TILE + c, KEY_TILE);
        }
    }

    void row(Scratch& s, int64_t thread, int64_t b, int64_t i, int64_t r, int64_t start,
             int64_t lanes) {
        const float* q = packed_.query(b, i);
        const bool extra = terms_.some();
        const bool check = G::ALWAYS_CHECKED || p_.margin > 0;
        vf gq[POSES ? G::QUERY_GRAD : 1] = {};
        memset(s.sums, 0, p_.heads * SUMS * LANES * sizeof(float));
        for (int64_t v = 0; v < lanes; v += LANES) {
            vf w[G::D], norms[G::K], gw[G::D], pull[G::K];
            typename G::State state;
            const float* k = packed_.keys(b, start + v);
            vi valid;
            if (check) {
                valid = G::template log<true, POSES>(q, k, packed_.stride(), limits_, w, state);
            } else {
                valid = G::template log<false, POSES>(q, k, packed_.stride(), limits_, w, state);
            }
            squared_norms<G>(w, norms);
            vf allowed = load(packed_.allowed(b, start + v));
            if (check) allowed = select(valid, allowed, splat(-INFINITE));
            if (p_.exclude_self && i >= start + v && i < start + v + LANES)
                allowed[i - start - v] = -INFINITE;
            for (int d = 0; d < G::D; d++) gw[d] = vf{};
            for (int m = 0; m < G::K; m++) pull[m] = vf{};
            for (const int64_t h : s.heads) {
                const float* weights = packed_.weights(h);
                const int64_t cell = (b * p_.heads + h) * p_.queries + i;
                const float *c = g_.coords + cell * G::D, *gc = g_.coords_grad + cell * G::D;
                vf logits = allowed;
                for (int m = 0; m < G::K; m++) logits = fma(norms[m], -weights[m], logits);
                if (extra) logits = terms_.apply(logits, b, h, i, start + v);
                vf a = exp(logits - g_.normaliser[3 * cell]) * g_.normaliser[3 * cell + 1];
                float* p = s.p + (h * rows_ + r) * KEY_TILE + v;
                vf along = load(p) - inner_[cell];
                for (int d = 0; d < G::D; d++) along = fma(w[d] - c[d], gc[d], along);
                vf ds = a * along;
                store(p, a);
                float* sums = s.sums + h * SUMS * LANES;
                store(sums, load(sums) + ds);
                for (int m = 0; m < G::K; m++) {
                    float *cross = sums + (1 + m) * LANES, *mean = cross + G::K * LANES;
                    store(cross, fma(ds, norms[m], load(cross)));
                    store(mean, fma(a, norms[m], load(mean)));
                    pull[m] = fma(ds, weights[m], pull[m]);
                }
                if (POSES)
                    for (int d = 0; d < G::D; d++) gw[d] = fma(a, gc[d], gw[d]);
                if (g_.bias_grad)
                    terms_.add_bias_gradient(g_.bias_grad + thread * g_.bias_copy, ds, b, h, i,
                                             start + v);
            }
            if (!POSES) continue;
            for (int d = 0; d < G::D; d++)
                gw[d] = fma(-2.0f * pull[G::BLOCK[d]], w[d], gw[d]);
            G::backward(q, k, packed_.stride(), state, gw, gq, s.keys + v, KEY_TILE);
        }
        for (const int64_t h : s.heads) {
            float* to = s.totals + ((b * p_.heads + h) * p_.queries + i) * SUMS;
            for (int m = 0; m < SUMS; m++) to[m] += sum(load(s.sums + (h * SUMS + m) * LANES));
        }
        if (POSES) {
            float* to = s.queries + (b * p_.queries + i) * G::QUERY_GRAD;
            for (int d = 0; d < G::QUERY_GRAD; d++) to[d] += sum(gq[d]);
        }
    }

    // Values' gradients: weights, transposed, times gradients of the outputs.
    void mix(Scratch& s, int64_t b, int64_t first, int64_t rows, int64_t n) {
        for (const int64_t h : s.heads) {
            const float* grad = out_grad(b, h, first);
            if (columns_ != p_.width) {
                for (int64_t r = 0; r < rows; r++) {
                    float* to = s.out_grad + r * columns_;
                    memcpy(to, grad + r * p_.width, p_.width * sizeof(float));
                    memset(to + p_.width, 0, (columns_ - p_.width) * sizeof(float));
                }
                grad = s.out_grad;
            }
            add_product(padded(n, ROWS), columns_, rows, s.p + h * rows_ * KEY_TILE, 1, KEY_TILE,
                        grad, columns_, s.mixed + h * KEY_TILE * columns_, columns_);
        }
    }

    // -sum ds |w|^2. The ds of a row add up to zero but for the rounding of its outputs; what is
    // left over of them is taken out again, as if it had been spread like the weights.
    void finish_weights(std::vector<std::unique_ptr<Scratch>>& scratch) {
        std::vector<double> grad(p_.heads * G::K);
        for (int64_t c = 0; c < p_.batch * p_.heads * p_.queries; c++) {
            double sums[SUMS] = {};
            for (auto& s : scratch)
                for (int m = 0; m < SUMS; m++) sums[m] += s->totals[c * SUMS + m];
            const int64_t h = c / p_.queries % p_.heads;
            for (int m = 0; m < G::K; m++)
                grad[h * G::K + m] -= sums[1 + m] - sums[0] * sums[1 + G::K + m];
        }
        for (int64_t i = 0; i < p_.heads * G::K; i++) g_.weights_grad[i] = (float)grad[i];
    }

    void finish(Scratch& s, int64_t b, int64_t start, int64_t n) {
        for (int64_t h = 0; h < p_.heads; h++)
            for (int64_t j = 0; j < n; j++)
                memcpy(g_.values_grad + ((b * p_.heads + h) * p_.keys + start + j) * p_.width,
                       s.mixed + (h * KEY_TILE + j) * columns_, p_.width * sizeof(float));
        if (!g_.k_grad || !POSES) return;
        for (int64_t j = 0; j < n; j++) {
            const int64_t at = (b * p_.keys + start + j) * G::M * G::M;
            G::unpack_key(p_.k_poses + at, s.keys_total + j, KEY_TILE, g_.k_grad + at);
        }
    }

    const LieattnProblem& p_;
    Packed<G>& packed_;
    const Boxes<G>* const boxes_;
    const PairTerms terms_;
    const LieattnGradients& g_;
    const typename G::Limits limits_;
    const int64_t tile_, rows_, columns_;
    Buffer inner_;  // [B, H, Nq], of mixed values with their gradients
};

}  // namespace lieattn
