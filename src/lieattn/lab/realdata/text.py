"""What the report of real data says in words."""

from __future__ import annotations

from typing import Any

HOW = "\n\n".join(
    (
        "Training, validation and test parts are of different files, or of stretches of one "
        "drive that are apart (docs/data.md). Of every window 15% of the poses are hidden, in "
        "half of the windows one by one and in half in a row, and found from the others. "
        "Seeds change the parameters at the start, the order of training and what is hidden; "
        "for one seed all methods find the same hidden poses from the same visible ones. The "
        "step whose validation loss is least is tested, once. Steps, width and what models "
        "are told were chosen by validation losses, of one seed most of them; those of drawings "
        "and parts on smaller sets of the same sources, whose validation and test parts share a "
        "few sets with the test parts here (LOG.md has how many).",
        "All models start at the geodesic interpolation, correct it, and are trained by the "
        "same loss, the error that is tabled, for as many steps (where answers may be copies, "
        "the likelihood of the right ones joins it). They are told the place of every token "
        "in the order of its file. All but **A** also have invariants of the group, which the "
        "paper's model A does not have; **A told** has them too, and shows what is left for the "
        "attention to make better. G, C and A told differ in how tokens attend to each other, "
        "in nothing else; IPA is 56 wide, not 64, to be of the same size.",
        "Of trajectories and chains, hidden tokens are told how they see poses around: the nearest "
        "two on each side as matrices, and how the next two depart from the line through the "
        "nearest.",
        "Of drawings and parts, all models are told which of up to 64 kinds a token is (the "
        "element of the drawing, the file of the sub-part), the hidden ones too, and may copy: an "
        "answer takes its linear part or its position from its own correction or from a visible "
        "token, whichever has the least expected error by the model's votes. Drawings stand on a "
        "page, a frame that means something, which all models know there: vector tokens by "
        "themselves, as everywhere, the others by features. What is next to a token tells little, "
        "but steps repeat: all but A may answer by analogy, `g_j g_k^-1 g_l`, where the hidden "
        "token is as many places from j as l from k. Simple rivals take neighbours in the order "
        "of the file; **alike** knows the kinds.",
        "Errors are blocks of the logarithm from the answer to the truth: positions in the "
        "unit of the data, on Aff(n) in that of the answer's own frame, rotations in degrees, "
        "logarithms of scale and shear. **Over "
        "geodesic** is the mean error divided by that of geodesic interpolation, a mean over "
        "blocks: below 1 a model has learned something that two neighbours do not tell. Means "
        "count outliers, and errors of real poses have long tails: **of medians** is the same "
        "figure for medians, of the blocks whose median error is not zero. **Mirrored** "
        "counts answers of the wrong handedness, which no correction leads to, copies do; "
        "their errors are up to the mirror, in tables; in training they count as larger by "
        "that of interpolation.",
    )
)


def why(found: dict[str, Any], group: str) -> str:
    """Where G is not ahead of vector tokens and simple rivals: what is known of why."""
    return WHY[group].format(**shares_of(found, group)) if group in WHY else ""


def shares_of(found: dict[str, Any], group: str) -> dict[str, str]:
    """What repeats in a set, and how many windows there are to learn from, as text."""
    own = found["repeats"][group]
    shares = {name: f"{100 * own[name]:.0f}%" for name in ("linear", "position", "step")}
    return {**shares, "windows": f"{own['windows']:,}"}


WHY: dict[str, str] = {
    "Aff2": (
        "There is little to be learned here by any model: of the hidden layers {linear} share "
        "their linear part with a visible one, {position} their position, {step} are a step that "
        "repeats, and there are {windows} windows to learn from. A told differs from G in its "
        "attention alone: relations of pairs are no help here. Those of a hidden layer are of a "
        "guess, between its neighbours in the file; LOG.md has what was tried."
    ),
}

# Where it is looked into what the charts gain.
STUDY = (
    "The same with less beside attention, without analogies and with corrections alone: "
    "`python benchmarks/polar_chart.py`."
)
