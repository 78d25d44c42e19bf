"""Reports: what they say and that they stand alone."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

import lieattn as la
from lieattn.lab.paper.protocols import PROTOCOLS, Settings
from lieattn.lab.paper.results import attention_maps, gather, result_of
from lieattn.lab.paper.training import Trainer
from lieattn.lab.report import content, html, markdown, write_report
from lieattn.lab.report.document import Section
from lieattn.lab.report.summary import Number, comparisons
from lieattn.lab.report.terminal import print_tables

GROUPS = ("SO2", "SE2", "SO3", "SE3", "Aff2", "Aff3")
TIMING = [
    {
        "protocols": ["paper"],
        "groups": ["SE2", "SO3"],
        "models": ["G"],
        "runs": 27,
        "seconds": 870.0,
        "processes": 2,
    }
] * 2


def result(group: str, model: str, protocol: str = "paper", seeds: int = 2) -> dict[str, Any]:
    settings = Settings(
        group,
        model,
        protocol,
        seeds=tuple(range(seeds)),
        epochs=1,
        train=64,
        validation=8,
        test=8,
        compiled=False,
    )
    trainer = Trainer(settings)
    trainer.epoch()
    return result_of(trainer)


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """Results of all groups and models, barely trained."""
    results = {
        f"paper/{group}/{model}": result(group, model) for group in GROUPS for model in "GCA"
    }
    results["improved/SE2/G"] = result("SE2", "G", "improved")
    return gather(results)


@pytest.fixture(scope="module")
def document(found: dict[str, Any]) -> Section:
    return content.build(found, TIMING)


def test_the_page_stands_alone(document: Section) -> None:
    page = html.render(markdown.render(document), markdown.files(document))
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)""", page)
    assert "<script" not in page
    assert page.count("<figure>") == 6 * 3 + 2 + 3 + 2
    assert page.count("<table>") == page.count('<div class="scroll">') == 1 + 2 * 7 + 1
    assert '<h2 id="protocol-paper">Protocol paper</h2>' in page
    assert '<a href="#protocol-paper">Protocol paper</a>' in page
    assert "29.0 min" in page  # of two sessions


def test_the_tables_hold_ours_and_the_papers(found: dict[str, Any], document: Section) -> None:
    text = markdown.render(document)
    for group in ("SE(2)", "SO(3)", "Aff(2)", "SO(2)", "SE(3)", "Aff(3)"):
        assert f"### {group}, paper" in text
    row = next(line for line in text.splitlines() if line.startswith("| G |"))
    assert "(3.0 ± 1.0)e-03" in row  # the paper's
    assert "33,384 | 36 |" in row
    mean = Number.of(
        [s["best"]["pose_error"] for s in found["configurations"]["paper/SE2/G"]["seeds"]]
    )
    assert str(mean) in row
    assert "ratios of models are" in text


def test_protocols_are_kept_apart(found: dict[str, Any], document: Section) -> None:
    text = markdown.render(document)
    paper, improved = text.split("## Protocol improved")
    assert "### SE(2), improved" in improved
    assert "improved" not in paper.split("## Protocol paper")[1]
    assert list(comparisons(found)) == list(PROTOCOLS)


def test_files_are_written_and_the_same_twice(found: dict[str, Any], tmp_path: Path) -> None:
    some = {"paper/SE2/G": found["configurations"]["paper/SE2/G"]}
    small = {**found, "configurations": some}
    paths = write_report(small, TIMING, tmp_path)
    first = {p.name: p.read_bytes() for p in tmp_path.rglob("*.*") if p.is_file()}
    assert {"report.html", "report.md", "errors-paper-SE2.svg"} <= set(first)
    links = re.findall(r"\]\((figures/[^)]+)\)", paths["Markdown"].read_text(encoding="utf-8"))
    assert links
    assert all((tmp_path / link).exists() for link in links)
    write_report(small, TIMING, tmp_path)
    assert first == {p.name: p.read_bytes() for p in tmp_path.rglob("*.*") if p.is_file()}


def test_one_model_and_one_seed_are_enough() -> None:
    alone = gather({"paper/SO3/A": result("SO3", "A", seeds=1)})
    text = markdown.render(content.build(alone, []))
    assert "SO(3)" in text
    assert "nan" not in text
    console = Console(file=io.StringIO(), width=100)
    print_tables(alone, console)


def test_terminal_tables_fit_eighty_columns(found: dict[str, Any]) -> None:
    console = Console(file=io.StringIO(), width=80, record=True)
    print_tables(found, console)
    text = console.export_text()
    assert "…" not in text
    assert re.search(r"A/G \S+ \(paper 23\)", text)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([4e-5, 6e-5], "(5.0 ± 1.4)e-05"),
        ([0.998, 1.0], "0.999 ± 0.001"),
        ([0.7], "0.700"),
        ([3e-5], "3.0e-05"),
        ([0.0121, 0.0123], "0.0122 ± 0.0001"),
        ([9.98e-5, 9.98e-5], "(1.0 ± 0.0)e-04"),
        ([1e-5, None], "none"),
        ([0.0, 0.0], "0.000 ± 0.000"),
        ([1500.0, 2500.0], "(2.0 ± 0.7)e+03"),
    ],
)
def test_numbers_are_printed_with_their_spread(values: list[float | None], text: str) -> None:
    assert str(Number.of(values)) == text


@pytest.mark.parametrize("model", ["G", "C", "A"])
def test_attention_maps_are_those_the_model_applies(model: str) -> None:
    torch.manual_seed(0)
    net, poses = Settings("SE3", model, "paper").build(), la.SE3.random(7)
    maps = attention_maps(net, poses)
    assert maps.shape == (3, 4, 7, 7)
    for layer, own in zip(net.transformer.layers, maps, strict=True):
        expected = applied(net, layer, poses)
        values = values_of(layer, model, poses, expected["h"].expand(7, 7, 32))
        mixed = torch.einsum("hij,ijhc->ihc", own, values.unflatten(-1, (4, 8)))
        assert torch.allclose(mixed.flatten(-2), expected["mixed"], atol=1e-5)


def applied(net: Any, layer: Any, poses: torch.Tensor) -> dict[str, torch.Tensor]:
    """What a layer attends to, h, and what it hands to its output map, mixed."""
    seen: dict[str, torch.Tensor] = {}
    out = layer.out if hasattr(layer, "out") else layer.attention.out
    hooks = [
        out.register_forward_pre_hook(lambda m, x: seen.update(mixed=x[0])),
        layer.attention_norm.register_forward_hook(lambda m, x, y: seen.update(h=y)),
    ]
    net(poses)
    for hook in hooks:
        hook.remove()
    return seen


def values_of(layer: Any, model: str, poses: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """`W_V [h_j; w_ij]`, or the values of vector tokens, `[7, 7, d]`."""
    if model == "A":
        return layer.qkv(h)[..., 64:]
    w = la.relations(la.SE3, poses, poses).coords
    return layer.attention.value(torch.cat([h, w], dim=-1))


def test_a_model_that_diverged_does_not_take_the_report_along() -> None:
    broken = result("SE2", "A", seeds=1)
    broken["seeds"][0]["best"]["pose_error"] = None
    broken["seeds"][0]["best"]["equivariance_without_flips"] = None
    broken["seeds"][0]["curve"] = [None]
    found = gather({"paper/SE2/A": broken, "paper/SE2/G": result("SE2", "G", seeds=1)})
    document = content.build(found, [])
    page = html.render(markdown.render(document), markdown.files(document))
    assert "none" in page
    print_tables(found, Console(file=io.StringIO(), width=80))
