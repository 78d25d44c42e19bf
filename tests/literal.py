"""The paper's attention, written down as it is printed: every value `W_V [h_j; w_ij]` exists."""

import torch
from torch import Tensor
from torch.nn.functional import relu, softplus

from lieattn import Group
from lieattn.scores import DirectedScore, Score


def literal_attention(
    group: Group,
    h: Tensor,
    q: Tensor,
    k: Tensor,
    weight: Tensor,
    score: Score,
    allowed: Tensor,
    bias: Tensor,
) -> Tensor:
    """`sum_j a_ij W_V [h_j; w_ij]`, `[B, Nq, d]`.

    h `[B, Nk, d]`, q and k poses, weight `[d, d + C]`, allowed and bias `[B, H, Nq, Nk]`.
    """
    batch, heads, queries, keys = allowed.shape
    rows = []
    for b in range(batch):
        for i in range(queries):
            pairs = [group.relation(q[b, i], k[b, j], score.chart) for j in range(keys)]
            heads_out = []
            for head in range(heads):
                used = [j for j in range(keys) if allowed[b, head, i, j] and pairs[j][1]]
                part = weight.chunk(heads, dim=0)[head]
                if not used:
                    heads_out.append(torch.zeros_like(part[:, 0]))
                    continue
                s = torch.stack(
                    [literal_score(score, pairs[j][0], head) + bias[b, head, i, j] for j in used]
                )
                a = torch.softmax(s, dim=0)
                V = [part @ torch.cat([h[b, j], pairs[j][0]]) for j in used]
                heads_out.append(sum(a_j * V_j for a_j, V_j in zip(a, V, strict=True)))
            rows.append(torch.cat(heads_out))
    return torch.stack(rows).unflatten(0, (batch, queries))


def literal_score(score: Score, w: Tensor, head: int) -> Tensor:
    """The score of one pair and head from its formula; a score without one here is called."""
    name = type(score).__name__
    if isinstance(score, DirectedScore):
        linear = score.direction[head] @ w[: score.group.dim]
        return literal_score(score.score, w, head) + linear
    if name == "MLPScore":
        hidden = slice(32 * head, 32 * head + 32)
        first = relu(score.first.weight[hidden] @ w + score.first.bias[hidden])
        return score.second[head] @ first + score.second_bias[head]
    if name not in ("NormScore", "IsotropicScore", "DiagonalScore", "FullScore"):
        return score(w[None, None])[head, 0, 0]
    lam = _positive(score, score.raw_lambda[head])
    tau = _positive(score, score.raw_tau[head])
    if name == "NormScore":
        blocks = [block.dim for block in score.group.chart_blocks(score.chart)]
        square = sum(lam[i] * (x**2).sum() for i, x in enumerate(w.split(blocks)))
    elif name == "FullScore":
        square = w @ _metric(score, head, lam) @ w
    else:  # one weight for all coordinates, or one for each
        square = (lam * w**2).sum()
    return -square / tau


def _positive(score: Score, raw: Tensor) -> Tensor:
    return raw.exp() if score.positive == "log" else softplus(raw) + 1e-3


def _metric(score: Score, head: int, lam: Tensor) -> Tensor:
    size = len(lam)
    L = torch.diag(lam.sqrt())
    entries = iter(score.below[head])
    for row in range(size):
        for column in range(row):
            place = torch.zeros(size, size, dtype=lam.dtype)
            place[row, column] = 1
            L = L + next(entries) * place
    return L @ L.T
