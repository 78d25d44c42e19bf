"""What the report of real data says in words."""

from __future__ import annotations

HOW = "\n\n".join(
    (
        "Training, validation and test parts are of different files, or of stretches of one "
        "drive that are apart (docs/data.md). Of every window 15% of the poses are hidden, in "
        "half of the windows one by one and in half in a row, and found from the others. Seeds "
        "change the parameters at the start, the order of training and what is hidden; for one "
        "seed all methods find the same hidden poses from the same visible ones. The step whose"
        " validation loss is least is tested, once. Steps, width and what models are told were "
        "chosen by validation losses of one seed.",
        "All models start at the geodesic interpolation, correct it, are trained by the same "
        "loss for as many steps, and are told the same: the place of every token in the order "
        "of its file, and for hidden tokens how two more poses on each side depart from the "
        "line through the nearest two. They differ in how tokens attend to each other. Simple "
        "rivals take neighbours in that order too: in a drawing what is painted before and "
        "after, in a part the line of the file before and after. What is nearest in space "
        "cannot be known for a pose that is hidden.",
        "Errors are blocks of the logarithm from the answer to the truth: positions in the unit"
        " of the data, rotations in degrees, logarithms of scale and shear. **Over geodesic** "
        "is the mean error divided by that of geodesic interpolation, a mean over blocks: below"
        " 1 a model has learned something that two neighbours do not tell. Means count "
        "outliers, and errors of real poses have long tails: **of medians** is the same figure "
        "for medians. **Mirrored** counts answers of the wrong handedness: no correction leads "
        "to a mirror image, so they are those of the interpolation, and their errors are up to "
        "the mirror.",
    )
)

# Where G is not ahead of vector tokens and simple rivals.
WHY: dict[str, str] = {}
