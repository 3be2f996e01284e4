"""The process that makes the running proxy's own preflight, with bounds on its time and memory
(``preflight.timeout_s``, ``max_memory_bytes``).

Thousands of groups are asked for, decoded and judged here, so that neither the time nor the memory that this takes is
the proxy's. The order comes on standard input, the report goes to standard output, and a reason for none to standard
error. It has the lowest priority, a bound on its memory, and ends by itself.
"""

import os
import resource
import signal
import sys
import traceback
from typing import BinaryIO

import msgspec
import trio

from proxy.admin.admin_client import Credentials
from proxy.admin.preflight_report import Report, Source, shortened
from proxy.config.fleet import UnreadableSecret
from proxy.config.schema import Config
from proxy.preflight.ask import Target, account_of, ask, replicas_url
from proxy.preflight.facts import BadProperty, Version
from proxy.preflight.gaps import NOT_ASKED
from proxy.preflight.judge import judge
from proxy.preflight.order import Order
from proxy.runtime.exit_codes import ExitCode
from proxy.transport.tls_errors import TlsFilesError

FINDINGS = 200
GROUPS = 5_000
CHARACTERS = 1_000
"""Bounds of a report, which is kept in the proxy's memory and shown on a page."""

_REQUEST_S = 10.0
_KEYS = {
    NOT_ASKED[Source.PORTS]: "a proxy that has not been started",
    NOT_ASKED[Source.VERSION]: "preflight.kafka_version",
}
_NICE = 19
_ERRORS = (UnreadableSecret, BadProperty, TlsFilesError, ValueError)
"""What makes asking impossible; the message is all that a person needs."""


def main() -> None:
    """Read an order, ask, judge, and write the report.

    The exit code is not 0 if there is none; standard error then says why in its last line.
    """
    order = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Order)
    _limit(order.config)
    os.environ["no_proxy"] = "*"  # the admin port is on this machine
    try:
        report = trio.run(_preflight, order)
    except _ERRORS as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(ExitCode.FAILED)
    except Exception as error:  # noqa: BLE001  the last line is what the proxy logs and shows
        traceback.print_exc()
        sys.stderr.write(f"unexpected error: {_first(error)!r}\n")
        sys.exit(ExitCode.INTERNAL_ERROR)
    _write(report, sys.stdout.buffer)


def _first(error: BaseException) -> BaseException:
    """The first error inside of nested groups; each nursery adds one."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _limit(config: Config) -> None:
    os.nice(_NICE)
    most = config.preflight.max_memory_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    signal.setitimer(signal.ITIMER_REAL, config.preflight.timeout_s)  # SIGALRM ends it, whoever waits for it


async def _preflight(order: Order) -> Report:
    config = order.config
    version = config.preflight.kafka_version
    facts = await ask(
        Target(
            bootstrap=config.upstream.addresses,
            tls=config.upstream.tls,
            account=account_of(config, {}, None),
            policy=order.policy,
            config=config,
            proxies=(order.admin,),
            replicas=_replicas(config),
            credentials=Credentials.of(config.admin),
            version=None if version is None else Version.parse(version),
            timeout_s=_REQUEST_S,
        )
    )
    return _for_a_running_proxy(judge(facts, config.preflight.accept))


def _replicas(config: Config) -> str | None:
    named = config.preflight.replicas
    return None if named is None else replicas_url(named, tls=config.admin.tls is not None)


def _for_a_running_proxy(report: Report) -> Report:
    """Name the keys of the configuration where the command has options."""
    checks = (
        msgspec.structs.replace(one, needs=_KEYS.get(one.needs or "", one.needs)) for one in report.checks
    )
    return msgspec.structs.replace(report, checks=tuple(checks))


def _write(report: Report, to: BinaryIO) -> None:
    small = shortened(report, findings=FINDINGS, groups=GROUPS, characters=CHARACTERS)
    to.write(msgspec.msgpack.encode(small))
    to.flush()
