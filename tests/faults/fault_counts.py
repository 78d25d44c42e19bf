"""How often each promise is tried: all counts in one place, and the share that a run draws."""

import os

INTERPRETED = "poses in the Triton interpreter"

# Tries of a whole run, `make test-faults-long`. Poses: sets a combination of group, dtype, chart,
# backend and option.
WHOLE = {
    "poses": 10_000,
    INTERPRETED: 100,
    "wild sets": 2_000,
    "requests": 1_000,
    "crafted checkpoints": 1_000,
    "crafted checkpoints as commands": 200,
    "flipped bits": 500,
    "mutated files": 7_000,
    "signals": 200,
    "kills": 24,
    "full disks": 25,
    "concurrent commands": 5,
    "threads": 400,
    "sets for determinism": 16,
    "forks": 10,
}

# "smoke" is part of `make test`.
SHARES = {"smoke": 0.004, "quick": 0.02, "full": 0.1, "long": 1.0}

LEVEL = os.environ.get("LIEATTN_FAULTS", "smoke")
SEED = int(os.environ.get("LIEATTN_FAULT_SEED", "0"))


def tries(what: str, least: int = 1) -> int:
    """How often this run tries something."""
    return max(least, round(WHOLE[what] * SHARES[LEVEL]))
