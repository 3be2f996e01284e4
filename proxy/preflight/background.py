"""The running proxy's own preflights (``preflight.every_s``): some seconds after its start, after each new policy,
and every hour.

One that found something, or could not see all, is followed by another after a minute, and by others at intervals that
double, so that a finding does not stay for long when it is no longer true.

Each is a process (:mod:`proxy.preflight.child`) with a bound on its time, its memory and its answer, so that none can
delay a client or end the proxy. What it finds is logged once, counted, and kept for the admin port. That one came to no
end is said too: its checks count as unknown then, whatever the one before has found.
"""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec
import structlog
import trio

from protocol_codecs.foreign import MsgpackDecoder, Undecodable
from proxy.admin.preflight_report import Finding, Report, Status
from proxy.admin.preflight_view import PreflightBoard, PreflightState
from proxy.config.schema import Config
from proxy.metrics.registry import Metrics
from proxy.preflight.order import Order
from translation.policy.policy import Policy

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.preflight")

_DELAY_S = 5.0
"""From the start, or from a new policy, to the preflight; other changes may follow, and clients have to come back."""
_GAP_S = 30.0
"""Between the end of a preflight and the next one, however often the policy changes."""
_AGAIN_S = 60.0
"""From a preflight that found something to the next one, at first."""
_LINES = 20
"""Findings that are logged after one preflight; the page has all."""
_GROUPS_LOGGED = 5
_MOST_BYTES = 16 * 1024 * 1024
"""Of a report; see the bounds in :mod:`proxy.preflight.child`."""
_report = MsgpackDecoder(Report, _MOST_BYTES)
_MOST_ERROR_BYTES = 16 * 1024
_MARGIN_S = 5.0
_SAID = "the preflight's process "
_COMMAND = (sys.executable, "-m", "proxy.preflight")


class NoReport(Exception):
    """A preflight came to no end; the message says why."""


Make = Callable[[Order], Awaitable[Report]]
"""Makes a report, or raises :class:`NoReport`."""


class _Ports(Protocol):
    @property
    def admin(self) -> int: ...


class _Process(Protocol):
    """The process that owns the admin port: the only one, or the supervisor."""

    metrics: Metrics
    preflight: PreflightBoard

    @property
    def ports(self) -> _Ports: ...


class BackgroundPreflight:
    """Makes preflights while the proxy runs. :meth:`started` tells it that clients are served, and begins the first.

    ``jitter`` returns a factor about 1, by which replicas that were started together do not ask together.
    """

    def __init__(
        self,
        process: _Process,
        config: Config,
        policy: Policy,
        make: Make | None = None,
        jitter: Callable[[], float] = lambda: random.uniform(0.9, 1.1),  # noqa: S311  no secret
    ) -> None:
        self._board = process.preflight
        self._metrics = process.metrics
        self._config = config
        self._policy = policy
        self._make = make or make_in_process
        self._jitter = jitter
        self._admin = config.admin.url(process.ports.admin)
        self._serving = trio.Event()
        self._changed = trio.Event()
        self._logged: frozenset[tuple[str, str]] = frozenset()
        self._again_s = _AGAIN_S
        self._show(state=PreflightState.WAITING)

    def started(self, _value: None = None) -> None:
        """Begin: clients are served. See :class:`trio.TaskStatus`."""
        self._serving.set()

    def set_config(self, config: Config) -> None:
        """Judge by another configuration from now on, and soon."""
        self._config = config
        self._changed.set()

    def set_policy(self, policy: Policy) -> None:
        """Judge by another policy from now on, and soon."""
        self._policy = policy
        self._changed.set()

    async def run(self) -> None:
        """Make preflights until cancelled."""
        section = self._config.preflight
        await self._serving.wait()
        wait_s = min(_DELAY_S, section.every_s)
        while True:
            await trio.sleep(wait_s * self._jitter())
            self._changed = trio.Event()
            try:
                await self._once()
            except Exception as error:  # noqa: BLE001  a bug here must not end the proxy
                self._metrics.internal_errors.labels("upkeep").inc()
                self._failed(f"unexpected error: {error!r}")
            await trio.sleep(min(_GAP_S, section.every_s))
            with trio.move_on_after(self._next_after_s() * self._jitter()):
                await self._changed.wait()
            wait_s = min(_DELAY_S, section.every_s) if self._changed.is_set() else 0.0

    def _next_after_s(self) -> float:
        """How long this report may stand, in seconds: as configured, or less if not everything was well."""
        report, every_s = self._board.view.report, self._config.preflight.every_s
        if report is None or report.status is Status.PASSED or self._changed.is_set():
            self._again_s = _AGAIN_S
            return every_s
        after_s = min(self._again_s, every_s)
        self._again_s = min(2 * self._again_s, every_s)
        return after_s

    async def _once(self) -> None:
        began, asked_at = trio.current_time(), time.time()
        version = self._metrics.policy_in_force().version
        order = Order(config=self._config, policy=self._policy, admin=self._admin)
        self._show(running=True)
        try:
            report = await self._make(order)
        except NoReport as error:
            self._failed(str(error))
            return
        finally:
            self._show(running=False)
        took_s = trio.current_time() - began
        self._show(
            state=PreflightState.DONE,
            failure=None,
            asked_at=asked_at,
            took_s=took_s,
            policy_version=version,
            report=report,
        )
        self._metrics.preflight_runs.labels("done").inc()
        self._metrics.preflight_asked_at.set(asked_at)
        self._count({status: sum(one.status is status for one in report.checks) for status in Status})
        self._tell(report, took_s)

    def _failed(self, why: str) -> None:
        self._show(state=PreflightState.FAILED, failure=why)
        self._metrics.preflight_runs.labels("failed").inc()
        from proxy.preflight.checks.table import CHECKS  # noqa: PLC0415 - else the child's alone

        self._count({Status.UNKNOWN: len(CHECKS)})
        _log.warning("preflight failed", reason=why)

    def _count(self, checks: dict[Status, int]) -> None:
        for status in Status:
            self._metrics.preflight_checks.labels(status).set(checks.get(status, 0))

    def _tell(self, report: Report, took_s: float) -> None:
        """Log what is new since the preflight before."""
        told = [one for one in report.findings if not one.accepted]
        new = [one for one in told if (one.check, one.what) not in self._logged]
        self._logged = frozenset((one.check, one.what) for one in told)
        for finding in new[:_LINES]:
            _log_finding(finding)
        _log.info(
            "preflight done",
            status=str(report.status),
            found=sum(not one.unknown for one in told),
            unknown=sum(one.unknown for one in told),
            not_logged=max(0, len(new) - _LINES),
            to_move=report.to_move,
            took_s=round(took_s, 1),
        )

    def _show(self, **changed: object) -> None:
        self._board.view = msgspec.structs.replace(self._board.view, **changed)


def _log_finding(finding: Finding) -> None:
    groups = len(finding.groups) + finding.groups_left_out
    about = {} if not groups else {"groups": groups, "such_as": list(finding.groups[:_GROUPS_LOGGED])}
    write = _log.info if finding.unknown else _log.warning
    kind = "preflight: unknown" if finding.unknown else "preflight: found"
    write(kind, check=finding.check, what=finding.what, do=finding.do, **about)


async def make_in_process(order: Order) -> Report:
    """Make a report in a process of its own, which is killed when its time is over.

    :raises NoReport: it could not be started, took too long, wrote too much, or said why there is none.
    """
    timeout_s = order.config.preflight.timeout_s
    try:
        process = await trio.lowlevel.open_process(
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # the terminal's signals go to the proxy alone
        )
    except OSError as error:
        raise NoReport(f"{_SAID}could not be started: {error.strerror}") from error
    try:
        with trio.fail_after(timeout_s + _MARGIN_S):
            return await _talk(process, order)
    except trio.TooSlowError:
        raise NoReport(_too_long(order)) from None
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


def _too_long(order: Order) -> str:
    return f"it took longer than {order.config.preflight.timeout_s:g} s"


async def _talk(process: trio.Process, order: Order) -> Report:
    written, said = bytearray(), bytearray()
    assert process.stdin is not None  # noqa: S101  as is asked for
    assert process.stdout is not None  # noqa: S101
    assert process.stderr is not None  # noqa: S101
    async with process.stdin, process.stdout, process.stderr, trio.open_nursery() as nursery:
        nursery.start_soon(_tell, process.stdin, msgspec.msgpack.encode(order))
        nursery.start_soon(_read, process.stdout, written, _MOST_BYTES)
        nursery.start_soon(_read, process.stderr, said, _MOST_ERROR_BYTES)
    code = await process.wait()
    if code == -signal.SIGALRM:
        raise NoReport(_too_long(order))
    if code != 0:
        lines = said.decode(errors="replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), f"it ended with the exit code {code}")
        raise NoReport(last[:1000])
    if len(written) >= _MOST_BYTES:
        raise NoReport(f"{_SAID}wrote more than {_MOST_BYTES} bytes")
    try:
        return _report.decode(bytes(written))
    except Undecodable as error:
        raise NoReport(f"{_SAID}wrote no report: {error}") from error


async def _tell(to: trio.abc.SendStream, order: bytes) -> None:
    try:
        async with to:
            await to.send_all(order)
    except trio.BrokenResourceError:
        return  # it has ended, and says why


async def _read(stream: trio.abc.ReceiveStream, into: bytearray, most: int) -> None:
    """Read to the end; what is beyond ``most`` bytes is thrown away."""
    while piece := await stream.receive_some():
        into += piece[: most - len(into)]
