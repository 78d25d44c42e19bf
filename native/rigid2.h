// SO(2) and SE(2). A rotation is its angle, so that a pair's angle is a difference.
//
// Angles are whole numbers of 2^-32 turns and a remainder: differences of integers wrap around by
// themselves and are exact, and the remainder keeps the digits of small ones.
#pragma once

#include <cmath>

#include "extent.h"
#include "simd.h"

namespace lieattn {

constexpr double PI = 3.14159265358979323846;
constexpr float SQRT2 = 1.41421356237309515f;
constexpr double STEP = PI * 0x1p-31;
constexpr double ORTHOGONAL = 1e-3;  // poses farther from a rotation are not for this kernel

// A double as a float and what the float leaves over: differences keep all their digits.
struct Split {
    float high, low;
    explicit Split(double x) : high((float)x), low((float)(x - (double)(float)x)) {}
};

template <bool MOVES>
struct Rigid2 {
    static constexpr int D = MOVES ? 3 : 1, K = MOVES ? 2 : 1, M = MOVES ? 3 : 2;
    static constexpr int BLOCK[3] = {0, 0, 1};
    static constexpr int QUERY = MOVES ? 8 : 2, KEY = MOVES ? 4 : 2;
    using Query = Widened<QUERY>;
    static constexpr int QUERY_GRAD = MOVES ? 7 : 1, KEY_GRAD = MOVES ? 3 : 1;
    static constexpr bool ALWAYS_CHECKED = false, MOVES_ = MOVES;
    static constexpr int STAGED = 0;

    struct Limits {
        float angle;
        explicit Limits(double margin) : angle(margin < PI ? (float)(PI - margin) : 0) {}
    };

    static bool fits(const Extent&) { return true; }

    static bool pack_key(const float* g, float* out, int64_t stride, Extent&) {
        const double a = g[0], b = g[1], c = g[M], d = g[M + 1];
        const double off = std::fabs(a * a + c * c - 1) + std::fabs(b * b + d * d - 1) +
                           std::fabs(a * b + c * d) + std::fabs(a * d - b * c - 1);
        if (!(off < ORTHOGONAL)) return false;  // NaN too
        const double angle = std::atan2(c - b, a + d), steps = std::nearbyint(angle / STEP);
        const int32_t whole = (int32_t)(uint32_t)(int64_t)steps;  // pi and -pi are one
        memcpy(out, &whole, sizeof whole);
        out[stride] = (float)(angle - steps * STEP);
        if (MOVES) {
            out[2 * stride] = g[2];
            out[3 * stride] = g[5];
        }
        return true;
    }

    static bool pack_query(const float* g, float* out, Extent& extent) {
        if (!pack_key(g, out, 1, extent)) return false;
        if (MOVES) {
            out[4] = g[0], out[5] = g[1];
            out[6] = g[3], out[7] = g[4];
        }
        return true;
    }

    struct State {
        vf angle, x, y, dx, dy, half_cot, slope;
    };

    template <bool CHECK, bool GRAD, class Q>
    LIEATTN_INLINE vi log(const Q& q, const float* k, int64_t stride, const Limits& limits,
                          vf* w, State& s) {
        vi steps = (vi)((vu)load(k) - (vu)splat(q[0]));  // unsigned numbers wrap around
        vf count = __builtin_convertvector(steps, vf);
        vf angle = fma(count, (float)(STEP - (float)STEP), load(k + stride) - q[1]);
        angle = fma(count, (float)STEP, angle);
        s.angle = angle;
        w[D - 1] = SQRT2 * angle;
        if (MOVES) {
            s.dx = load(k + 2 * stride) - q[2];
            s.dy = load(k + 3 * stride) - q[3];
            s.x = two(q[4], s.dx, q[6], s.dy);
            s.y = two(q[5], s.dx, q[7], s.dy);
            // h cot h of half the angle, in powers of the square of the angle (tools/fit_series.py).
            const float c[] = {1.0f,          -0.83333369893e-1f, -0.13888118746e-2f,
                               -0.33130007729e-4f, -0.80312382277e-6f, -0.25714501044e-7f,
                               -0.11046821311e-12f, -0.40581441678e-10f};
            vf square = angle * angle;
            s.half_cot = horner(c, square);
            if (GRAD) s.slope = slope(c, square);
            vf half = 0.5f * angle;
            w[0] = two(s.half_cot, s.x, half, s.y);
            w[1] = difference(s.half_cot, s.y, half, s.x);
        }
        return CHECK ? (vi)(abs(angle) < limits.angle) : (vi)(vi{} - 1);
    }

    // Adds to the gradients of a query (lane by lane) and of the keys.
    LIEATTN_INLINE void backward(const float* q, const float*, int64_t, const State& s,
                                 const vf* gw, vf* gq, float* gk, int64_t stride) {
        vf turn = SQRT2 * gw[D - 1];
        if (MOVES) {
            vf half = 0.5f * s.angle;
            turn += 2.0f * s.angle * s.slope * (gw[0] * s.x + gw[1] * s.y);
            turn += 0.5f * (gw[0] * s.y - gw[1] * s.x);
            vf tx = s.half_cot * gw[0] - half * gw[1];
            vf ty = s.half_cot * gw[1] + half * gw[0];
            vf mx = q[4] * tx + q[5] * ty, my = q[6] * tx + q[7] * ty;
            gq[1] -= mx, gq[2] -= my;
            gq[3] += s.dx * tx, gq[4] += s.dx * ty;
            gq[5] += s.dy * tx, gq[6] += s.dy * ty;
            store(gk + stride, load(gk + stride) + mx);
            store(gk + 2 * stride, load(gk + 2 * stride) + my);
        }
        gq[0] -= turn;
        store(gk, load(gk) + turn);
    }

    // Gradient of a pose from what was added up for it: the angle's is (turn / 2) J A.
    static void turned(const float* g, float turn, float* out) {
        const float half = 0.5f * turn;
        out[0] -= half * g[M], out[1] -= half * g[M + 1];
        out[M] += half * g[0], out[M + 1] += half * g[1];
    }

    static void unpack_key(const float* g, const float* acc, int64_t stride, float* out) {
        turned(g, acc[0], out);
        if (MOVES) out[2] += acc[stride], out[5] += acc[2 * stride];
    }

    static void unpack_query(const float* g, const float* acc, float* out) {
        turned(g, acc[0], out);
        if (MOVES) {
            out[2] += acc[1], out[5] += acc[2];
            out[0] += acc[3], out[1] += acc[4];
            out[3] += acc[5], out[4] += acc[6];
        }
    }
};

}  // namespace lieattn
