"""Log lines: for people on a terminal, as JSON otherwise; always on standard error."""

import logging
import sys
from typing import TextIO

import structlog

from proxy.config import Log


def configure(log: Log, stream: TextIO | None = None) -> None:
    """Set up structlog, and the standard library's logging to come out alike."""
    out = sys.stderr if stream is None else stream
    for_people = log.format == "console" or (log.format == "auto" and out.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="%H:%M:%S.%f" if for_people else "iso", utc=not for_people),
    ]
    if for_people:
        rendering: list[structlog.typing.Processor] = [structlog.dev.ConsoleRenderer(colors=out.isatty())]
    else:
        rendering = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    level = logging.getLevelName(log.level.upper())
    structlog.configure(
        processors=[*shared, *rendering],
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
