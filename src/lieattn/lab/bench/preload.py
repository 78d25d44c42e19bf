"""What the fork server of `memory` imports once, as it takes seconds."""

import contextlib
from importlib import import_module

from ...ops.dispatch import MODULES
from .peers import PEERS

# Backends, peers, and what custom operators and autograd need of torch.
for _name in (
    *MODULES.values(),
    *(name.replace("-", "_") for name in PEERS),
    "torch._dynamo",
    "torch.fx.experimental.symbolic_shapes",
):
    with contextlib.suppress(ImportError, OSError):
        import_module(_name)
