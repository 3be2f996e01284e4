"""Prometheus' own promtool."""

import os
import shutil

import pytest


@pytest.fixture(scope="module")
def promtool() -> str:
    path = shutil.which("promtool")
    if path is None:
        reason = "no promtool here: install Debian's package `prometheus`"
        if os.environ.get("EPOCHGATE_REQUIRE_TOOLS"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path
