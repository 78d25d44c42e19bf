"""Checkpoints: what is saved comes back; what is damaged or foreign is refused by name."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import lieattn as la
from held import unpack
from lieattn import CheckpointError, LieTransformerConfig
from lieattn._core.files import pack
from lieattn.nn.pretrained import skeleton
from memory import LargestTensor

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


def sign(folder: Path, tensors: dict[str, Tensor], **changes: Any) -> None:
    """Put other tensors in a checkpoint, and other fields in both files, with valid checksums."""
    edit(folder, **changes)
    config = json.loads((folder / "config.json").read_text())
    (folder / "model.safetensors").write_bytes(pack(tensors, config))


def make_earlier(folder: Path) -> None:
    """Write the files of a folder as format 1 had them."""
    tensors, config = unpack(folder / "model.safetensors")
    text = json.dumps({**config, "format": 1}, indent=2) + "\n"
    save_file(tensors, folder / "model.safetensors", {"config": text})
    (folder / "config.json").write_text(text)


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
    with pytest.raises(CheckpointError, match=r"format 99.*reads formats 1 and 2.*'9.9'"):
        la.CompletionModel.from_pretrained(folder)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", "\x00\x01", "[" * 100_000, '{"format": 1}', '"x"'),
        *('{"format": NaN}', '{"a":' * 40 + "1" + "}" * 40, "9" * 5000, " " * 2**21),
    ],
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


def test_options_of_0_1_that_are_no_object_are_refused(tmp_path: Path) -> None:
    model = la.InfillModel(la.SE2, la.InfillConfig(encoder=LieTransformerConfig(dim=8, heads=2)))
    model.save_pretrained(tmp_path)
    for options in (None, [], "copies"):
        encoder = model.config.encoder.to_dict()
        sign(tmp_path, model.state_dict(), config=encoder, options=options)
        with pytest.raises(CheckpointError, match="options must be an object"):
            la.InfillModel.from_pretrained(tmp_path)


def test_weights_that_do_not_fit_the_config(folder: Path) -> None:
    # The same config in both files, but other tensors.
    tensors, _ = unpack(folder / "model.safetensors")
    del tensors["transformer.norm.weight"]
    sign(folder, tensors)
    with pytest.raises(CheckpointError, match=r"transformer.norm.weight' is absent, expected"):
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
        with pytest.raises(CheckpointError, match=r"damaged, cut short"):
            la.CompletionModel.from_pretrained(folder)


@pytest.mark.parametrize("part", ["length", "header", "data", "config"])
def test_single_flipped_bits_are_refused(folder: Path, part: str) -> None:
    path = folder / ("config.json" if part == "config" else "model.safetensors")
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    places = {"length": (0, 8), "header": (8, start), "data": (start, len(data))}
    first, last = places.get(part, (0, len(data)))
    generator = random.Random(0)
    for _ in range(64):
        damaged = bytearray(data)
        damaged[generator.randrange(first, last)] ^= 1 << generator.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError):
            la.CompletionModel.from_pretrained(folder)


def test_bytes_behind_the_end_are_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(CheckpointError, match="bytes, expected"):
        la.CompletionModel.from_pretrained(folder)


def test_format_1_is_read_with_a_note_and_needs_its_number_in_both_files(folder: Path) -> None:
    new = {path.name: path.read_bytes() for path in folder.iterdir()}
    expected = la.CompletionModel.from_pretrained(folder).state_dict()
    make_earlier(folder)
    with pytest.warns(UserWarning, match=r"format 1, which has no checksum.*save_pretrained"):
        found = la.CompletionModel.from_pretrained(folder).state_dict()
    assert all(torch.equal(x, expected[name]) for name, x in found.items())
    earlier = {path.name: path.read_bytes() for path in folder.iterdir()}
    for pair in ((new, earlier), (earlier, new)):
        for name, files in zip(("config.json", "model.safetensors"), pair, strict=True):
            (folder / name).write_bytes(files[name])
        with pytest.raises(CheckpointError, match="not of the same checkpoint"):
            la.CompletionModel.from_pretrained(folder)


def test_a_file_without_a_checksum_is_not_taken_for_one_of_this_format(folder: Path) -> None:
    tensors, config = unpack(folder / "model.safetensors")
    for entry in ({"config": json.dumps(config)}, {"lieattn": json.dumps(config)}, None):
        save_file(tensors, folder / "model.safetensors", entry)
        with pytest.raises(CheckpointError, match=r"not laid out as format 2|not written by"):
            la.CompletionModel.from_pretrained(folder)
    edit(folder, format=1)
    (folder / "model.safetensors").write_bytes(pack(tensors, {**config, "format": 1}))
    with pytest.raises(CheckpointError, match="not laid out as format 1"):
        la.CompletionModel.from_pretrained(folder)


def test_two_saves_at_once_do_not_mix(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "config.json.part").mkdir()  # of another kind of writer
    la.CompletionModel(la.SE3).save_pretrained(folder)
    assert la.CompletionModel.from_pretrained(folder).group is la.SE3


def test_a_pickle_is_never_loaded(folder: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return pytest.fail, ("a pickle was executed",)

    torch.save({"h0": Trap()}, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match="damaged"):
        la.CompletionModel.from_pretrained(folder)


def test_nan_weights_are_refused(folder: Path) -> None:
    for value in (torch.nan, torch.inf):
        tensors, _ = unpack(folder / "model.safetensors")
        tensors["gap.linear.weight"][0, 3] = value
        sign(folder, tensors)
        with pytest.raises(CheckpointError, match=r"gap.linear.weight holds NaN or infinity"):
            la.CompletionModel.from_pretrained(folder)


def test_a_model_without_bounds_comes_back(tmp_path: Path) -> None:
    model = la.InfillModel(la.SE3)
    model.calibrate(torch.rand(4, 2), torch.zeros(4, 2))
    assert model.factors.isinf().any()
    model.save_pretrained(tmp_path)
    assert torch.equal(la.InfillModel.from_pretrained(tmp_path).factors, model.factors)


def test_weights_of_another_kind_of_number_are_refused(folder: Path) -> None:
    tensors, _ = unpack(folder / "model.safetensors")
    tensors["gap.linear.weight"] = tensors["gap.linear.weight"].long()
    sign(folder, tensors)
    with pytest.raises(CheckpointError, match=r"gap.linear.weight is of torch.int64"):
        la.CompletionModel.from_pretrained(folder)


def test_a_config_that_asks_for_the_moon_builds_nothing(folder: Path) -> None:
    tensors, config = unpack(folder / "model.safetensors")
    own = config["config"]
    for change in ({"dim": 4_000_000_000}, {"layers": 10**5}, {"layers": 10**30}):
        sign(folder, tensors, config={**own, **change})
        with pytest.raises(CheckpointError, match="hold 33384 numbers"):
            la.CompletionModel.from_pretrained(folder)
    many = {f"x{i}": torch.zeros(0) for i in range(2000)}
    sign(folder, {**many, "all": torch.zeros(10**6)}, config={**own, "dim": 4, "layers": 1500})
    with pytest.raises(CheckpointError, match="at most 1,000 layers"):
        la.CompletionModel.from_pretrained(folder)


def test_sizes_are_compared_before_anything_is_allocated(tmp_path: Path) -> None:
    """Forty gigabytes, of which none are on the disk; and second differences that ask for three."""
    la.InfillModel(la.SE3, la.InfillConfig(second_differences=1)).save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors, _ = unpack(path)
    with open(path, "r+b") as file:
        file.truncate(40 * 2**30)
    with LargestTensor() as allocated, pytest.raises(CheckpointError, match="bytes, expected"):
        la.InfillModel.from_pretrained(tmp_path)
    assert allocated.elements < 10**6
    config = la.InfillConfig(second_differences=10_000)
    sign(tmp_path, tensors, config=config.to_dict())
    with LargestTensor() as allocated, pytest.raises(CheckpointError, match=r"embed.weight' is"):
        la.InfillModel.from_pretrained(tmp_path)
    assert allocated.elements < 10**6


def test_what_a_group_keeps_has_numbers_where_models_are_built_without_memory() -> None:
    fresh = type(la.SE3)(la.SE3.name, la.SE3.n)
    skeleton(fresh, fresh.basis)  # kept when it is first asked for
    assert torch.equal(fresh.basis(), la.SE3.basis())


def test_text_of_a_file_is_shown_short_and_escaped(folder: Path) -> None:
    evil = "\x1b]0;owned\x07" + "x" * 2**19
    for change in ({"group": evil}, {"model": evil}, {"config": {evil: 1}}, {"format": evil}):
        before = (folder / "config.json").read_text()
        edit(folder, **change)
        with pytest.raises(CheckpointError) as told:
            la.CompletionModel.from_pretrained(folder)
        assert str(told.value).isprintable()
        assert len(str(told.value)) < 1200
        (folder / "config.json").write_text(before)


def test_state_dicts_are_plain_tensors() -> None:
    state = la.CompletionModel(la.SE3).state_dict()
    assert all(isinstance(x, torch.Tensor) for x in state.values())
    la.CompletionModel(la.SE3).load_state_dict(state)
