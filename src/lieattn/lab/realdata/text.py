"""The prose of the report on real data."""

from __future__ import annotations

from typing import Any

HOW = """\
Training, validation and test parts come from different files, or from separate stretches of one
drive (docs/data.md). 15% of the poses of every window are hidden and predicted from the others:
in half of the windows one by one, in the other half in a row. A seed sets the initial parameters,
the order of training, and what is hidden. For one seed all methods predict the same hidden poses
from the same visible ones. The step with the lowest validation loss is tested, once. Training
lengths, width and features were chosen by validation losses, most of them with one seed. For
drawings and parts they were chosen on smaller sets from the same sources. Their validation and
test parts share a few sets with the test parts here (LOG.md has the counts).

All models start at the geodesic interpolation and correct it. They are trained with the same
loss, the error in the tables, for the same number of steps. Where answers may be copies, the
likelihood of the right ones is added to the loss. The models know the place of every token in the
order of its file. All but **A**, the paper's model, also have invariant features; **A with
invariants** has them too, and shows what remains for attention to improve. G, C and A with
invariants differ in their attention only. IPA has width 56 instead of 64, so that it is of the
same size.

On trajectories and chains, hidden tokens have these features: the matrices of the two nearest
visible poses on each side, and by how much the next two deviate from the line through the nearest
ones.

On drawings and parts, all models know which of up to 64 kinds each token is (the element of the
drawing, the file of the sub-part), hidden tokens included. Their answers may be copies: the
linear part and the position each come from the model's own correction or from a visible token,
whichever has the lowest expected error by the model's votes. Drawings have a meaningful absolute
frame, the page, and all models know it: vector tokens always do, the others through features.
Neighbours in the order are uninformative, but steps repeat: all models but A may answer by
analogy, `g_j g_k^-1 g_l`, where the hidden token is as many places from j as l from k. Simple
rivals use neighbours in the order of the file; **alike** knows the kinds.

Errors are blocks of the logarithm from the answer to the truth: positions in the unit of the
data, on Aff(n) in that of the answer's own frame; rotations in degrees; logarithms of scale and
shear. **Over geodesic** is the mean error divided by that of geodesic interpolation, averaged
over blocks. Below 1 a model has learned more than interpolation. Means include outliers, and
errors of real poses have long tails: **of medians** is the same ratio for medians, over the
blocks whose median error is not zero. **Mirrored** is the share of answers of the wrong
handedness. No correction can mirror a pose, but a copy can. In the tables their errors are those
up to the mirror; in training they count as larger by the error of interpolation."""


def why(found: dict[str, Any], group: str) -> str:
    """The known reasons why G is not ahead on a group."""
    return WHY[group].format(**shares_of(found, group)) if group in WHY else ""


def shares_of(found: dict[str, Any], group: str) -> dict[str, str]:
    """Shares of repeated poses, and the number of training windows, as text."""
    own = found["repeats"][group]
    shares = {name: f"{100 * own[name]:.0f}%" for name in ("linear", "position", "step")}
    return {**shares, "windows": f"{own['windows']:,}"}


WHY: dict[str, str] = {
    "Aff2": (
        "There is little to learn here for any model: {linear} of the hidden layers share their "
        "linear part with a visible one, {position} their position, {step} are a step that "
        "repeats, and there are {windows} training windows. A with invariants differs from G in "
        "its attention only: pairwise logarithms do not help here. Those of a hidden layer start "
        "from a guess between its neighbours in the file. LOG.md lists what was tried."
    ),
}

# Where the gain of the polar chart is studied.
STUDY = (
    "The same comparison without analogies, and with corrections only: "
    "`python benchmarks/polar_chart.py`."
)
