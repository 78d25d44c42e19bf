"""The sequence-completion task: what it promises about its data."""

from __future__ import annotations

import pytest
import torch

import lieattn as la
from lieattn.lab.paper import sequences
from lieattn.lab.paper.sequences import make_sequences, random_frames, random_steps

GROUPS = ("SO2", "SE2", "SO3", "SE3", "Aff2", "Aff3")


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", GROUPS)
def test_tokens_in_their_order_have_a_constant_step(name: str) -> None:
    group = la.get_group(name)
    sets = make_sequences(group, 50, seeded(), torch.float64)
    for poses, missing, positions in zip(sets.poses, sets.missing, sets.positions, strict=True):
        order = positions.argsort()
        gap = (set(range(8)) - set(positions.tolist())).pop()
        whole = torch.cat([poses[order][:gap], missing[None], poses[order][gap:]])
        steps = group.log_relative(whole[:-1], whole[1:])
        assert torch.allclose(steps, steps[:1].expand_as(steps), atol=1e-10)


@pytest.mark.parametrize("name", GROUPS)
def test_the_gap_is_interior_and_its_neighbours_are_marked(name: str) -> None:
    sets = make_sequences(la.get_group(name), 200, seeded())
    gaps = 28 - sets.positions.sum(-1)
    assert gaps.min() == 1
    assert gaps.max() == 6
    assert torch.equal(sets.beside, (sets.positions - gaps[:, None]).abs() == 1)
    assert (sets.beside.sum(-1) == 2).all()


@pytest.mark.parametrize("name", GROUPS)
def test_every_pair_is_on_the_chart_with_the_models_margin(name: str) -> None:
    group = la.get_group(name)
    sets = make_sequences(group, 500, seeded(3))
    margin = group.chart_margin()
    assert la.relations(group, sets.poses, sets.poses, margin=margin).valid.all()


def test_the_same_seed_gives_the_same_data_and_another_does_not() -> None:
    first, second = (make_sequences(la.Aff2, 20, seeded(5)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first[:4], second[:4], strict=True))
    assert not torch.equal(first.poses, make_sequences(la.Aff2, 20, seeded(6)).poses)


def test_steps_that_would_leave_the_chart_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def wild(group: la.groups.Group, count: int, generator: torch.Generator) -> torch.Tensor:
        drawn.append(count)
        return random_steps(group, count, generator) * (2 if len(drawn) == 1 else 1)

    monkeypatch.setattr(sequences, "random_steps", wild)
    sets = make_sequences(la.SO2, 400, seeded())
    # Uniform to pi/4: seven steps exceed a half turn for three of seven.
    assert 120 < sets.rejected < 220
    assert drawn == [400, sets.rejected]


@pytest.mark.parametrize("name", GROUPS)
def test_frames_and_steps_have_the_stated_sizes(name: str) -> None:
    group = la.get_group(name)
    physical = group.to_physical(random_steps(group, 20_000, seeded()))
    parts = physical.split([block.dim for block in group.blocks], dim=-1)
    for block, part in zip(group.blocks, parts, strict=True):
        radius = part.norm(dim=-1)
        if block.kind == "translation":
            assert part.std().item() == pytest.approx(0.5, rel=0.03)
        elif block.kind == "rotation":
            assert radius.max() <= torch.pi / 8
            # uniform in the ball: the share within half the radius is 2^-dim
            inside = (radius < torch.pi / 16).double().mean().item()
            assert inside == pytest.approx(0.5**block.dim, abs=0.02)
        else:
            assert part.abs().max() <= 0.15
    frames = random_frames(group, 20_000, seeded())
    group.check(frames)
    if group.matrix_size > group.n:
        assert frames[:, : group.n, group.n].std().item() == pytest.approx(3, rel=0.03)
