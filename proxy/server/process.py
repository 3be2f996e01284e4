"""What every process of the proxy does, whether it is the only one, a supervisor or a worker."""

import gc
import sys
from collections.abc import Callable

import structlog

from proxy.cluster.dialer import UnreachableError
from proxy.config.schema import Config
from proxy.console.exit_codes import ExitCode
from proxy.runtime.fd_limits import raise_file_limit
from proxy.transport.listeners import BindError
from proxy.transport.tls_context import TlsFilesError
from translation.policy.policy import Policy
from translation.settings import TranslatorSettings
from translation.translator import Translator

COLLECTOR_THRESHOLDS = (20_000, 10, 5)
"""When the garbage collector looks: at the youngest objects, at those that survived once, at all of them."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy")


class StartError(Exception):
    """The process can't start; the message says why."""


def make_translator(config: Config, policy: Policy) -> Translator:
    """The translation as the configuration wants it."""
    sole_process = config.sole_process and config.workers == 1
    settings = TranslatorSettings(
        sole_process=sole_process,
        session_timeout_min_ms=config.limits.session_timeout_min_ms,
        session_timeout_max_ms=config.limits.session_timeout_max_ms,
    )
    return Translator(policy, settings=settings)


def tune_gc() -> None:
    """Let the garbage collector look at everything seldom: nearly all of what is freed here is freed without it.

    What a process holds grows with its clients, and with Python's defaults a full collection comes each time it has
    grown by a quarter: while thousands of clients join, that was a third of the processor time. What was imported
    stays for good and need not be looked at again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


def run_to_exit(serve: Callable[[], None]) -> None:
    """Run a process to its end; whatever goes wrong ends in a log line and an exit code, never silently."""
    raise_file_limit()
    tune_gc()
    code = ExitCode.SUCCESS
    try:
        serve()
    except* (BindError, UnreachableError, StartError, TlsFilesError) as errors:
        code = ExitCode.FAILED
        for error in leaves(errors):
            _log.error("can't start", reason=str(error))
    except* SystemExit:
        code = ExitCode.FAILED
    except* Exception as errors:  # noqa: BLE001  a bug, or a system that refuses what it must give: said, then the end
        code = ExitCode.INTERNAL_ERROR
        for error in leaves(errors):
            _log.critical("ended by an error", error=repr(error), exc_info=error)
    sys.exit(code)


def leaves(error: BaseException) -> list[BaseException]:
    """The exceptions in a group of groups, one for each nursery that they passed."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in leaves(one)]
    return [error]
