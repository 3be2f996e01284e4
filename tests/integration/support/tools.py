"""Programs of other packages that a test needs: found, or a reason to skip."""

import os
import shutil

import pytest

REQUIRE = "EPOCHGATE_REQUIRE_TOOLS"


def needed(program: str, package: str) -> str:
    """The path of a program. Without it the test is skipped, or fails where there must be one (as in CI)."""
    path = shutil.which(program)
    if path is not None:
        return path
    reason = f"no {program} here: install Debian's package `{package}`"
    if os.environ.get(REQUIRE):
        pytest.fail(f"{REQUIRE} is set, but there is {reason}")
    pytest.skip(reason)
