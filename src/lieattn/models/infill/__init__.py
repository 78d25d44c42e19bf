"""Hidden poses of an ordered set from the visible ones."""

from .config import InfillConfig as InfillConfig
from .loss import infill_loss as infill_loss
from .model import Infill as Infill
from .model import InfillModel as InfillModel
from .model import InfillOutput as InfillOutput
