"""What every process of the proxy does, whether it is the only one, a supervisor or a worker."""

import resource
import sys
from collections.abc import Callable

import structlog

from proxy.config import Config
from proxy.listeners import BindError
from proxy.tls import TlsFilesError
from proxy.upstream import UnreachableError
from translation.policy import Policy
from translation.settings import TranslatorSettings
from translation.translator import Translator

CANT_START = 1
"""Exit code for a start that failed: a port is taken, no broker answers, a worker does not come up."""

ENDED_AT_ONCE = 1
"""Exit code after a second signal: nothing was waited for."""

INTERNAL_ERROR = 70
"""Exit code for an end that should not have been (EX_SOFTWARE): the log says what happened."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy")


class StartError(Exception):
    """The process can't start; the message says why."""


def a_translator(config: Config, policy: Policy) -> Translator:
    """The translation as the configuration wants it."""
    sole_process = config.sole_process and config.workers == 1
    return Translator(policy, settings=TranslatorSettings(sole_process=sole_process))


def raise_file_limit() -> None:
    """Allow as many sockets as the system lets this process have: each client takes two."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def run_to_exit(serve: Callable[[], None]) -> None:
    """Run a process to its end; whatever goes wrong ends in a log line and an exit code, never silently."""
    raise_file_limit()
    code = 0
    try:
        serve()
    except* (BindError, UnreachableError, StartError, TlsFilesError) as errors:
        code = CANT_START
        for error in leaves(errors):
            _log.error("can't start", reason=str(error))
    except* SystemExit:
        code = ENDED_AT_ONCE
    except* Exception as errors:  # noqa: BLE001  a bug, or a system that refuses what it must give: said, then the end
        code = INTERNAL_ERROR
        for error in leaves(errors):
            _log.critical("ended by an error", error=repr(error), exc_info=error)
    sys.exit(code)


def leaves(error: BaseException) -> list[BaseException]:
    """The exceptions in a group of groups, one for each nursery that they passed."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in leaves(one)]
    return [error]
