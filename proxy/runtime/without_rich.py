"""Imports structlog without rich, which it would load for tracebacks that this log does not use: 5 MiB of a process.

Importing this module has to come before ``import structlog``.
"""

import sys

if "rich" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]  # it can't be imported until this is taken away
    import structlog  # noqa: F401

    del sys.modules["rich"]
