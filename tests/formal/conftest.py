"""TLC, or the reason why it is not here."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.skips import Need, without
from tools.tla.jars import TlcUnavailableError, ensure_tlc


def _ensure_tlc() -> None:
    """Skip the test where TLC can't be fetched; in CI it fails."""
    try:
        ensure_tlc()
    except TlcUnavailableError as error:
        without(Need.KAFKA, error)


@pytest.fixture
def tlc(tmp_path: Path) -> Path:
    """A folder to run TLC in."""
    _ensure_tlc()
    return tmp_path


@pytest.fixture(scope="module")
def tlc_folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Makes folders to run TLC in, for a whole module of tests."""
    _ensure_tlc()
    return lambda: tmp_path_factory.mktemp("tlc")
