"""Prometheus' own promtool."""

import pytest

from tests.skips import program


@pytest.fixture(scope="module")
def promtool() -> str:
    return program("promtool", "prometheus")
