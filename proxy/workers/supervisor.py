"""The supervisor: it owns the ports, hands connections out, and keeps its workers alive. It serves no client itself."""

import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import structlog
import trio
from msgspec.structs import replace

from proxy.config.file_watcher import Watched
from proxy.config.schema import Address, Config, Limits
from proxy.console.exit_codes import ExitCode
from proxy.metrics.bounds import Bound
from proxy.metrics.registry import Metrics
from proxy.observability.admin_http import admin_app, serve_admin
from proxy.observability.group_metrics import GroupCollector, Labels, figures_of_view
from proxy.observability.metrics_aggregation import Family, Totals
from proxy.observability.snapshot import Snapshot, merge
from proxy.runtime.log_setup import count_suppressed_lines
from proxy.runtime.log_throttle import LogThrottle
from proxy.server.server import Ports, Readiness
from proxy.transport.listeners import AcceptPort, BindError, bind, bind_listener, port_of
from proxy.workers.affinity import worker_of
from proxy.workers.control_messages import Handed, PortKey, SetPolicy, Start
from proxy.workers.last_good_tls import LastGoodTls
from proxy.workers.worker_process import Slot
from translation.policy.policy import Policy

T = TypeVar("T")
_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.workers")

_ANSWER_S = 5.0
_LOOK_S = 2.0
"""Seconds between two looks at the workers' metrics; what a worker counts after the last one dies with it."""

_AGAIN_S = 1.0
_AFTER_GRACE_S = 5.0


class Supervisor:
    """One supervisor with its workers. Constructing it binds all ports.

    :raises BindError: one of them can't be had.
    :raises TlsFilesError: a certificate can't be used.
    """

    def __init__(self, config: Config, policy: Policy, folder: Path) -> None:
        self.metrics = Metrics()
        count_suppressed_lines(lambda: self.metrics.hit(Bound.LOG_LINES))
        self._group_metrics = GroupCollector(Labels(config.metrics.groups), tuple)
        self.metrics.provide_groups(self._group_metrics)
        self._config = config
        self._policy = policy
        self._folder = folder
        self._tls = LastGoodTls(config)
        with ExitStack() as bound_so_far:
            self._admin_socket = bind(config.admin.bind, config.admin.port)
            bound_so_far.callback(self._admin_socket.close)
            listeners = []
            for listener in config.listeners:
                listeners.append(bind_listener(listener, self.metrics.accept_failures))
                bound_so_far.callback(listeners[-1].close)
            self._close_ports = bound_so_far.pop_all().close
        self.ports = Ports(tuple(listeners), port_of(self._admin_socket))
        self._by_key: dict[PortKey, AcceptPort] = {
            (n, node_id): port for n, bound in enumerate(listeners) for node_id, port in bound.ports.items()
        }
        self._suspended: set[PortKey] = set()
        self._ports_changed = trio.Event()
        self._throttle = LogThrottle()
        self._totals = Totals(self.metrics.registry)
        self._stopping = trio.Event()
        self._reason: str | None = "starting"
        self._slots = [
            Slot(
                n,
                partial(self._start, n),
                self.metrics,
                on_away=self._look_at_ports,
                on_death=self._totals.died,
            )
            for n in range(config.workers)
        ]

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until :meth:`stop` is called, then drain. ``task_status`` is told when clients are welcome.

        :raises StartError: a worker did not come up.
        :raises BindError: a port was taken meanwhile.
        """
        admin_may_close = trio.Event()
        try:
            async with trio.open_nursery() as nursery:
                app = admin_app(self, self._config.visibility)
                nursery.start_soon(serve_admin, self._admin_socket, app, admin_may_close.wait)
                async with trio.open_nursery() as working:
                    for slot in self._slots:
                        working.start_soon(slot.run)
                    await self._until_serving()
                    if not self._stopping.is_set():
                        await self._hand_out(task_status)
                    await self._drain(working)
                admin_may_close.set()
        finally:
            self._close_ports()

    def stop(self) -> None:
        """Drain and end."""
        self._stopping.set()

    async def stop_at_signals(self) -> None:
        """Drain at SIGTERM or SIGINT; end at once at the second."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                if self._stopping.is_set():
                    _log.warning("ending at once", signal=signal.Signals(number).name)
                    for slot in self._slots:
                        slot.kill()
                    raise SystemExit(ExitCode.FAILED)
                _log.info("draining", signal=signal.Signals(number).name)
                self.stop()

    def set_policy(self, policy: Policy) -> None:
        """Another policy holds from now on, also for workers that are started later."""
        self._policy = policy
        for slot in self._slots:
            slot.say(SetPolicy(policy))

    @property
    def certificates(self) -> tuple[Watched, ...]:
        """What is read again for workers to come; the others watch their files themselves, and get SIGHUP from here."""
        return (self._tls, _Workers(self._slots))

    # -- what the admin port tells -------------------------------------------------------------------------------

    async def ask(self, what: str, kind: type[T]) -> list[T]:
        """See :class:`proxy.observability.process_queries.Processes`."""
        answers = [answer for _, answer in sorted((await self._ask_each(what, kind)).items())]
        return [cast("T", self._with_policy(one)) if isinstance(one, Snapshot) else one for one in answers]

    async def exposition(self) -> bytes:
        """The metrics of all processes as one."""
        await self._look_at_metrics()
        told = await self.ask("groups", Snapshot)
        groups = merge(told).groups if told else ()
        self._group_metrics.figures = lambda: map(figures_of_view, groups)
        self._group_metrics.labels.keep({group.id for group in groups})
        return self._totals.expose()

    async def not_ready(self) -> str | None:
        """Why no clients should come; None if they should."""
        if self._reason is not None:
            return self._reason
        told = await self._ask_each("readiness", Readiness)
        for slot in self._slots:
            if slot.number not in told:
                return f"worker {slot.number} does not answer"
            if (reason := told[slot.number].reason) is not None:
                return f"worker {slot.number}: {reason}"
        return None

    async def not_alive(self) -> str | None:
        """Why the process should be replaced; None as long as it goes on by itself."""
        told = await self._ask_each("readiness", Readiness)
        stuck = [slot.number for slot in self._slots if slot.serving and slot.number not in told]
        return f"workers {stuck} do not answer" if stuck else None

    def _with_policy(self, picture: Snapshot) -> Snapshot:
        """Workers are handed policies; how many there were, and whether the file was refused, is known here."""
        version, current = self.metrics.policy_in_force()
        return replace(picture, policy_version=version, policy_is_current=current)

    async def _ask_each(self, what: str, kind: type[T]) -> dict[int, T]:
        answers: dict[int, T] = {}

        async def one(slot: Slot) -> None:
            life = slot.life
            answer = await slot.ask(what, kind)
            if answer is not None and slot.life == life and slot.serving:
                answers[slot.number] = answer

        with trio.move_on_after(_ANSWER_S):
            async with trio.open_nursery() as nursery:
                for slot in self._slots:
                    if slot.serving:
                        nursery.start_soon(one, slot)
        return answers

    async def _look_at_metrics(self) -> None:
        self.metrics.workers.set(sum(slot.serving for slot in self._slots))
        lives = {slot.number: slot.life for slot in self._slots}
        for number, told in (await self._ask_each("metrics", list[Family])).items():
            slot = self._slots[number]
            if slot.serving and slot.life == lives[number]:
                self._totals.heard(number, told)

    async def _keep_looking(self) -> None:
        while True:
            await self._look_at_metrics()
            await trio.sleep(_LOOK_S)

    # -- workers and ports ---------------------------------------------------------------------------------------

    def _start(self, number: int) -> Start:
        ports = [(key, port.number) for key, port in self._by_key.items()]
        return Start(
            number, _share_of(self._config), self._policy, ports, str(self._folder), self._tls.contents
        )

    async def _until_serving(self) -> None:
        async with trio.open_nursery() as nursery:

            async def all_serve() -> None:
                for slot in self._slots:
                    await slot.served.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(all_serve)
            await self._stopping.wait()
            nursery.cancel_scope.cancel()

    async def _hand_out(self, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as nursery:
            for key, port in self._by_key.items():
                port.listen()
                nursery.start_soon(port.accept, self._acceptor(key))
            for bound in self.ports.listeners:
                address = Address(bound.listener.bind, bound.port)
                _log.info("listening", address=str(address), workers=len(self._slots))
            nursery.start_soon(self._keep_ports)
            nursery.start_soon(self._keep_looking)
            self._look_at_ports()
            self._reason = None
            task_status.started()
            await self._stopping.wait()
            nursery.cancel_scope.cancel()

    def _acceptor(self, key: PortKey) -> Callable[[socket.socket, str], None]:
        def accepted(connection: socket.socket, host: str) -> None:
            slot = self._slots[worker_of(host, len(self._slots))]
            if not slot.line.add(Handed(key, host), connection):
                connection.close()
                self.metrics.connections_refused.labels("no_worker").inc()
                if (suppressed := self._throttle.suppressed("")) is not None:
                    reason = "too many wait for the worker"
                    _log.warning("connection refused", client=host, reason=reason, suppressed=suppressed)

        return accepted

    def _look_at_ports(self) -> None:
        self._ports_changed.set()

    async def _keep_ports(self) -> None:
        """Refuse clients at the ports of nodes that a worker can't reach, as a process of its own would."""
        while True:
            await self._ports_changed.wait()
            self._ports_changed = trio.Event()
            away = {key for slot in self._slots for key in slot.away}
            for key in away - self._suspended:
                self._by_key[key].suspend()
            still: set[PortKey] = set()
            for key in self._suspended - away:
                try:
                    self._by_key[key].listen()
                except BindError as error:
                    _log.error("can't listen again", reason=str(error))
                    still.add(key)
            self._suspended = away | still
            if still:
                await trio.sleep(_AGAIN_S)
                self._ports_changed.set()

    async def _drain(self, working: trio.Nursery) -> None:
        self._reason = "draining"
        for bound in self.ports.listeners:
            bound.close()
        with trio.CancelScope(
            deadline=trio.current_time() + self._config.drain.grace_s + _AFTER_GRACE_S
        ) as time:
            async with trio.open_nursery() as nursery:
                for slot in self._slots:
                    nursery.start_soon(slot.drained)
        if time.cancelled_caught:
            _log.warning("a worker did not end in time, and is killed")
        working.cancel_scope.cancel()
        _log.info("drained")


def _share_of(config: Config) -> Config:
    """The configuration of one of the workers: what is counted for all of them together is shared out."""
    whole = config.limits.max_connections
    share = whole if whole == Limits().max_connections else max(1, whole // config.workers)
    return replace(config, limits=replace(config.limits, max_connections=share))


class _Workers:
    """The workers, as something that is reloaded; no file of their own is watched here."""

    files: tuple[Path, ...] = ()

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._slots = slots

    def reload(self, _why: str) -> None:
        """Have them read their certificates again."""
        for slot in self._slots:
            slot.signal(signal.SIGHUP)
