// Runs the kernel over shapes, masks and biases of all kinds, in buffers without a float to spare.
// For `make sanitize`: compiled with sanitizers, which end the process at the first finding.
#include <cstdio>
#include <cstdlib>
#include <random>

#include "library.h"

namespace {

struct Group {
    const char* name;
    int64_t code, m, n, D, K;
};

// n: size of the rotation.
const Group GROUPS[] = {{"SO2", 0, 2, 2, 1, 1}, {"SE2", 1, 3, 2, 3, 2}, {"SO3", 2, 3, 3, 3, 1},
                        {"SE3", 3, 4, 3, 6, 2}, {"Aff2", 4, 3, 2, 6, 4}, {"Aff3", 5, 4, 3, 12, 4}};

struct Shape {
    int64_t B, H, Nq, Nk, width;
};

const Shape SHAPES[] = {{1, 1, 0, 0, 5},   {0, 2, 3, 3, 5},   {1, 1, 1, 1, 1},    {2, 3, 1, 1, 5},
                        {2, 1, 2, 2, 16},  {1, 3, 7, 7, 0},   {3, 8, 7, 7, 48},   {2, 1, 63, 63, 5},
                        {1, 3, 65, 65, 128}, {1, 1, 4, 0, 5}, {1, 2, 0, 9, 5},    {2, 3, 5, 300, 16},
                        {1, 2, 300, 5, 17}, {1, 8, 256, 256, 16}, {1, 2, 513, 257, 31}};

enum Pairs { NONE, KEYS, FULL, QUERIES, ONE, KINDS };

std::mt19937 engine(1);
int64_t pruned = 0;  // pairs, times heads, of all runs

float normal() { return std::normal_distribution<float>()(engine); }

struct Floats {
    explicit Floats(int64_t n, bool random = true) : n(n), p((float*)malloc(n * sizeof(float))) {
        for (int64_t i = 0; i < n; i++) p[i] = random ? normal() : 0;
    }
    ~Floats() { free(p); }
    Floats(const Floats&) = delete;
    Floats& operator=(const Floats&) = delete;
    int64_t n;
    float* p;
};

void pose(const Group& g, float* out) {
    float r[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    if (g.n == 2) {
        const float angle = normal();
        r[0][0] = r[1][1] = std::cos(angle);
        r[1][0] = std::sin(angle), r[0][1] = -r[1][0];
    } else {
        float q[4], norm = 0;
        for (float& x : q) x = normal(), norm += x * x;
        for (float& x : q) x /= std::sqrt(norm);
        const float w = q[0], x = q[1], y = q[2], z = q[3];
        const float turned[3][3] = {{1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
                                    {2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)},
                                    {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}};
        memcpy(r, turned, sizeof r);
    }
    for (int64_t i = 0; i < g.m; i++)
        for (int64_t j = 0; j < g.m; j++)
            out[i * g.m + j] = i < g.n && j < g.n ? r[i][j] : i == j ? 1 : i < g.n ? normal() : 0;
}

// Strides of the batch, head, query and key; how many elements there are.
int64_t layout(Pairs kind, const Shape& s, int64_t* strides) {
    const int64_t sizes[4] = {kind == ONE ? 1 : s.B, kind == FULL ? s.H : 1,
                              kind == FULL || kind == QUERIES ? s.Nq : 1,
                              kind == FULL || kind == KEYS ? s.Nk : 1};
    int64_t count = 1;
    for (int d = 3; d >= 0; d--) {
        strides[d] = sizes[d] == 1 ? 0 : count;
        count *= sizes[d];
    }
    return count;
}

int run(const Group& g, const Shape& s, Pairs masked, Pairs biased, bool poses, int64_t threads,
        bool broken, double prune) {
    const int64_t cells = s.B * s.H * s.Nq;
    Floats q(s.B * s.Nq * g.m * g.m), k(s.B * s.Nk * g.m * g.m);
    for (int64_t i = 0; i < s.B * s.Nq; i++) pose(g, q.p + i * g.m * g.m);
    for (int64_t i = 0; i < s.B * s.Nk; i++) pose(g, k.p + i * g.m * g.m);
    if (broken && k.n) k.p[k.n - g.m * g.m] = NAN;
    Floats values(s.B * s.H * s.Nk * s.width), weights(s.H * g.K);
    for (int64_t i = 0; i < weights.n; i++) weights.p[i] = std::fabs(weights.p[i]);
    // Far more than the bounds need to end somewhere, in one head.
    if (prune > 0 && s.H) weights.p[0] = 1000;

    LieattnProblem p = {};
    p.batch = s.B, p.heads = s.H, p.queries = s.Nq, p.keys = s.Nk, p.width = s.width;
    p.group = g.code, p.threads = threads;
    p.exclude_self = s.Nq == s.Nk;
    p.margin = threads > 1 ? 0.3 : 0;
    p.prune = prune;
    p.q_poses = q.p, p.k_poses = k.p, p.values = values.p, p.weights = weights.p;
    const int64_t mask_count = layout(masked, s, p.mask_strides);
    const int64_t bias_count = layout(biased, s, p.bias_strides);
    std::unique_ptr<uint8_t[]> mask(new uint8_t[mask_count]);
    for (int64_t i = 0; i < mask_count; i++) mask[i] = engine() % 3 != 0;
    Floats bias(bias_count), bias_grad(threads * bias_count, false);
    if (masked != NONE) p.mask = mask.get();
    if (biased != NONE) p.bias = bias.p;

    std::unique_ptr<uint8_t[]> unfit(new uint8_t[s.B]);
    p.unfit = unfit.get();
    Floats out(cells * s.width), coords(cells * g.D), normaliser(cells * 3);
    const int status = lieattn_forward(&p, out.p, coords.p, normaliser.p);
    if (status == 2) return 2;
    if (status && !broken) return 3;
    pruned += p.pruned;
    Floats out_grad(out.n), coords_grad(coords.n), values_grad(values.n), weights_grad(weights.n);
    Floats q_grad(q.n, false), k_grad(k.n, false);
    LieattnGradients d = {};
    d.out = out.p, d.coords = coords.p, d.normaliser = normaliser.p;
    d.out_grad = out_grad.p, d.coords_grad = coords_grad.p;
    d.values_grad = values_grad.p, d.weights_grad = weights_grad.p;
    if (poses) d.q_grad = q_grad.p, d.k_grad = k_grad.p;
    if (biased != NONE) d.bias_grad = bias_grad.p, d.bias_copy = bias_count;
    if (lieattn_backward(&p, &d) != status) return 3;
    if (broken) return 0;
    for (const Floats* x : {&out, &coords, &values_grad, &weights_grad, &q_grad, &k_grad, &bias_grad})
        for (int64_t i = 0; i < x->n; i++)
            if (!std::isfinite(x->p[i])) return 3;
    return 0;
}

}  // namespace

int main() {
    for (const Group& g : GROUPS) {
        int64_t runs = 0;
        int status = 0;
        pruned = 0;
        for (const Shape& s : SHAPES)
            for (int masked = 0; masked < KINDS; masked++)
                for (int biased = 0; biased < KINDS; biased++) {
                    const bool large = s.B * s.H * s.Nq * s.Nk > 100000;
                    if (large && masked && biased && masked != biased) continue;
                    const int64_t threads = 1 + (masked + biased) % 2;
                    for (const double prune : {0.0, 0.1}) {
                        // Others take no notice of it, and with a bias all is computed.
                        if (prune > 0 && (g.n == g.m || g.K != 2 || biased > KEYS)) continue;
                        status = run(g, s, (Pairs)masked, (Pairs)biased, biased % 2 == 0, threads,
                                     masked == ONE && biased == ONE, prune);
                        if (status) break;
                        runs++;
                    }
                    if (status == 2) break;
                    if (!status) continue;
                    printf("%s: B %ld H %ld Nq %ld Nk %ld width %ld mask %d bias %d: wrong\n", g.name,
                           (long)s.B, (long)s.H, (long)s.Nq, (long)s.Nk, (long)s.width, masked, biased);
                    return 1;
                }
        if (g.n != g.m && g.K == 2 && !pruned) {
            printf("%s: nothing was left out\n", g.name);
            return 1;
        }
        if (status == 2)
            printf("%-5s not known to the kernel\n", g.name);
        else
            printf("%-5s %ld runs with %d lanes, nothing found\n", g.name, (long)runs, LIEATTN_LANES);
    }
    return 0;
}
