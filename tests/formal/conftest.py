"""TLC, or the reason why it is not here."""

import os
from pathlib import Path

import pytest

from tools.tla.jars import TlcUnavailableError, ensure_tlc


@pytest.fixture
def tlc(tmp_path: Path) -> Path:
    """A folder to run TLC in; where TLC can't be fetched the test is skipped, and in CI fails."""
    try:
        ensure_tlc()
    except TlcUnavailableError as error:
        if os.environ.get("EPOCHGATE_REQUIRE_KAFKA"):
            pytest.fail(f"EPOCHGATE_REQUIRE_KAFKA is set, but {error}")
        pytest.skip(str(error))
    return tmp_path
