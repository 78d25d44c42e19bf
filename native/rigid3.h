// SO(3) and SE(3), by unit quaternions: no transcendental function is needed for a pair.
#pragma once

#include "rigid2.h"

namespace lieattn {

template <bool MOVES>
struct Rigid3 {
    static constexpr int D = MOVES ? 6 : 3, K = MOVES ? 2 : 1, M = MOVES ? 4 : 3;
    static constexpr int BLOCK[6] = {0, 0, 0, 1, 1, 1};
    static constexpr int ROTATION = MOVES ? 3 : 0;  // where its coordinates begin
    // quaternion high and low (8), matrix (9), translation (3)
    static constexpr int QUERY = MOVES ? 20 : 17, KEY = MOVES ? 20 : 17;
    using Query = Widened<QUERY>;
    static constexpr int QUERY_GRAD = MOVES ? 12 : 9, KEY_GRAD = MOVES ? 12 : 9;
    static constexpr bool ALWAYS_CHECKED = false, MOVES_ = MOVES;
    static constexpr float HALF = 0.5f / SQRT2;  // of V^-1, for coordinates sqrt(2) times the angle

    struct Limits {
        float square;  // of the rotation's coordinates
        explicit Limits(double margin)
            : square(margin < PI ? (float)(2 * (PI - margin) * (PI - margin)) : 0) {}
    };

    static bool fits(const Extent&) { return true; }

    static bool pack_key(const float* g, float* out, int64_t stride, Extent&) {
        double r[9], q[4];
        for (int i = 0; i < 9; i++) r[i] = g[i / 3 * M + i % 3];
        if (!nearest_rotation(r)) return false;
        quaternion(r, q);
        for (int i = 0; i < 4; i++) {
            const Split part(q[i]);
            out[i * stride] = part.high;
            out[(4 + i) * stride] = part.low;
        }
        for (int i = 0; i < 9; i++) out[(8 + i) * stride] = g[i / 3 * M + i % 3];
        if (MOVES)
            for (int i = 0; i < 3; i++) out[(17 + i) * stride] = g[4 * i + 3];
        return true;
    }

    static bool pack_query(const float* g, float* out, Extent& extent) {
        if (!pack_key(g, out, 1, extent)) return false;
        const double c = out[0], x = out[1], y = out[2], z = out[3];
        const double lc = out[4], lx = out[5], ly = out[6], lz = out[7];
        out[4] = (float)-(c * lx - x * lc - y * lz + z * ly);
        out[5] = (float)-(c * ly - y * lc - z * lx + x * lz);
        out[6] = (float)-(c * lz - z * lc - x * ly + y * lx);
        return true;
    }

    // Angle over |v| times sqrt 2, 2 acos(c) sqrt(2 / (1 - c^2)), in powers of 1 - c, and the
    // second-order coefficient of V^-1 in these coordinates: both by tools/fit_series.py.
    static constexpr float RATIO[] = {2.8284271f, 0.942814834f, 0.376934788f, 0.163985986f, 0.0570309615f,
                                     0.0850201887f, -0.0949022091f, 0.144181218f, -0.0921832165f,
                                     0.0315732348f};
    static constexpr float SECOND[] = {0.0416666679f, 0.00555542251f, 0.001987617f, 0.000776477973f, 0.000522318005f, -0.000302831701f, 0.000770707382f, -0.000541004643f, 0.00022521599f};

    struct Early {
        vf c, x, y, z, rest;        // quaternion with c >= 0, and 1 - c
        vf f, k, slope;             // its two polynomials, k'
        vf dx, dy, dz, tx, ty, tz;  // t_j - t_i, and seen from i
    };
    struct Late {
        vf ox, oy, oz;              // coordinates of the rotation, f (x, y, z)
        vf ax, ay, az, bx, by, bz;  // o x t, o x (o x t)
    };
    struct State : Early, Late {};

    template <bool CHECK, bool GRAD, class Q>
    LIEATTN_INLINE vi log(const Q& q, const float* k, int64_t n, const Limits& limits, vf* w,
                          State& s) {
        first<GRAD>(q, k, n, limits, s);
        stage<0>(s);
        if (GRAD) s.k = horner(SECOND, s.rest), s.slope = slope(SECOND, s.rest);
        last(s, s);
        assemble(s, s, w);
        return CHECK ? valid(s, w, limits) : (vi)(vi{} - 1);
    }

    // As for Aff(n), loops over several vectors take a stage at a time.
    static constexpr int STAGED = 8, STAGES = 1;

    template <bool GRAD, class Q>
    LIEATTN_INLINE void first(const Q& q, const float* k, int64_t n, const Limits&, Early& s) {
        vf c0 = load(k), x0 = load(k + n), y0 = load(k + 2 * n), z0 = load(k + 3 * n);
        vf dot = fma(q[0], c0, three(q[1], x0, q[2], y0, q[3], z0));
        // The quaternion of the key with the sign that brings it near; then its difference to the
        // query's, which keeps the digits of a small turn. q[4] to q[6] are what the low parts of
        // the query add to the result.
        vf sign = with_sign(splat(1.0f), dot);
        vf c = fma(sign, load(k + 4 * n), fma(sign, c0, splat(-q[0])));
        vf x = fma(sign, load(k + 5 * n), fma(sign, x0, splat(-q[1])));
        vf y = fma(sign, load(k + 6 * n), fma(sign, y0, splat(-q[2])));
        vf z = fma(sign, load(k + 7 * n), fma(sign, z0, splat(-q[3])));
        s.x = fma(q[0], x, fma(-q[1], c, fma(-q[2], z, fma(q[3], y, splat(q[4])))));
        s.y = fma(q[0], y, fma(-q[2], c, fma(-q[3], x, fma(q[1], z, splat(q[5])))));
        s.z = fma(q[0], z, fma(-q[3], c, fma(-q[1], y, fma(q[2], x, splat(q[6])))));
        s.rest = fma(-sign, dot, splat(1.0f));
        if (GRAD) s.c = abs(dot);
        if (!MOVES) return;
        vf dx = load(k + 17 * n) - q[17], dy = load(k + 18 * n) - q[18], dz = load(k + 19 * n) - q[19];
        if (GRAD) s.dx = dx, s.dy = dy, s.dz = dz;
        s.tx = three(q[8], dx, q[11], dy, q[14], dz);
        s.ty = three(q[9], dx, q[12], dy, q[15], dz);
        s.tz = three(q[10], dx, q[13], dy, q[16], dz);
    }

    template <int number>
    LIEATTN_INLINE void stage(Early& s) {
        s.f = horner(RATIO, s.rest);
        if (MOVES) s.k = horner(SECOND, s.rest);
    }

    LIEATTN_INLINE void last(const Early& s, Late& l) {
        l.ox = s.f * s.x, l.oy = s.f * s.y, l.oz = s.f * s.z;
        if (!MOVES) return;
        l.ax = difference(l.oy, s.tz, l.oz, s.ty);
        l.ay = difference(l.oz, s.tx, l.ox, s.tz);
        l.az = difference(l.ox, s.ty, l.oy, s.tx);
        l.bx = difference(l.oy, l.az, l.oz, l.ay);
        l.by = difference(l.oz, l.ax, l.ox, l.az);
        l.bz = difference(l.ox, l.ay, l.oy, l.ax);
    }

    LIEATTN_INLINE void assemble(const Early& s, const Late& l, vf* w) {
        w[ROTATION] = l.ox, w[ROTATION + 1] = l.oy, w[ROTATION + 2] = l.oz;
        if (!MOVES) return;
        w[0] = fma(s.k, l.bx, fma(-HALF, l.ax, s.tx));
        w[1] = fma(s.k, l.by, fma(-HALF, l.ay, s.ty));
        w[2] = fma(s.k, l.bz, fma(-HALF, l.az, s.tz));
    }

    LIEATTN_INLINE vi valid(const Early&, const vf* w, const Limits& limits) {
        const vf* omega = w + ROTATION;
        vf square = three(omega[0], omega[0], omega[1], omega[1], omega[2], omega[2]);
        return (vi)(square < limits.square);
    }

    // Adds to the gradients of a query (lane by lane) and of the keys, both of matrix entries. The
    // gradient is that of the reference off the group too: there the quaternion is read from the
    // column of the matrix 4 q q^T with the largest pivot.
    LIEATTN_INLINE void backward(const float* q, const float* k, int64_t n, const State& s,
                                 const vf* gw, vf* gq, float* gk, int64_t stride) {
        vf gx = gw[ROTATION], gy = gw[ROTATION + 1], gz = gw[ROTATION + 2];
        vf gc = {};
        vf tau_x, tau_y, tau_z;
        if (MOVES) {
            vf ux = gw[0], uy = gw[1], uz = gw[2];
            vf cx = s.oy * uz - s.oz * uy, cy = s.oz * ux - s.ox * uz, cz = s.ox * uy - s.oy * ux;
            vf ex = s.oy * cz - s.oz * cy, ey = s.oz * cx - s.ox * cz, ez = s.ox * cy - s.oy * cx;
            tau_x = ux + HALF * cx + s.k * ex;
            tau_y = uy + HALF * cy + s.k * ey;
            tau_z = uz + HALF * cz + s.k * ez;
            vf ot = s.ox * s.tx + s.oy * s.ty + s.oz * s.tz;
            vf ou = s.ox * ux + s.oy * uy + s.oz * uz;
            vf ut = 2.0f * (ux * s.tx + uy * s.ty + uz * s.tz);
            gx += s.k * (ux * ot + s.tx * ou - s.ox * ut) - HALF * (s.ty * uz - s.tz * uy);
            gy += s.k * (uy * ot + s.ty * ou - s.oy * ut) - HALF * (s.tz * ux - s.tx * uz);
            gz += s.k * (uz * ot + s.tz * ou - s.oz * ut) - HALF * (s.tx * uy - s.ty * ux);
            gc = -s.slope * (ux * s.bx + uy * s.by + uz * s.bz);  // the slope is in 1 - c
        }
        // From coordinates f (x, y, z) to the quaternion; f' = -2 sqrt(2) k f^2.
        gc -= 2.0f * SQRT2 * s.k * s.f * (s.ox * gx + s.oy * gy + s.oz * gz);
        gx *= s.f, gy *= s.f, gz *= s.f;
        vf along = s.c * gc + s.x * gx + s.y * gy + s.z * gz;
        gc -= s.c * along, gx -= s.x * along, gy -= s.y * along, gz -= s.z * along;
        // The pivot: c, or the largest of x, y, z.
        vf xx = s.x * s.x, yy = s.y * s.y, zz = s.z * s.z, cc = s.c * s.c;
        vi by_x = (xx >= yy) & (xx >= zz), by_y = ~by_x & (yy >= zz), by_z = ~by_x & ~by_y;
        vf top = select(by_x, s.x, select(by_y, s.y, s.z));
        vi turned = top * top > cc;
        vf pivot = select(turned, top, s.c);
        vf vv = xx + yy + zz;
        vf safe = select(turned, vv, splat(1.0f));
        vf inverse = 1.0f / (4.0f * pivot * safe);
        vf by_pivot = inverse * safe;
        vf by_vv = 4.0f * inverse * pivot;
        gc *= by_pivot, gx *= by_pivot, gy *= by_pivot, gz *= by_pivot;
        vf skew = gc * top * by_vv, back = gc * s.c * by_vv, extra = 4.0f * gc * s.c * by_pivot;
        vf sx = select(turned, skew * s.x, gx);
        vf sy = select(turned, skew * s.y, gy);
        vf sz = select(turned, skew * s.z, gz);
        vi tx = turned & by_x, ty = turned & by_y, tz = turned & by_z;
        const vf zero = {};
        vf hx = gx - back * s.x + select(by_x, extra, zero);
        vf hy = gy - back * s.y + select(by_y, extra, zero);
        vf hz = gz - back * s.z + select(by_z, extra, zero);
        // p h^T + h p^T - (h.p) I for the unit vector p of the pivot.
        vf px = select(tx, hx, zero), py = select(ty, hy, zero), pz = select(tz, hz, zero);
        vf trace = select(turned, -(px + py + pz), gc);
        vf g00 = trace + 2.0f * px, g11 = trace + 2.0f * py, g22 = trace + 2.0f * pz;
        vf xy = select(tx, hy, zero) + select(ty, hx, zero);
        vf yz = select(ty, hz, zero) + select(tz, hy, zero);
        vf zx = select(tz, hx, zero) + select(tx, hz, zero);
        vf g01 = xy - sz, g10 = xy + sz;
        vf g12 = yz - sx, g21 = yz + sx;
        vf g20 = zx - sy, g02 = zx + sy;
        for (int r = 0; r < 3; r++) {
            const float* a = q + 8 + 3 * r;  // row r of A_i, times G
            float* out = gk + 3 * r * stride;
            store(out, load(out) + a[0] * g00 + a[1] * g10 + a[2] * g20);
            out += stride;
            store(out, load(out) + a[0] * g01 + a[1] * g11 + a[2] * g21);
            out += stride;
            store(out, load(out) + a[0] * g02 + a[1] * g12 + a[2] * g22);
            const float* row = k + (8 + 3 * r) * n;  // row r of A_j, times G^T
            vf b0 = load(row), b1 = load(row + n), b2 = load(row + 2 * n);
            gq[3 * r] += b0 * g00 + b1 * g01 + b2 * g02;
            gq[3 * r + 1] += b0 * g10 + b1 * g11 + b2 * g12;
            gq[3 * r + 2] += b0 * g20 + b1 * g21 + b2 * g22;
        }
        if (MOVES) {
            gq[0] += s.dx * tau_x, gq[1] += s.dx * tau_y, gq[2] += s.dx * tau_z;
            gq[3] += s.dy * tau_x, gq[4] += s.dy * tau_y, gq[5] += s.dy * tau_z;
            gq[6] += s.dz * tau_x, gq[7] += s.dz * tau_y, gq[8] += s.dz * tau_z;
            for (int r = 0; r < 3; r++) {
                const float* a = q + 8 + 3 * r;
                vf m = a[0] * tau_x + a[1] * tau_y + a[2] * tau_z;
                gq[9 + r] -= m;
                float* out = gk + (9 + r) * stride;
                store(out, load(out) + m);
            }
        }
    }

    static void unpack_key(const float*, const float* acc, int64_t stride, float* out) {
        for (int i = 0; i < 9; i++) out[i / 3 * M + i % 3] += acc[i * stride];
        if (MOVES)
            for (int i = 0; i < 3; i++) out[4 * i + 3] += acc[(9 + i) * stride];
    }

    static void unpack_query(const float* g, const float* acc, float* out) {
        unpack_key(g, acc, 1, out);
    }

   private:
    // Two Newton steps, from a matrix that is nearly one.
    static bool nearest_rotation(double* r) {
        for (int step = 0; step < 3; step++) {
            double gram[9], next[9], off = 0;
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 3; j++) {
                    double e = r[i] * r[j] + r[3 + i] * r[3 + j] + r[6 + i] * r[6 + j] - (i == j);
                    gram[3 * i + j] = e;
                    off += std::fabs(e);
                }
            if (step == 0) {
                const double det = r[0] * (r[4] * r[8] - r[5] * r[7]) -
                                   r[1] * (r[3] * r[8] - r[5] * r[6]) +
                                   r[2] * (r[3] * r[7] - r[4] * r[6]);
                if (!(off < ORTHOGONAL) || !(det > 0)) return false;
            }
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 3; j++) {
                    double e = 0;
                    for (int l = 0; l < 3; l++) e += r[3 * i + l] * gram[3 * l + j];
                    next[3 * i + j] = r[3 * i + j] - 0.5 * e;
                }
            memcpy(r, next, sizeof next);
        }
        return true;
    }

    // (w, x, y, z) from the largest pivot.
    static void quaternion(const double* r, double* q) {
        const double square[4] = {1 + r[0] + r[4] + r[8], 1 + r[0] - r[4] - r[8],
                                  1 - r[0] + r[4] - r[8], 1 - r[0] - r[4] + r[8]};
        int p = 0;
        for (int i = 1; i < 4; i++) p = square[i] > square[p] ? i : p;
        const double wx = r[7] - r[5], wy = r[2] - r[6], wz = r[3] - r[1];
        const double xy = r[3] + r[1], yz = r[7] + r[5], zx = r[2] + r[6];
        const double column[4][4] = {{square[0], wx, wy, wz},
                                     {wx, square[1], xy, zx},
                                     {wy, xy, square[2], yz},
                                     {wz, zx, yz, square[3]}};
        double norm = 0;
        for (int i = 0; i < 4; i++) norm += column[p][i] * column[p][i];
        for (int i = 0; i < 4; i++) q[i] = column[p][i] / std::sqrt(norm);
    }
};

}  // namespace lieattn
