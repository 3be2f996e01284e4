"""Start and end of every process of the proxy, the only one, a supervisor or a worker: its settings, ``can't
start``, and the exit code.
"""

import gc
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

import structlog

from proxy.config.fleet import UnreadableSecret, kafka_properties, mac_key
from proxy.config.schema import Config
from proxy.member_log.refusals import MemberLogRefused
from proxy.metrics.registry import Metrics
from proxy.runtime.exit_codes import ExitCode
from proxy.runtime.fd_limits import raise_file_limit
from proxy.transport.dialer import UnreachableError
from proxy.transport.listeners import BindError
from proxy.transport.tls_errors import TlsFilesError
from translation.engine.context import Context
from translation.engine.group_router import GroupRouter
from translation.member_log.settings import FleetSettings
from translation.policy.policy import Policy
from translation.settings import TranslatorSettings
from translation.translator import Translator

if TYPE_CHECKING:
    from proxy.member_log.driver import FleetDriver

COLLECTOR_THRESHOLDS = (20_000, 10, 5)
"""Thresholds of the garbage collector's three generations (:func:`gc.set_threshold`)."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy")


class StartError(Exception):
    """The process can't start; the message says why."""


_START_ERRORS = (
    BindError,
    UnreachableError,
    StartError,
    TlsFilesError,
    UnreadableSecret,
    MemberLogRefused,
)
"""Errors whose message is all that a person needs."""


def make_translator(config: Config, policy: Policy, fleet: "FleetDriver | None" = None) -> Translator:
    """Make the translator that this configuration describes, with this policy. It asks ``fleet``, the member log.

    To be called in trio if ``experimental`` is set.
    """
    settings = TranslatorSettings(
        sole_process=config.sole_process and config.workers == 1,
        session_timeout_min_ms=config.limits.session_timeout_min_ms,
        session_timeout_max_ms=config.limits.session_timeout_max_ms,
        asks_hook=config.hook is not None,
        initial_rebalance_delay_s=config.initial_rebalance_delay_ms / 1000,
    )
    return Translator(
        policy,
        settings=settings,
        member_log=None if fleet is None else fleet.log,
        make_router=_router_maker(config),
    )


def _router_maker(config: Config) -> Callable[[Context], GroupRouter] | None:
    """What makes the router for groups of ``mode: host``; None unless this configuration may have such.

    A group is served by one process: the only one, or the replica that the member log names.
    """
    is_alone = config.workers == 1 and config.sole_process
    if not config.experimental or not (is_alone or config.fleet is not None):
        return None
    from hosting.router import make_router  # noqa: PLC0415 - a proxy without experiments does not load them

    return make_router(config.limits.session_timeout_min_ms, config.limits.session_timeout_max_ms)


def _probe_s(config: Config) -> float:
    """How often a replica writes a probe to the log, in seconds: more often where it says which one serves a group."""
    if not config.experimental:
        return FleetSettings().probe_s
    from hosting.host_log import PROBE_S  # noqa: PLC0415 - as above

    return PROBE_S


def check_fleet(config: Config) -> None:
    """Check what the member log needs on this machine: its Kafka client, and the secrets of its account.

    :raises StartError: the client is not installed.
    :raises UnreadableSecret: a secret is not there.
    """
    if config.fleet is None:
        return
    if find_spec("confluent_kafka") is None:
        raise StartError(
            "`fleet` needs confluent-kafka, which is not installed: pip install '.[fleet]' in a checkout of Epochgate"
        )
    kafka_properties(config.fleet, os.environ)
    mac_key(config.fleet)


def make_fleet(config: Config, server: str, metrics: Metrics) -> "FleetDriver | None":
    """Make the member log of this process, which ``server`` names there for people; None without ``fleet``.

    To be called in trio.

    :raises StartError: its Kafka client is not installed.
    :raises UnreadableSecret: a secret of its account is not there.
    """
    if config.fleet is None:
        return None
    check_fleet(config)
    if config.fleet.replica_names is not None and config.fleet.replica_names.own_address is None:
        raise StartError("`fleet.replica_names.own_address` is missing: `expires: auto` needs it")
    from proxy.member_log.driver import FleetDriver  # noqa: PLC0415 - a proxy without a member log does without it

    return FleetDriver(
        config.fleet,
        kafka_properties(config.fleet, os.environ),
        metrics,
        server=server,
        probe_s=_probe_s(config),
        session_timeouts_ms=(config.limits.session_timeout_min_ms, config.limits.session_timeout_max_ms),
        mac_key=mac_key(config.fleet),
    )


def tune_gc() -> None:
    """Make full garbage collections rare: reference counting frees nearly everything here.

    With Python's defaults a full collection runs each time the heap has grown by a quarter; while thousands of clients
    joined, that took a third of the processor time. Imported modules are frozen, since they are never freed.
    """
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


def run_to_exit(serve: Callable[[], None]) -> None:
    """Run ``serve``, then exit the process. An error that ends it is logged and gives a nonzero exit code."""
    raise_file_limit()
    tune_gc()
    code = ExitCode.SUCCESS
    try:
        serve()
    except* _START_ERRORS as errors:
        code = ExitCode.FAILED
        for error in leaves(errors):
            _log.error("can't start", reason=str(error))
    except* SystemExit:
        code = ExitCode.FAILED
    except* Exception as errors:  # noqa: BLE001  a bug, or an error of the system: log it, then exit
        code = ExitCode.INTERNAL_ERROR
        for error in leaves(errors):
            _log.critical("unexpected error", error=repr(error), exc_info=error)
    sys.exit(code)


def leaves(error: BaseException) -> list[BaseException]:
    """Return the exceptions inside nested exception groups; each nursery adds one level."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in leaves(one)]
    return [error]
