"""Neural rivals of Lie-algebra attention. One file each.

>>> BASELINES["A"].title
'vector tokens'
"""

from . import ipa, vector
from .base import Baseline as Baseline
from .vector import PairCompletionModel as PairCompletionModel
from .vector import PairTransformer as PairTransformer
from .vector import VectorCompletionModel as VectorCompletionModel
from .vector import VectorInfillModel as VectorInfillModel
from .vector import VectorTransformer as VectorTransformer
from .vector import absolute_features as absolute_features

BASELINES: dict[str, Baseline] = {}


def register(baseline: Baseline) -> Baseline:
    """Add a neural rival: `lieattn train --model NAME` trains it, and so does `lieattn realdata`.

    Raises ValueError if the name is taken, or is none that `--model` can take.

    >>> from lieattn.models import baselines
    >>> class Mine(baselines.VectorInfillModel):
    ...     pass
    >>> _ = baselines.register(baselines.Baseline("EXAMPLE", "vector tokens of mine", Mine))
    >>> del baselines.BASELINES["EXAMPLE"]
    """
    name = baseline.name
    if not name or name != name.upper() or len(name.split()) != 1:
        raise ValueError(f"a baseline's name is one word in upper case, got {name!r}.")
    if name in ("G", "C") or BASELINES.get(name, baseline) is not baseline:
        raise ValueError(f"the model {name!r} exists. Choose another name.")
    BASELINES[name] = baseline
    return baseline


for _module in (vector, ipa):
    register(_module.BASELINE)
