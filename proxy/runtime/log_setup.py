"""Log lines: for people on a terminal, as JSON otherwise; always on standard error.

Lines hold what clients make up, so nothing in them can be taken for a command by a terminal or for another line, and
no client can have very many of them written (:mod:`proxy.runtime.log_throttle`).
"""

import io
import logging
import os
import sys
import time
from collections.abc import Callable, MutableMapping
from typing import Any, TextIO

import structlog
from structlog.typing import ExcInfo

from protocol_codecs.printable import printable
from proxy.config.schema import Log
from proxy.runtime.log_throttle import LogThrottle

_LONGEST = 1000
"""Characters of one text in a line; tracebacks are not cut."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.runtime.log_setup")


class _Throttle:
    """The throttle of the log, which belongs to the whole process as structlog's configuration does."""

    now = LogThrottle(Log().lines_per_s)


def configure(log: Log, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
    """Set up structlog, and the standard library's logging to come out alike. ``clock`` (in seconds) throttles."""
    out = sys.stderr if stream is None else stream
    _Throttle.now = LogThrottle(log.lines_per_s, clock)
    for_people = log.format == "console" or (log.format == "auto" and out.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        _short,
        structlog.processors.TimeStamper(fmt="%H:%M:%S.%f" if for_people else "iso", utc=not for_people),
    ]
    if for_people:
        rendering: list[structlog.typing.Processor] = [
            _printable,
            structlog.dev.ConsoleRenderer(
                colors=out.isatty() and not os.environ.get("NO_COLOR"), exception_formatter=_traceback
            ),
        ]
    else:
        rendering = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    level = logging.getLevelName(log.level.upper())
    structlog.configure(
        processors=[_Throttle.now, *shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(level, logging.WARNING))


def count_left_out(count: Callable[[], None]) -> None:
    """Have each line counted that is left out from now on."""
    _Throttle.now.on_left_out = count


def say_left_out() -> None:
    """Say which lines were left out and not said yet; to be called now and then."""
    if left_out := _Throttle.now.left_out():
        _log.warning("log lines were left out", kinds=left_out)


def _short(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Cut the texts of a line: a message about what a client sent may quote it."""
    for name, value in line.items():
        if isinstance(value, str) and len(value) > _LONGEST:
            line[name] = f"{value[:_LONGEST]}…"
    return line


def _printable(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Make the texts of a line safe for a terminal; what is no text is shown by its repr, which is safe."""
    for name, value in line.items():
        if isinstance(value, str):
            line[name] = printable(value)
    return line


def _traceback(out: TextIO, exc_info: ExcInfo) -> None:
    """Write a traceback, without the values of variables: they may be credentials.

    It is indented, so that no message of an exception looks like another log line.
    """
    text = io.StringIO()
    structlog.dev.plain_traceback(text, exc_info)
    out.write(printable(text.getvalue(), keep="\n").replace("\n", "\n    "))
