"""What several tests of the lab share."""

from __future__ import annotations

from pathlib import Path

import pytest
from walks import TINY, command, write_tum


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a short training on a walk, which lies beside it."""
    folder = tmp_path_factory.mktemp("trained")
    walk = write_tum(folder / "walk.tum")
    assert command("train", walk, *TINY, "--out", folder / "run")[0] == 0
    return folder / "run"
