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
    static constexpr int QUERY_GRAD = MOVES ? 12 : 9, KEY_GRAD = MOVES ? 12 : 9;
    static constexpr bool ALWAYS_CHECKED = false, MOVES_ = MOVES;
    static constexpr int STAGED = 0;

    struct Limits {
        float square;  // of the rotation's coordinates
        explicit Limits(double margin)
            : square(margin < PI ? (float)(2 * (PI - margin) * (PI - margin)) : 0) {}
    };

    static bool pack_key(const float* g, float* out, int64_t stride) {
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

    static bool pack_query(const float* g, float* out) {
        if (!pack_key(g, out, 1)) return false;
        const double c = out[0], x = out[1], y = out[2], z = out[3];
        const double lc = out[4], lx = out[5], ly = out[6], lz = out[7];
        out[4] = (float)-(c * lx - x * lc - y * lz + z * ly);
        out[5] = (float)-(c * ly - y * lc - z * lx + x * lz);
        out[6] = (float)-(c * lz - z * lc - x * ly + y * lx);
        return true;
    }

    struct State {
        vf c, x, y, z, f, k, slope;       // quaternion with c >= 0, its two polynomials, k'
        vf dx, dy, dz, tx, ty, tz;        // t_j - t_i, and seen from i
        vf ax, ay, az, bx, by, bz;        // v x t, v x (v x t)
    };

    template <bool CHECK, bool GRAD, class Query>
    LIEATTN_INLINE vi log(const Query& q, const float* k, int64_t n, const Limits& limits, vf* w,
                          State& s) {
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
        s.c = abs(dot);
        // Angle over |v| times sqrt 2, 2 acos(c) sqrt(2 / (1 - c^2)), in powers of 1 - c: this and
        // the next by tools/fit_series.py.
        const float ratio[] = {2.8284271f, 0.942814834f, 0.376934788f, 0.163985986f, 0.0570309615f,
                               0.0850201887f, -0.0949022091f, 0.144181218f, -0.0921832165f, 0.0315732348f};
        vf rest = 1.0f - s.c;
        s.f = horner(ratio, rest);
        vf* omega = w + ROTATION;
        omega[0] = s.f * s.x, omega[1] = s.f * s.y, omega[2] = s.f * s.z;
        if (MOVES || GRAD) {
            // The second-order coefficient of V^-1, (1 - c acos(c) / sqrt(1 - c^2)) / (1 - c^2).
            const float second[] = {0.333333347f, 0.266663448f, 0.171555916f, 0.0996405171f, 0.0728156697f,
                                    -0.0353776596f, 0.201231116f, -0.304114065f, 0.333214758f, -0.193042878f,
                                    0.0540798036f};
            s.k = horner(second, rest);
            if (GRAD) s.slope = slope(second, rest);
        }
        if (MOVES) {
            s.dx = load(k + 17 * n) - q[17];
            s.dy = load(k + 18 * n) - q[18];
            s.dz = load(k + 19 * n) - q[19];
            s.tx = three(q[8], s.dx, q[11], s.dy, q[14], s.dz);
            s.ty = three(q[9], s.dx, q[12], s.dy, q[15], s.dz);
            s.tz = three(q[10], s.dx, q[13], s.dy, q[16], s.dz);
            s.ax = difference(s.y, s.tz, s.z, s.ty);
            s.ay = difference(s.z, s.tx, s.x, s.tz);
            s.az = difference(s.x, s.ty, s.y, s.tx);
            s.bx = difference(s.y, s.az, s.z, s.ay);
            s.by = difference(s.z, s.ax, s.x, s.az);
            s.bz = difference(s.x, s.ay, s.y, s.ax);
            vf half = (-0.5f / SQRT2) * s.f;
            w[0] = fma(s.k, s.bx, fma(half, s.ax, s.tx));
            w[1] = fma(s.k, s.by, fma(half, s.ay, s.ty));
            w[2] = fma(s.k, s.bz, fma(half, s.az, s.tz));
        }
        if (!CHECK) return (vi)(vi{} - 1);
        vf square = three(omega[0], omega[0], omega[1], omega[1], omega[2], omega[2]);
        return (vi)(square < limits.square);
    }

    // Adds to the gradients of a query (lane by lane) and of the keys, both of matrix entries. The
    // gradient is that of the reference off the group too: there the quaternion is read from the
    // column of the matrix 4 q q^T with the largest pivot.
    LIEATTN_INLINE void backward(const float* q, const float* k, int64_t n, const State& s,
                                 const vf* gw, vf* gq, float* gk, int64_t stride) {
        vf ox = gw[ROTATION], oy = gw[ROTATION + 1], oz = gw[ROTATION + 2];
        vf gx = s.f * ox, gy = s.f * oy, gz = s.f * oz;
        vf gc = -2.0f * SQRT2 * s.k * (s.x * ox + s.y * oy + s.z * oz);  // f' = -2 sqrt(2) k
        vf tau_x, tau_y, tau_z;
        if (MOVES) {
            vf ux = gw[0], uy = gw[1], uz = gw[2];
            vf half = (0.5f / SQRT2) * s.f;
            vf cx = s.y * uz - s.z * uy, cy = s.z * ux - s.x * uz, cz = s.x * uy - s.y * ux;
            vf ex = s.y * cz - s.z * cy, ey = s.z * cx - s.x * cz, ez = s.x * cy - s.y * cx;
            tau_x = ux + half * cx + s.k * ex;
            tau_y = uy + half * cy + s.k * ey;
            tau_z = uz + half * cz + s.k * ez;
            vf vt = s.x * s.tx + s.y * s.ty + s.z * s.tz;
            vf vu = s.x * ux + s.y * uy + s.z * uz;
            vf ut = 2.0f * (ux * s.tx + uy * s.ty + uz * s.tz);
            gx += s.k * (ux * vt + s.tx * vu - s.x * ut) - half * (s.ty * uz - s.tz * uy);
            gy += s.k * (uy * vt + s.ty * vu - s.y * ut) - half * (s.tz * ux - s.tx * uz);
            gz += s.k * (uz * vt + s.tz * vu - s.z * ut) - half * (s.tx * uy - s.ty * ux);
            gc += s.k * (ux * s.ax + uy * s.ay + uz * s.az);
            gc -= s.slope * (ux * s.bx + uy * s.by + uz * s.bz);  // the slope is in 1 - c
        }
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
