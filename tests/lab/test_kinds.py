"""What tokens are, by their names: vocabulary, features, and a model that is told of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from walks import command, write_tum

import lieattn as la
from lieattn import data
from lieattn.workflows.metrics import errors_of, rivals
from lieattn.workflows.store import load_trained
from lieattn.workflows.tensors import Stack, kind_features, kind_of, stack, vocabulary

SIZE = ["--steps", "4", "--every", "2", "--dim", "16", "--layers", "1", "--window", "12"]


def named(*names: str) -> data.PoseSet:
    """A set of its own, called by its names."""
    poses = la.Aff2.random(len(names))
    return data.from_tensor(la.Aff2, poses, names=names, name=" ".join(names))


def test_kinds_are_words_that_several_sets_have() -> None:
    assert [kind_of(x) for x in ("path p1", "", "  ", "12", "1e5 s", "-3.5")] == ["path"] + [""] * 5
    sets = [named("path a", "rect", "odd"), named("rect b", "path"), named("path", "rect", "use")]
    sets += [named("rect", "7", "odd"), named("8", "9")]
    assert vocabulary(sets, 64) == ("rect", "path")  # the commonest first; two sets are too few
    assert vocabulary(sets, 1) == ("rect",)
    assert vocabulary([named(str(i), "2") for i in range(9)], 64) == ()
    assert vocabulary(data.windows([named(*["path"] * 9)], 3, 1), 64) == ()  # windows of one set


def test_features_are_one_of_the_kinds_or_none() -> None:
    found = kind_features([named("path a", "odd", "rect"), named("rect")], ("rect", "path"))
    assert found.tolist() == [[[0, 1], [0, 0], [1, 0]], [[1, 0], [0, 0], [0, 0]]]
    windows = stack([named("path a", "odd", "rect"), named("rect")], 1.0, ("rect", "path"))
    assert windows.features is not None
    assert torch.equal(windows.features, found)
    some, hidden = windows.rows(torch.tensor([1])).trimmed(torch.zeros(1, 3, dtype=torch.bool))
    assert some.features is not None
    assert some.features.shape == (1, 1, 2)
    assert hidden.shape == (1, 1)


def test_data_sets_say_what_their_tokens_are() -> None:
    words = {name: vocabulary(data.dataset(name).train, 64) for name in data.DATASETS}
    assert "stud.dat" in words["bricks"]
    assert "radialGradient" in words["emoji"]
    assert "ALA" in words["backbones"]
    assert words["victoria_park"] == ()


def test_a_rival_copies_the_nearest_of_its_kind() -> None:
    poses = la.SE2.random(1, 6)
    features = torch.eye(2)[torch.tensor([[0, 1, 1, 0, 1, 1]])]
    features[0, 5] = 0  # of no kind
    windows = Stack(poses, torch.ones(1, 6, dtype=torch.bool), features)
    hidden = torch.tensor([[False, False, False, True, False, False]])
    poses[0, 0] = poses[0, 3]
    assert errors_of(la.SE2, rivals(la.SE2, True)["alike"], [(windows, hidden)])[0].max() < 1e-5
    alone = torch.tensor([[False, False, False, False, False, True]])
    names = ("alike", "geodesic")
    one, other = (errors_of(la.SE2, rivals(la.SE2, True)[x], [(windows, alone)])[0] for x in names)
    assert torch.equal(one, other)
    assert "alike" not in rivals(la.SE2)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("kinds") / "emoji"
    options = ("--kinds", "8", "--absolute-frame", "--copies")
    code, text, errors = command("train", "emoji", *SIZE, *options, "--out", out)
    assert (code, errors) == (0, "")
    assert "kinds of tokens by their names: radialGradient" in text
    assert "alike: copy of the nearest visible pose of the same kind" in " ".join(text.split())
    return out


def test_a_model_that_knows_kinds_is_kept_and_used(run: Path) -> None:
    trained = load_trained(run)
    assert trained.preprocessing.kinds[0] == "radialGradient"
    assert trained.model.config.features == len(trained.preprocessing.kinds)
    assert trained.model.config.absolute_frame
    assert trained.model.config.copies
    code, text, _ = command("predict", run, "emoji", "--hide", "10%", "--json")
    assert code == 0
    assert json.loads(text)["problems"] == []
    code, text, _ = command("evaluate", run, "--json")
    assert code == 0
    assert set(json.loads(text)["rows"]) == {"nearest", "geodesic", "alike", "G"}


def test_names_that_are_numbers_are_no_kinds(tmp_path: Path) -> None:
    walk = write_tum(tmp_path / "walk.tum")
    code, text, _ = command("train", walk, *SIZE, "--kinds", "8", "--out", tmp_path / "run")
    assert code == 0
    assert "no kinds: no first word of a name is in 3 sets or more" in text
    assert load_trained(tmp_path / "run").preprocessing.kinds == ()
