"""Sets up logging to standard error (``log.level``, ``log.format``): readable lines on a terminal, JSON otherwise.

Lines contain text that clients choose (ids, reasons). So control characters are escaped, long texts are cut, and each
kind of line is throttled (:mod:`proxy.runtime.log_throttle`).
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
from proxy.runtime.log_throttle import LogThrottle, ThrottleProcessor

_MAX_TEXT_CHARS = 1000
"""Longest text in a line, in characters; tracebacks are not cut."""

_BURST_S = 10
"""Lines of one kind that may come at once, as seconds' worth of ``log.lines_per_s``."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.runtime.log_setup")


def _processor(log: Log, clock: Callable[[], float] = time.monotonic) -> ThrottleProcessor:
    return ThrottleProcessor(LogThrottle(log.lines_per_s, log.lines_per_s * _BURST_S, clock))


class _Throttle:
    """Holds the throttle of the log. It is global to the process, as structlog's configuration is."""

    current = _processor(Log())


def configure(log: Log, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
    """Configure structlog, and the standard library's logging to produce the same lines.

    ``clock`` returns seconds and drives the throttle.
    """
    out = sys.stderr if stream is None else stream
    _Throttle.current = _processor(log, clock)
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
        processors=[_Throttle.current, *shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.addFilter(_is_not_suppressed)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(level, logging.WARNING))


def count_suppressed_lines(count: Callable[[], None]) -> None:
    """Call ``count`` for each log line that is suppressed from now on."""
    _Throttle.current.on_suppressed = count


def log_suppressed_lines() -> None:
    """Log how many lines were suppressed that no later line has reported. Call it periodically."""
    if suppressed := _Throttle.current.throttle.take_suppressed():
        _log.warning("log lines were suppressed", kinds=suppressed)


def _is_not_suppressed(record: logging.LogRecord) -> bool:
    """Whether there is a token for a line of a library, whose kind is its text without what is put into it.

    What strangers send to the admin port can make its server log a traceback each time.
    """
    throttle = _Throttle.current
    suppressed = throttle.throttle.suppressed(f"{record.name}: {record.msg}")
    if suppressed is None:
        throttle.on_suppressed()
        return False
    if suppressed:
        record.suppressed = suppressed
    return True


def _short(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Cut long texts in a line: an error message may quote what a client sent."""
    for name, value in line.items():
        if isinstance(value, str) and len(value) > _MAX_TEXT_CHARS:
            line[name] = f"{value[:_MAX_TEXT_CHARS]}…"
    return line


def _printable(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape control characters in a line's texts. Other values are shown by their repr, which is safe."""
    for name, value in line.items():
        if isinstance(value, str):
            line[name] = printable(value)
    return line


def _traceback(out: TextIO, exc_info: ExcInfo) -> None:
    """Write a traceback without the values of variables, which may be credentials.

    It is indented, so that an exception's message can't look like a log line of its own.
    """
    text = io.StringIO()
    structlog.dev.plain_traceback(text, exc_info)
    out.write(printable(text.getvalue(), keep="\n").replace("\n", "\n    "))
