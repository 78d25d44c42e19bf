"""What every score promises, and what each one adds."""

import pytest
import torch
from torch import Tensor

import lieattn as la
from lieattn import scores


def coords(group: la.Group, chart: str = "principal") -> Tensor:
    poses = group.random(6, generator=torch.Generator().manual_seed(3))
    return la.relations(group, poses, poses, chart).coords


def randomised(score: scores.Score) -> scores.Score:
    generator = torch.Generator().manual_seed(5)
    for parameter in score.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator)
    return score


@pytest.fixture(params=list(scores.SCORES))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize("chart", ["principal", "polar"])
def test_logits_have_a_matrix_a_head(name: str, chart: str) -> None:
    w = coords(la.Aff2, chart).expand(2, 3, 6, 6, -1)
    assert scores.make(name, la.Aff2, 4, chart=chart)(w).shape == (2, 3, 4, 6, 6)


@pytest.mark.parametrize("metric", ["norm", "isotropic", "diagonal", "full"])
@pytest.mark.parametrize("positive", ["softplus", "log"])
def test_metrics_start_as_minus_the_squared_norm(metric: str, positive: str) -> None:
    w = coords(la.SE3)
    logits = scores.make(metric, la.SE3, 2, positive=positive)(w)
    torch.testing.assert_close(logits, -w.square().sum(-1).expand(2, 6, 6))


@pytest.mark.parametrize("metric", ["norm", "isotropic", "diagonal", "full"])
def test_metrics_are_symmetric_and_negative(metric: str) -> None:
    logits = randomised(scores.make(metric, la.SE3, 2))(coords(la.SE3))
    torch.testing.assert_close(logits, logits.mT, rtol=1e-4, atol=1e-4)
    assert (logits <= 0).all()


def test_directed_term_changes_sign_with_the_pair(name: str) -> None:
    torch.manual_seed(0)
    directed = scores.make(name, la.SE3, 2, directed=True)
    assert isinstance(directed, scores.DirectedScore)
    w = coords(la.SE3)
    torch.testing.assert_close(directed(w), directed.score(w))  # it starts at zero
    directed.direction.data.normal_()
    term = directed(w) - directed.score(w)
    torch.testing.assert_close(term, -term.mT, rtol=1e-4, atol=1e-4)
    assert term.abs().max() > 0.1


def test_full_metric_is_a_cholesky_factor() -> None:
    score = randomised(scores.make("full", la.SE3, 3))
    L = score.cholesky
    assert torch.equal(L, L.tril())
    assert (L.diagonal(dim1=-2, dim2=-1) > 0).all()
    metric = L @ L.mT / score.keep_positive(score.raw_tau)[:, None, None]
    w = coords(la.SE3)
    expected = -torch.einsum("ijc,hcd,ijd->hij", w, metric, w)
    torch.testing.assert_close(score(w), expected, rtol=1e-4, atol=1e-4)


def test_weights_stay_positive_far_from_the_start() -> None:
    for positive in ("softplus", "log"):
        score = scores.make("norm", la.SE2, 1, positive=positive)
        score.raw_lambda.data.fill_(-30.0)
        score.raw_tau.data.fill_(20.0)
        assert (score.weights > 0).all()


def test_a_score_of_ones_own_is_used(generator: torch.Generator) -> None:
    class Nearest(scores.Score):
        def forward(self, w: Tensor) -> Tensor:
            return -1e4 * w.square().sum(-1).unsqueeze(-3).expand(-1, self.heads, -1, -1)

    layer = la.LieAttention(la.SE2, 8, 2, score=Nearest(la.SE2, 2))
    assert layer(torch.randn(1, 5, 8), la.SE2.random(1, 5, generator=generator)).shape == (1, 5, 8)


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown score 'dot'; known are norm, isotropic"):
        scores.make("dot", la.SE2, 4)
    with pytest.raises(ValueError, match="unknown parameterisation 'exp'; known are softplus"):
        scores.make("norm", la.SE2, 4, positive="exp")


def test_a_score_does_not_replace_another() -> None:
    class Mine(scores.NormScore):
        pass

    assert scores.register("norm", scores.NormScore) is scores.NormScore  # the same one again
    try:
        with pytest.raises(ValueError, match=r"'norm' is taken by NormScore\. Choose another name"):
            scores.register("norm", Mine)
        assert scores.SCORES["norm"] is scores.NormScore
    finally:
        scores.SCORES["norm"] = scores.NormScore
