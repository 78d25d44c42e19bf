"""Hidden poses of an ordered set from the visible ones."""

from .config import InfillConfig
from .loss import infill_loss
from .model import Infill, InfillModel, InfillOutput

__all__ = ["Infill", "InfillConfig", "InfillModel", "InfillOutput", "infill_loss"]
