// The kernel's two entries, for every group. Compiled once for each kind of machine.
#pragma once

#include "aff2.h"
#include "aff3.h"
#include "backward.h"
#include "rigid3.h"

namespace lieattn {

constexpr int DONE = 0, UNFIT = 1, UNKNOWN_GROUP = 2, NO_MEMORY = 3;

inline int64_t pruned_rows(const LieattnProblem& p) { return std::min(query_tile(p), PRUNED_ROWS); }

template <class G>
int pruned_forward(LieattnProblem& p, float* out, float* coords, float* normaliser) {
    const Sorted<G> sorted(p, PRUNED_TILE, pruned_rows(p));
    const LieattnProblem& s = sorted.problem;
    Packed<G> packed(s);
    const bool some_unfit = packed.report(p.unfit);
    const Boxes<G> boxes(s, packed, pruned_rows(p));
    const int64_t rows = p.batch * p.heads * p.queries;
    Buffer o(rows * p.width), c(rows * G::D), n(rows * 3);
    p.pruned = Forward<G>(s, packed, o, c, n, &boxes, &sorted).run(threads_for(p));
    sorted.scatter(o, sorted.queries, p.heads, p.width, out);
    sorted.scatter(c, sorted.queries, p.heads, G::D, coords);
    sorted.scatter(n, sorted.queries, p.heads, 3, normaliser);
    return some_unfit ? UNFIT : DONE;
}

template <class G>
int forward(LieattnProblem& p, float* out, float* coords, float* normaliser) try {
    p.pruned = 0;
    if constexpr (G::K == 2)
        if (may_prune<G>(p)) return pruned_forward<G>(p, out, coords, normaliser);
    Packed<G> packed(p);
    const bool some_unfit = packed.report(p.unfit);
    Forward<G>(p, packed, out, coords, normaliser).run(threads_for(p));
    return some_unfit ? UNFIT : DONE;
} catch (const std::bad_alloc&) {
    return NO_MEMORY;
}

template <class G>
void run_backward(const LieattnProblem& p, Packed<G>& packed, const LieattnGradients& g,
                  const Boxes<G>* boxes = nullptr, const Sorted<G>* sorted = nullptr) {
    if (g.q_grad || g.k_grad)
        Backward<G, true>(p, packed, g, boxes, sorted).run(threads_for(p));
    else
        Backward<G, false>(p, packed, g, boxes, sorted).run(threads_for(p));
}

template <class G>
int pruned_backward(LieattnProblem& p, LieattnGradients& g) {
    const Sorted<G> sorted(p, PRUNED_TILE, pruned_rows(p));
    const LieattnProblem& s = sorted.problem;
    Packed<G> packed(s);
    const bool some_unfit = packed.report(p.unfit);
    const Boxes<G> boxes(s, packed, pruned_rows(p));
    const std::vector<int64_t>&queries = sorted.queries, &keys = sorted.keys;
    const int64_t rows = p.batch * p.heads * p.queries, size = G::M * G::M;
    Buffer out(rows * p.width), coords(rows * G::D), normaliser(rows * 3);
    Buffer out_grad(rows * p.width), coords_grad(rows * G::D);
    sorted.gather(g.out, queries, p.heads, p.width, out);
    sorted.gather(g.coords, queries, p.heads, G::D, coords);
    sorted.gather(g.normaliser, queries, p.heads, 3, normaliser);
    sorted.gather(g.out_grad, queries, p.heads, p.width, out_grad);
    sorted.gather(g.coords_grad, queries, p.heads, G::D, coords_grad);
    Buffer values_grad(p.batch * p.heads * p.keys * p.width);
    Buffer q_grad(g.q_grad ? p.batch * p.queries * size : 0);
    Buffer k_grad(g.k_grad ? p.batch * p.keys * size : 0);
    if (g.q_grad) sorted.gather(g.q_grad, queries, 1, size, q_grad);
    if (g.k_grad) sorted.gather(g.k_grad, keys, 1, size, k_grad);
    LieattnGradients d = g;
    d.out = out, d.coords = coords, d.normaliser = normaliser;
    d.out_grad = out_grad, d.coords_grad = coords_grad, d.values_grad = values_grad;
    if (g.q_grad) d.q_grad = q_grad;
    if (g.k_grad) d.k_grad = k_grad;
    run_backward(s, packed, d, &boxes, &sorted);
    sorted.scatter(values_grad, keys, p.heads, p.width, g.values_grad);
    if (g.q_grad) sorted.scatter(q_grad, queries, 1, size, g.q_grad);
    if (g.k_grad) sorted.scatter(k_grad, keys, 1, size, g.k_grad);
    return some_unfit ? UNFIT : DONE;
}

template <class G>
int backward(LieattnProblem& p, LieattnGradients& g) try {
    if constexpr (G::K == 2)
        if (may_prune<G>(p)) return pruned_backward<G>(p, g);
    Packed<G> packed(p);
    const bool some_unfit = packed.report(p.unfit);
    run_backward<G>(p, packed, g);
    return some_unfit ? UNFIT : DONE;
} catch (const std::bad_alloc&) {
    return NO_MEMORY;
}

}  // namespace lieattn

#define LIEATTN_EVERY_GROUP(CALL)                           \
    switch (problem->group) {                               \
        case 0: return CALL(lieattn::Rigid2<false>);        \
        case 1: return CALL(lieattn::Rigid2<true>);         \
        case 2: return CALL(lieattn::Rigid3<false>);        \
        case 3: return CALL(lieattn::Rigid3<true>);         \
        case 4: return CALL(lieattn::Aff2);                 \
        case 5: return CALL(lieattn::Aff3);                 \
    }                                                       \
    return lieattn::UNKNOWN_GROUP;

extern "C" {

int lieattn_forward(LieattnProblem* problem, float* out, float* coords, float* normaliser) {
#define CALL(G) lieattn::forward<G>(*problem, out, coords, normaliser)
    LIEATTN_EVERY_GROUP(CALL)
#undef CALL
}

int lieattn_backward(LieattnProblem* problem, LieattnGradients* gradients) {
#define CALL(G) lieattn::backward<G>(*problem, *gradients)
    LIEATTN_EVERY_GROUP(CALL)
#undef CALL
}
}
