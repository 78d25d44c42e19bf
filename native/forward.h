// sum_j a_ij v_j, sum_j a_ij w_ij and the normaliser of the weights, tile by tile.
//
// The normaliser of a row is its largest logit, 1 / sum of weights, and how far it looked: keys in
// tiles farther away than the root of that were left out.
#pragma once

#include <type_traits>

#include "pruning.h"

namespace lieattn {

constexpr int64_t KEY_TILE = 256;
constexpr float SMALLEST_TOTAL = 1e-21f;    // of weights without a maximum
constexpr int POOLED = 4;  // vectors at a time: exponentials are chains of steps
constexpr int64_t WEIGHTS_BYTES = 1 << 18;  // of the weights of a tile: they stay in the cache

inline int64_t query_tile(const LieattnProblem& p) {
    const int64_t heads = p.heads > 0 ? p.heads : 1, most = padded(p.queries, ROWS);
    int64_t rows = WEIGHTS_BYTES / (4 * KEY_TILE * heads) / ROWS * ROWS;
    rows = rows > 32 ? 32 : rows > most ? most : rows;
    return rows < ROWS ? ROWS : rows;
}

template <class G>
class Forward {
   public:
    // `boxes` are given where tiles may be left out, and queries and keys are `sorted` then.
    Forward(const LieattnProblem& p, Packed<G>& packed, float* out, float* coords,
            float* normaliser, const Boxes<G>* boxes = nullptr, const Sorted<G>* sorted = nullptr)
        : p_(p),
          packed_(packed),
          boxes_(boxes),
          terms_(pair_terms(p, sorted)),
          limits_(p.margin),
          out_(out),
          coords_(coords),
          normaliser_(normaliser),
          careful_(p.bias || packed.negative_weights() || p.keys <= LANES),
          rows_(boxes ? boxes->rows() : query_tile(p)),
          columns_(padded(p.width, LANES)) {}

    // How many pairs, times heads, were left out.
    int64_t run(int64_t threads) {
        const int64_t blocks = (p_.queries + rows_ - 1) / rows_;
        std::vector<std::unique_ptr<Scratch>> scratch(threads);
        for (auto& s : scratch) s.reset(new Scratch(*this));
        std::vector<std::atomic<Way>> ways(p_.batch * blocks);
        for (auto& way : ways) way = UNKNOWN;
        parallel(p_.batch * blocks, threads, p_.team, [&](int64_t item, int64_t thread) {
            if (!packed_.fit(item / blocks)) return;
            bool careful = careful_;
            // As an earlier block of the set ended, which was begun before: it depends on no
            // thread's speed, and on no other set.
            if (!careful && item % blocks >= BEFORE) {
                Way way;
                while ((way = ways[item - BEFORE].load()) == UNKNOWN) std::this_thread::yield();
                careful = way == CAREFUL;
            }
            careful = block(*scratch[thread], item / blocks, item % blocks * rows_, careful);
            ways[item] = careful ? CAREFUL : QUICK;
        });
        int64_t pruned = 0;
        for (auto& s : scratch) pruned += s->pruned;
        return pruned;
    }

   private:
    enum Way : char { UNKNOWN, QUICK, CAREFUL };
    static constexpr int64_t BEFORE = 16;  // more than there are threads at work, mostly

    struct Scratch {
        explicit Scratch(const Forward& f)
            : p(f.p_.heads * f.rows_ * KEY_TILE),
              mixed(f.p_.heads * f.rows_ * f.columns_),
              pooled(f.p_.heads * f.rows_ * G::D * LANES),
              total(f.p_.heads * f.rows_ * LANES),
              top(f.p_.heads * f.rows_),
              scale(f.p_.heads * f.rows_),
              values(f.columns_ == f.p_.width ? 0 : KEY_TILE * f.columns_),
              w(G::D * KEY_TILE),
              norms(G::K * KEY_TILE),
              logits(KEY_TILE),
              reach(f.p_.heads) {}
        Buffer p;       // [H, rows, KEY_TILE] weights of the tile, not yet normalised
        Buffer mixed;   // [H, rows, columns]
        Buffer pooled;  // [H, rows, D, LANES]
        Buffer total;   // [H, rows, LANES] sums of weights
        Buffer top;     // [H, rows] largest logit so far
        Buffer scale;   // [H, rows] what a larger one makes of earlier sums
        Buffer values;  // [KEY_TILE, columns] values filled up with zeros
        Buffer w, norms, logits;
        Buffer reach;  // [H] squared, how far the block looks
        std::vector<int64_t> heads;    // that look at the tile
        Walk walk;
        int64_t left = 0, pruned = 0;  // pairs, times heads: of this block, of all
    };

    // Logits are not above zero unless there is a bias or a negative weight, and mostly not far
    // below it for a row's best key. Then weights are e^logit as they are, without a maximum; where
    // a row's sum turns out to be too small for that, the block is done again, with it. So are small
    // sets, where a query may have one key: its weight is then exactly 1. Returns whether it was so.
    bool block(Scratch& s, int64_t b, int64_t first, bool careful) {
        if (!careful && attempt<false>(s, b, first)) return false;
        attempt<true>(s, b, first);
        return true;
    }

    template <bool CAREFUL>
    bool attempt(Scratch& s, int64_t b, int64_t first) {
        const int64_t rows = p_.queries - first < rows_ ? p_.queries - first : rows_;
        const int64_t cells = p_.heads * rows_;
        memset(s.mixed, 0, cells * columns_ * sizeof(float));
        memset(s.pooled, 0, cells * G::D * LANES * sizeof(float));
        memset(s.total, 0, cells * LANES * sizeof(float));
        // Rows past the last query have no weights.
        if (rows < rows_) memset(s.p, 0, cells * KEY_TILE * sizeof(float));
        for (int64_t c = 0; c < cells; c++) s.top[c] = CAREFUL ? -INFINITE : 0;
        s.heads.resize(p_.heads);
        for (int64_t h = 0; h < p_.heads; h++) s.heads[h] = h, s.reach[h] = INFINITE;
        if (G::K == 2 && boxes_) {
            walk<CAREFUL>(s, b, first, rows);
        } else {
            for (int64_t start = 0; start < p_.keys; start += KEY_TILE)
                tile<CAREFUL>(s, b, first, rows, start, KEY_TILE);
        }
        return finish<CAREFUL>(s, b, first, rows);
    }

    // How many pairs it has, times heads.
    template <bool CAREFUL>
    int64_t tile(Scratch& s, int64_t b, int64_t first, int64_t rows, int64_t start, int64_t size) {
        const int64_t n = p_.keys - start < size ? p_.keys - start : size;
        for (int64_t r = 0; r < rows; r++) row<CAREFUL>(s, b, first + r, r, start, n);
        mix<CAREFUL>(s, b, rows, start, n);
        return (int64_t)s.heads.size() * rows * n;
    }

    // Tiles from the nearest on, until what is left weighs too little for all rows of a head.
    template <bool CAREFUL>
    void walk(Scratch& s, int64_t b, int64_t first, int64_t rows) {
        Walk& walk = s.walk;
        walk.plan(*boxes_, p_, b, first);
        s.left = p_.heads * rows * p_.keys;
        for (int64_t k = 0; k < walk.size() && !s.heads.empty(); k++) {
            s.left -= tile<CAREFUL>(s, b, first, rows, walk.start(k), PRUNED_TILE);
            if (!walk.may_end(k + 1)) continue;
            auto ended = [&](int64_t h) {
                const double rest = walk.rest(packed_.weights(h), h, k + 1);
                if (!outweighed<CAREFUL>(s, h, rows, rest)) return false;
                s.reach[h] = walk.distance(k);
                return true;
            };
            s.heads.erase(std::remove_if(s.heads.begin(), s.heads.end(), ended), s.heads.end());
        }
    }

    // Whether the logarithm `rest` of what is left is below the share of it that may be left out.
    template <bool CAREFUL>
    bool outweighed(Scratch& s, int64_t h, int64_t rows, double rest) {
        const double enough = rest - std::log(p_.prune) + ROUNDING;
        for (int64_t cell = h * rows_; cell < h * rows_ + rows; cell++) {
            const float total = sum(load(s.total + cell * LANES));
            // Sums below are done again, see `finish`, or are rounded up, see `pool`.
            if (!CAREFUL && !(total > SMALLEST_TOTAL)) return false;
            if (!(s.top[cell] + std::log(total) >= enough)) return false;
        }
        return true;
    }

    // The weights of one query on a tile of keys, and the coordinates they pool.
    template <bool CAREFUL>
    void row(Scratch& s, int64_t b, int64_t i, int64_t r, int64_t start, int64_t n) {
        const int64_t lanes = padded(n, LANES);
        const bool check = G::ALWAYS_CHECKED || p_.margin > 0;
        if (check)
            relate<true>(s, b, i, start, lanes);
        else
            relate<false>(s, b, i, start, lanes);
        const bool diagonal = p_.exclude_self && i >= start && i < start + lanes;
        // Lanes that do not count have no norm.
        for (int64_t v = n; v < lanes; v++) s.norms[v] = NAN;
        if (diagonal) s.norms[i - start] = NAN;
        const bool clean = !terms_.some() && packed_.all_allowed(b);
        for (const int64_t h : s.heads) {
            const int64_t cell = h * rows_ + r;
            if (!CAREFUL && clean) {
                pool<true>(s, cell, packed_.weights(h), lanes);
                if (diagonal) s.p[cell * KEY_TILE + i - start] = 0;
                continue;
            }
            vf peak = logits(s.norms, packed_.allowed(b, start), packed_.weights(h), s.logits, lanes);
            if (terms_.some()) peak = restrict(s.logits, b, h, i, start, lanes);
            s.scale[cell] = 1;
            if (CAREFUL && !raise(s, cell, largest(peak)))
                memset(s.p + cell * KEY_TILE, 0, lanes * sizeof(float));
            else
                pool<false>(s, cell, packed_.weights(h), lanes);
        }
    }

    template <bool CHECK>
    __attribute__((noinline)) void relate(Scratch& s, int64_t b, int64_t i, int64_t start,
                                          int64_t lanes) {
        // Plain pointers: a store may change no pointer that the loop would have to read again.
        float *const out = s.w, *const squares = s.norms;
        const float *const q = packed_.query(b, i), *const keys = packed_.keys(b, start);
        const int64_t stride = packed_.stride();
        const typename G::Limits limits = limits_;
        auto keep = [=](int64_t v, vi valid, vf* w) LIEATTN_INLINED {
            vf norms[G::K];
            squared_norms<G>(w, norms);
            if (CHECK) norms[0] = select(valid, norms[0], splat(NAN));  // no head attends to it
            for (int d = 0; d < G::D; d++) store(out + d * KEY_TILE + v, w[d]);
            for (int k = 0; k < G::K; k++) store(squares + k * KEY_TILE + v, norms[k]);
        };
        const typename G::Query query(q);
        if constexpr (G::STAGED > 0) {
            typename G::Early states[G::STAGED];
            typename G::Late late;
            for (int64_t v = 0; v < lanes; v += G::STAGED * LANES) {
                const int n = v + G::STAGED * LANES < lanes ? G::STAGED : (lanes - v) / LANES;
                for (int c = 0; c < n; c++)
                    G::template first<false>(query, keys + v + c * LANES, stride, limits, states[c]);
                stages<0>(states, n);
                for (int c = 0; c < n; c++) {
                    vf w[G::D];
                    G::last(states[c], late);
                    G::assemble(states[c], late, w);
                    keep(v + c * LANES, CHECK ? G::valid(states[c], w, limits) : vi{}, w);
                }
            }
        } else {
            for (int64_t v = 0; v < lanes; v += LANES) {
                vf w[G::D];
                typename G::State state;
                vi valid = G::template log<CHECK, false>(query, keys + v, stride, limits, w, state);
                keep(v, valid, w);
            }
        }
    }

    // One stage after the other, each of all vectors.
    template <int number, class Early>
    LIEATTN_INLINE void stages(Early* states, int n) {
        if constexpr (number < G::STAGES) {
            for (int c = 0; c < n; c++) G::template stage<number>(states[c]);
            stages<number + 1>(states, n);
        }
    }

    // The new largest logit of a row; false while there is none.
    bool raise(Scratch& s, int64_t cell, float peak) {
        const float before = s.top[cell], now = peak > before ? peak : before;
        s.top[cell] = now;
        if (now == -INFINITE) return false;
        if (before != now) s.scale[cell] = exp(splat(before - now))[0];
        return true;
    }

    // CLEAN: all pairs count, so that weights below e^-87 may be rounded up to it.
    template <bool CLEAN>
    __attribute__((noinline)) void pool(Scratch& s, int64_t cell, const float* weights,
                                        int64_t lanes) {
        float* const weight = s.p + cell * KEY_TILE;
        float* const sums = s.pooled + cell * G::D * LANES;
        float* const totals = s.total + cell * LANES;
        const float *const w = s.w, *const norms = s.norms, *const logits = s.logits;
        const float scale = CLEAN ? 1 : s.scale[cell], top = s.top[cell];
        vf total = scale * load(totals), pooled[G::D], factor[G::K];
        for (int d = 0; d < G::D; d++) pooled[d] = scale * load(sums + d * LANES);
        for (int k = 0; k < G::K; k++) factor[k] = splat(-weights[k]);
        auto add = [&](auto count, int64_t v) LIEATTN_INLINED {
            constexpr int n = decltype(count)::value;
            vf a[n];
            for (int i = 0; i < n; i++) {
                const int64_t at = v + i * LANES;
                if (CLEAN) {
                    vf x = load(norms + at) * factor[0];
                    for (int k = 1; k < G::K; k++)
                        x = fma(load(norms + k * KEY_TILE + at), factor[k], x);
                    a[i] = max(x, splat(SMALLEST_LOG));
                } else {
                    a[i] = load(logits + at) - top;
                }
            }
            if (CLEAN)
                exp_core(a);
            else
                exp(a);
            for (int i = 0; i < n; i++) {
                store(weight + v + i * LANES, a[i]);
                total += a[i];
                for (int d = 0; d < G::D; d++)
                    pooled[d] = fma(a[i], load(w + d * KEY_TILE + v + i * LANES), pooled[d]);
            }
        };
        int64_t v = 0;
        for (; v + POOLED * LANES <= lanes; v += POOLED * LANES)
            add(std::integral_constant<int, POOLED>(), v);
        for (; v < lanes; v += LANES) add(std::integral_constant<int, 1>(), v);
        store(totals, total);
        for (int d = 0; d < G::D; d++) store(sums + d * LANES, pooled[d]);
    }

    // -|w|^2 in the norm of a head, -infinity for keys that are not allowed; and the largest.
    LIEATTN_INLINE vf logits(const float* norms, const float* allowed, const float* weights,
                             float* out, int64_t lanes) {
        float weight[G::K];
        memcpy(weight, weights, sizeof weight);
        vf peak = splat(-INFINITE);
        for (int64_t v = 0; v < lanes; v += LANES) {
            vf x = load(allowed + v);
            for (int k = 0; k < G::K; k++) x = fma(load(norms + k * KEY_TILE + v), -weight[k], x);
            store(out + v, x);
            peak = max(x, peak);
        }
        return peak;
    }

    // Masks and biases of pairs.
    vf restrict(float* logits, int64_t b, int64_t h, int64_t i, int64_t start, int64_t lanes) {
        vf peak = splat(-INFINITE);
        for (int64_t v = 0; v < lanes; v += LANES) {
            vf x = terms_.apply(load(logits + v), b, h, i, start + v);
            store(logits + v, x);
            peak = max(x, peak);
        }
        return peak;
    }

    template <bool CAREFUL>
    void mix(Scratch& s, int64_t b, int64_t rows, int64_t start, int64_t n) {
        for (const int64_t h : s.heads) {
            const float* values = p_.values + ((b * p_.heads + h) * p_.keys + start) * p_.width;
            if (columns_ != p_.width) {
                for (int64_t j = 0; j < n; j++) {
                    float* to = s.values + j * columns_;
                    memcpy(to, values + j * p_.width, p_.width * sizeof(float));
                    memset(to + p_.width, 0, (columns_ - p_.width) * sizeof(float));
                }
                values = s.values;
            }
            for (int64_t r = 0; CAREFUL && r < rows; r++) {
                const float scale = s.scale[h * rows_ + r];
                float* mixed = s.mixed + (h * rows_ + r) * columns_;
                if (scale != 1)
                    for (int64_t c = 0; c < columns_; c += LANES)
                        store(mixed + c, scale * load(mixed + c));
            }
            add_product(padded(rows, ROWS), columns_, n, s.p + h * rows_ * KEY_TILE, KEY_TILE, 1,
                        values, columns_, s.mixed + h * rows_ * columns_, columns_);
        }
    }

    // False where a sum is so small that rounding to zero may have mattered.
    template <bool CAREFUL>
    bool finish(Scratch& s, int64_t b, int64_t first, int64_t rows) {
        for (int64_t h = 0; h < p_.heads; h++)
            for (int64_t r = 0; r < rows; r++) {
                const int64_t cell = h * rows_ + r;
                const int64_t to = (b * p_.heads + h) * p_.queries + first + r;
                const float total = sum(load(s.total + cell * LANES));
                if (!CAREFUL && !(total > SMALLEST_TOTAL)) return false;
                const float share = total > 0 ? 1 / total : 0;
                // Two numbers: one logarithm would round to a hundredth where logits are -1e5.
                normaliser_[3 * to] = total > 0 ? s.top[cell] : 0;
                normaliser_[3 * to + 1] = share;
                normaliser_[3 * to + 2] = s.reach[h];
                const float* mixed = s.mixed + cell * columns_;
                for (int64_t c = 0; c < p_.width; c++) out_[to * p_.width + c] = share * mixed[c];
                const float* pooled = s.pooled + cell * G::D * LANES;
                for (int d = 0; d < G::D; d++)
                    coords_[to * G::D + d] = share * sum(load(pooled + d * LANES));
            }
        s.pruned += s.left;
        return true;
    }

    const LieattnProblem& p_;
    Packed<G>& packed_;
    const Boxes<G>* const boxes_;
    const PairTerms terms_;
    const typename G::Limits limits_;
    float *out_, *coords_, *normaliser_;
    const bool careful_;
    const int64_t rows_, columns_;
};

}  // namespace lieattn
