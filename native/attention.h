// The kernel's two entries, for every group. Compiled once for each kind of machine.
#pragma once

#include "aff2.h"
#include "aff3.h"
#include "backward.h"
#include "rigid3.h"

namespace lieattn {

constexpr int64_t WORTH_A_THREAD = 1 << 16;  // pairs times heads

inline int64_t threads_for(const LieattnProblem& p) {
    const double work = (double)p.batch * p.queries * p.keys * p.heads / WORTH_A_THREAD;
    const int64_t useful = work < 1 ? 1 : work < 1024 ? (int64_t)work : 1024;
    return p.threads < 1 ? 1 : p.threads < useful ? p.threads : useful;
}

constexpr int DONE = 0, UNFIT = 1, UNKNOWN_GROUP = 2, NO_MEMORY = 3;

template <class G>
int forward(LieattnProblem& p, float* out, float* coords, float* normaliser) try {
    Packed<G> packed(p);
    if (!packed.ok()) return UNFIT;
    Forward<G>(p, packed, out, coords, normaliser).run(threads_for(p));
    return DONE;
} catch (const std::bad_alloc&) {
    return NO_MEMORY;
}

template <class G>
int backward(LieattnProblem& p, LieattnGradients& g) try {
    Packed<G> packed(p);
    if (!packed.ok()) return UNFIT;
    if (g.q_grad || g.k_grad)
        Backward<G, true>(p, packed, g).run(threads_for(p));
    else
        Backward<G, false>(p, packed, g).run(threads_for(p));
    return DONE;
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
