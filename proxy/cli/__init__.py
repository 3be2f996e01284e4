"""The command line: ``epochgate run|config|policy|status|preflight|…``; :mod:`proxy.cli.table` has all of it."""

import sys
import traceback

from proxy.cli.lazy import command_line
from proxy.runtime.exit_codes import ExitCode

__all__ = ["command_line", "main"]


def main() -> None:
    """The console script."""
    try:
        command_line()()
    except Exception:  # noqa: BLE001  whoever started it must be able to tell a bug from a failure
        traceback.print_exc()
        sys.exit(ExitCode.INTERNAL_ERROR)
