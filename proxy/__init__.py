"""The process: listeners, connections, the relay of frames, configuration, command line, admin HTTP.

The only room that knows sockets, clocks and tasks (trio). What a group call means is decided in
``translation``; how a message looks on the wire is decided in ``protocol_codecs``.
"""

import sys

VERSION = "0.1.0"  # as pyproject.toml has it; a constant, since reading the package's metadata takes longer

# If it can, structlog loads rich for tracebacks that this log does not use (proxy/runtime/log_setup.py): 5 MiB.
if "rich" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]  # it can't be imported until this is taken away
    import structlog  # noqa: F401

    del sys.modules["rich"]
