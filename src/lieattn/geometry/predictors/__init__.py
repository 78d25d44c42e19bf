"""Classical predictors of hidden poses: rivals of every trained model. One file each.

>>> PREDICTORS["nearest"].title
'copy of the nearest visible pose'
"""

from . import alike, geodesic, nearest
from .base import Predictor

PREDICTORS: dict[str, Predictor] = {}


def register(predictor: Predictor) -> Predictor:
    """Add a predictor to the tables of `lieattn evaluate` and `lieattn realdata`.

    Raises ValueError if another predictor has the name.

    >>> from lieattn.geometry import predictors
    >>> def still(group, poses, visible, features):
    ...     return group.identity(*visible.shape).to(poses).where(~visible[..., None, None], poses)
    >>> _ = predictors.register(predictors.Predictor("example", "the identity", still))
    >>> del predictors.PREDICTORS["example"]
    """
    if PREDICTORS.get(predictor.name, predictor) is not predictor:
        raise ValueError(f"the predictor {predictor.name!r} exists. Choose another name.")
    PREDICTORS[predictor.name] = predictor
    return predictor


for _module in (nearest, geodesic, alike):
    register(_module.PREDICTOR)

__all__ = ["PREDICTORS", "Predictor", "register"]
