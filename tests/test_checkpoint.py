"""Checkpoints: what is saved comes back; what is damaged or foreign is refused by name."""

import json
import random
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import lieattn as la
from lieattn import CheckpointError, LieTransformerConfig

MODELS = [
    la.LieTransformer,
    la.CompletionModel,
    la.VectorCompletionModel,
    la.PairCompletionModel,
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint of a completion model on SE(2)."""
    torch.manual_seed(0)
    la.CompletionModel(la.SE2).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def edit(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def read(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_comes_back_as_it_was(kind: type, group: la.Group, tmp_path: Path) -> None:
    torch.manual_seed(1)
    config = LieTransformerConfig(
        dim=16, heads=2, layers=2, score="full", directed=True, pose_updates=True, normalise=True
    )
    model = kind(group, config).eval()
    model.save_pretrained(tmp_path)
    other = kind.from_pretrained(tmp_path)
    assert other.config == model.config
    assert other.group is group
    assert not other.training
    poses = group.random(2, 5)
    assert torch.equal(other(poses).poses, model(poses).poses)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


def test_a_group_of_ones_own_is_given_to_the_loader(tmp_path: Path) -> None:
    E = torch.zeros(3, 3, 3)
    E[0, 0, 1] = E[1, 1, 2] = E[2, 0, 2] = 1
    heisenberg = la.matrix_group("Heisenberg", E)
    la.LieTransformer(heisenberg).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=r"unknown group 'Heisenberg'.*group=\.\.\."):
        la.LieTransformer.from_pretrained(tmp_path)
    assert la.LieTransformer.from_pretrained(tmp_path, group=heisenberg).group is heisenberg


def test_saving_again_replaces(folder: Path) -> None:
    torch.manual_seed(7)
    model = la.CompletionModel(la.SE3)
    model.save_pretrained(folder)
    assert la.CompletionModel.from_pretrained(folder).group is la.SE3


def test_dtype_of_parameters_is_kept(tmp_path: Path) -> None:
    model = la.LieTransformer(la.SE2).double()
    model.save_pretrained(tmp_path)
    other = la.LieTransformer.from_pretrained(tmp_path)
    assert torch.equal(other.h0.double(), model.h0)
    assert other.h0.dtype == torch.float64


def test_a_folder_that_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no config.json.*save_pretrained"):
        la.CompletionModel.from_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=r"has no config.json"):
        la.CompletionModel.from_pretrained(tmp_path / "nowhere")


def test_missing_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="incomplete"):
        la.CompletionModel.from_pretrained(folder)


def test_a_checkpoint_of_another_group(folder: Path) -> None:
    with pytest.raises(CheckpointError, match=r"another group: it holds 'SE2', expected 'SO3'"):
        la.CompletionModel.from_pretrained(folder, group=la.SO3)


def test_a_checkpoint_of_another_model(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="another model: it holds 'CompletionModel'"):
        la.LieTransformer.from_pretrained(folder)


def test_a_config_beside_weights_of_another_group(folder: Path, tmp_path: Path) -> None:
    # The learned kernel has the same shapes on SE(2) and SO(3): only the name can tell.
    config = LieTransformerConfig(score="mlp")
    for group in (la.SE2, la.SO3):
        la.CompletionModel(group, config).save_pretrained(tmp_path / group.name)
    (tmp_path / "SE2" / "config.json").replace(tmp_path / "SO3" / "config.json")
    with pytest.raises(CheckpointError, match="not of the same checkpoint"):
        la.CompletionModel.from_pretrained(tmp_path / "SO3")


def test_a_checkpoint_of_another_version(folder: Path) -> None:
    edit(folder, format=99, lieattn="9.9")
    with pytest.raises(CheckpointError, match=r"format 99.*reads format 1.*'9.9'"):
        la.CompletionModel.from_pretrained(folder)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "\x00\x01", "[" * 100_000, '{"format": 1}', '"x"']
)
def test_a_config_that_is_none(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"config.json"):
        la.CompletionModel.from_pretrained(folder)


@pytest.mark.parametrize(
    "config",
    [None, 3, [], {"dim": "32"}, {"dim": -4}, {"colour": "red"}, {"heads": 1e9}, {"dim": 10**6}],
    ids=str,
)
def test_a_config_with_wrong_fields(folder: Path, config: object) -> None:
    edit(folder, config=config)
    with pytest.raises(CheckpointError, match=r"config|checkpoint"):
        la.CompletionModel.from_pretrained(folder)


def test_weights_that_do_not_fit_the_config(folder: Path) -> None:
    # The same config in both files, but other tensors.
    path = folder / "model.safetensors"
    tensors, metadata = read(path)
    del tensors["transformer.norm.weight"]
    save_file(tensors, path, metadata)
    with pytest.raises(CheckpointError, match=r"transformer.norm.weight is absent, expected"):
        la.CompletionModel.from_pretrained(folder)


@pytest.mark.parametrize("options", [{"layers": 2}, {"positive": "log"}, {"normalise": True}])
def test_a_torn_pair_of_files(folder: Path, options: dict[str, object]) -> None:
    edit(folder, config=LieTransformerConfig(**options).to_dict())
    with pytest.raises(CheckpointError, match="not of the same checkpoint"):
        la.CompletionModel.from_pretrained(folder)


def test_truncated_weights_at_every_kind_of_place(folder: Path) -> None:
    path = folder / "model.safetensors"
    data = path.read_bytes()
    for length in (0, 1, 7, 8, 9, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(CheckpointError, match=r"damaged or cut short"):
            la.CompletionModel.from_pretrained(folder)


def test_flipped_bytes_are_refused_or_change_numbers_only(folder: Path) -> None:
    path = folder / "model.safetensors"
    data = path.read_bytes()
    header = 8 + int.from_bytes(data[:8], "little")
    generator = random.Random(0)
    for _ in range(200):
        place = generator.randrange(header)
        damaged = bytearray(data)
        damaged[place] ^= 1 << generator.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError):
            la.CompletionModel.from_pretrained(folder)


def test_a_pickle_is_never_loaded(folder: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return pytest.fail, ("a pickle was executed",)

    torch.save({"h0": Trap()}, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match="damaged"):
        la.CompletionModel.from_pretrained(folder)


def test_nan_weights_are_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    tensors, metadata = read(path)
    tensors["gap.linear.weight"][0, 3] = torch.nan
    save_file(tensors, path, metadata)
    with pytest.raises(CheckpointError, match=r"gap.linear.weight holds NaN"):
        la.CompletionModel.from_pretrained(folder)


def test_weights_of_another_kind_of_number_are_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    tensors, metadata = read(path)
    tensors["gap.linear.weight"] = tensors["gap.linear.weight"].long()
    save_file(tensors, path, metadata)
    with pytest.raises(CheckpointError, match=r"gap.linear.weight is of torch.int64"):
        la.CompletionModel.from_pretrained(folder)


def test_a_config_that_asks_for_the_moon_builds_nothing(folder: Path) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["config"]["dim"] = 4_000_000_000
    path.write_text(json.dumps(config))
    tensors, _ = read(folder / "model.safetensors")
    save_file(tensors, folder / "model.safetensors", {"config": json.dumps(config)})
    with pytest.raises(CheckpointError, match="holds 33384 numbers"):
        la.CompletionModel.from_pretrained(folder)


def test_state_dicts_are_plain_tensors() -> None:
    state = la.CompletionModel(la.SE3).state_dict()
    assert all(isinstance(x, torch.Tensor) for x in state.values())
    la.CompletionModel(la.SE3).load_state_dict(state)
