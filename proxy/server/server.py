"""One proxy process: binds its ports, starts its parts in the order in which they can fail, and drains at the end."""

import signal
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import trio

from proxy.admin.admin_http import SingleProcessBackend, access_to, admin_app, serve_admin
from proxy.admin.preflight_view import PreflightBoard
from proxy.config.schema import Config
from proxy.metrics.bounds import Bound
from proxy.metrics.periodic import keep_running, run_periodically
from proxy.metrics.registry import Metrics
from proxy.runtime.exit_codes import ExitCode
from proxy.runtime.file_watcher import Reloadable
from proxy.runtime.log_setup import count_suppressed_lines
from proxy.server.compose import compose
from proxy.server.drain import drain
from proxy.server.served_listeners import ServedListeners
from proxy.transport.bootstrap import reach_brokers
from proxy.transport.dialer import Open
from proxy.transport.epoll import EpollLoop
from proxy.transport.listeners import Binder, PortBinder, Ports, bind, port_of
from proxy.transport.tcp_stream import open_tcp
from translation.moving.command_writes import CommandOutcome
from translation.policy.policy import Policy
from translation.rollout.commands import Command
from translation.translator import Translator

if TYPE_CHECKING:
    from proxy.admin.access import Access
    from proxy.control.listener import ControlListener
    from proxy.member_log.driver import FleetDriver
    from proxy.server.reconfigure import Prepared
    from proxy.transport.tls_context import Certificates, Contents

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.server.server")

_WALL_CLOCK_S = 60.0
"""Seconds between two looks at what the clock on the wall shows."""


class Server:
    """One proxy process. Constructing it reads all certificates and binds all ports.

    A worker passes the ``binder`` of its ports; it has no admin port. ``query_handlers`` answer the queries of other
    processes (:mod:`proxy.admin.process_queries`).

    ``policy`` is the one that the translator has, for observability; ``replica`` names this process there, by default
    with its host name; ``folder`` is that of the configuration file.

    ``reloadables`` have to be reloaded when their files change. ``last_good_tls`` replaces files that can't be used at
    the start: their contents before, by the number of the listener or :data:`proxy.transport.tls_context.UPSTREAM`.

    ``fleet`` is the member log that the translator asks; it is run here, from before clients can connect until all are
    gone. ``metrics`` are those that it has already.

    :raises BindError: a port can't be bound.
    :raises TlsFilesError: a certificate can't be used.
    :raises UnreadableSecret: a file of `identity`, or the admin port's token, can't be used.
    """

    def __init__(
        self,
        config: Config,
        translator: Translator,
        open_: Open = open_tcp,
        *,
        binder: Binder | None = None,
        metrics: Metrics | None = None,
        policy: Policy | None = None,
        replica: str | None = None,
        folder: Path | None = None,
        last_good_tls: "Mapping[int, Contents] | None" = None,
        fleet: "FleetDriver | None" = None,
    ) -> None:
        self.config, self.translator, self._fleet = config, translator, fleet
        self._folder = folder or Path()
        self.metrics = metrics or Metrics()
        count_suppressed_lines(lambda: self.metrics.hit(Bound.LOG_LINES))
        self.upstream_certificates: Certificates | None = None
        self.open_plainly = open_
        """Opens connections to brokers where there is no TLS."""
        certificates: list[Certificates | None] = [None for _ in config.listeners]
        if any((config.upstream.tls, *(one.tls for one in config.listeners))):
            from proxy.transport.tls_context import read_certificates  # noqa: PLC0415 - many have none

            found = read_certificates(config, self.metrics, last_good_tls or {})
            self.upstream_certificates, certificates = found.upstream, found.listeners
            open_ = found.open_ or open_
        self.preflight = PreflightBoard()
        self._admin_socket: socket.socket | None = None
        self._admin_port = 0
        self._admin_access: Access | None = None
        self.control: ControlListener | None = None
        with ExitStack() as bound_so_far:
            if binder is None:
                self._bind_admin(bound_so_far)
            binder = binder or PortBinder(self.metrics)
            bound = []
            for listener in config.listeners:
                bound.append(binder.bind(listener))
                bound_so_far.callback(bound[-1].close)
            self._close_own_ports = bound_so_far.pop_all().close
        self._parts = parts = compose(
            config,
            translator,
            metrics=self.metrics,
            descriptors=sum(one.descriptors for one in bound),
            open_=open_,
            policy=policy or Policy(),
            replica=replica,
            folder=folder,
            fleet=fleet,
        )
        served = list(zip(bound, certificates, strict=True))
        self.listeners = ServedListeners(parts, binder, self.metrics, config.limits, served)
        self.health, self.nodes, self.query_handlers = parts.health, parts.nodes, parts.query_handlers
        self.observability, self.driver = parts.observability, parts.driver
        self._stopping = trio.Event()
        self._starting = trio.CancelScope()
        self._reconfiguring = trio.Lock()
        self._may_reconfigure = trio.Event()

    def _bind_admin(self, bound_so_far: ExitStack) -> None:
        self._admin_access = access_to(self.config.admin, self.metrics)
        self._admin_socket = bind(self.config.admin.bind, self.config.admin.port)
        self._admin_port = port_of(self._admin_socket)
        bound_so_far.callback(self._admin_socket.close)
        if self.config.control is not None:
            from proxy.control.listener import ControlListener  # noqa: PLC0415 - most proxies take no commands

            self.control = ControlListener(self.config.control, self.metrics)
            bound_so_far.callback(self.control.close)

    @property
    def ports(self) -> Ports:
        """The ports that the process really listens on."""
        return Ports(self.listeners.bound, self._admin_port)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until :meth:`stop` is called, then drain. ``task_status`` starts once clients can connect.

        :raises UnreachableError: no broker answered in time.
        :raises BindError: another process has taken a port meanwhile.
        :raises MemberLogRefused: the member log can't be used.
        """
        admin_may_close = trio.Event()
        self.metrics.tasks.set_function(_living_tasks)
        try:
            async with trio.open_nursery() as nursery:
                if self._admin_socket is not None:
                    panel = SingleProcessBackend(self.metrics, self.health, self.query_handlers)
                    app = admin_app(panel, self.config.visibility, self.preflight, self.in_force)
                    hosts, access = self.config.admin.hosts, self._admin_access
                    nursery.start_soon(
                        serve_admin, self._admin_socket, app, admin_may_close.wait, hosts, access
                    )
                self.health.not_ready("no broker reached yet")
                with self._starting:
                    timeout_s = self.config.upstream.startup_timeout_s
                    reached = await reach_brokers(self._parts.dialer, self.nodes, timeout_s)
                    _log.info("cluster reached", broker=str(reached), nodes=len(self.nodes))
                    if self._fleet is not None:
                        await self._read_member_log(self._fleet, nursery)
                if not self._stopping.is_set():
                    await self._serve_clients(task_status)
                if self._fleet is not None:
                    self._fleet.stop()
                admin_may_close.set()
        finally:
            self.listeners.close()
            self._close_own_ports()
            self._parts.pipes.close()

    async def _read_member_log(self, fleet: "FleetDriver", nursery: trio.Nursery) -> None:
        self.health.not_ready("the member log is not read yet")
        set_migration_policy = self.translator.rollout.set_migration_policy
        await nursery.start(fleet.run, self.driver.log_said, self.health.fail, set_migration_policy)
        if not await fleet.wait_ready():
            _log.warning(
                "starting without the member log: only members that are new are served until it is read"
            )

    async def _serve_clients(self, task_status: trio.TaskStatus[None]) -> None:
        parts, driver, metrics = self._parts, self.driver, self.metrics
        async with trio.open_nursery() as nursery:
            nursery.start_soon(EpollLoop().serve)
            nursery.start_soon(driver.run_timers)
            if parts.lags is not None:
                nursery.start_soon(keep_running, parts.lags.reader.run, metrics)
                shown = self.observability.registry.ids_with_members
                nursery.start_soon(keep_running, parts.lags.run, metrics, shown)
            nursery.start_soon(parts.gates.run, driver.report)
            self.observability.start(nursery, driver)
            if parts.proof is not None:
                nursery.start_soon(keep_running, parts.proof.run, metrics, driver.note_proofs)
            nursery.start_soon(driver.reporter.expire_observed_members)
            nursery.start_soon(parts.connections.enforce_limits)
            parts.broker_health.start(
                nursery, on_unreachable=self.listeners.unreachable, on_reachable=self.listeners.reachable
            )
            self._look_at_wall_clock()  # before any client is served
            nursery.start_soon(run_periodically, _WALL_CLOCK_S, self._look_at_wall_clock, metrics)
            if parts.hook is not None:
                nursery.start_soon(keep_running, parts.hook.run, metrics, driver.hook_answered)
            if self.control is not None:
                nursery.start_soon(self.control.serve, self.command)
            if parts.identities is not None:
                await nursery.start(parts.identities.run)
            self.listeners.start(nursery)
            self.health.ready()
            self._may_reconfigure.set()
            task_status.started()
            await self._stopping.wait()
            grace_s = self.config.drain.grace_s
            drained_by = trio.current_time() + grace_s
            await drain(self.health, self.listeners, parts.connections, grace_s)
            if parts.identities is not None:
                await parts.identities.end(spare_s=max(0.0, drained_by - trio.current_time()))
            nursery.cancel_scope.cancel()

    def in_force(self) -> tuple[Config, Path]:
        """The configuration that is in force, and the folder of its file."""
        return self.config, self._folder

    async def reconfigure(self, config: Config) -> None:
        """Put another configuration in force, all of it or nothing; open connections stay, but on ports that it drops.

        It may differ only in what needs no restart (:func:`proxy.reload.config_plan.plan_of`). This waits until clients
        are served, and for the end of another such call.

        :raises ConfigError: a part of it can't be had. Nothing has changed.
        """
        async with self._reconfiguring:
            (await self.prepare(config, {})).commit()

    async def prepare(self, config: Config, contents: "Mapping[int, Contents]") -> "Prepared":
        """Do what can fail of :meth:`reconfigure`; see :func:`proxy.server.reconfigure.prepare`."""
        from proxy.server import reconfigure  # noqa: PLC0415 - few do it at once

        await self._may_reconfigure.wait()
        return await reconfigure.prepare(self, self._parts, config, contents)

    def is_draining(self) -> bool:
        """Whether it accepts no clients any more."""
        return self._stopping.is_set()

    @property
    def certificates(self) -> "list[Certificates]":
        """The certificates in use, of brokers, listeners and commands."""
        control = None if self.control is None else self.control.certificates
        found = (self.upstream_certificates, *(one.certificates for one in self.listeners.all), control)
        return [one for one in found if one is not None]

    @property
    def reloadables(self) -> list[Reloadable]:
        """What has to be reloaded when its files change, as of now."""
        accounts = [one for account in self._parts.accounts for one in account.reloadables]
        access = () if self._admin_access is None else self._admin_access.reloadables
        return [*self.certificates, *access, *accounts]

    async def command(self, command: Command) -> CommandOutcome:
        """Have the translation carry out a command, and wait until it counts."""
        from proxy.control.command_runner import run_command  # noqa: PLC0415 - as the listener

        return await run_command(self.driver.command, command)

    def _look_at_wall_clock(self) -> None:
        self.translator.rollout.set_wall_clock(int((time.time() - trio.current_time()) * 1000))

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._parts.rules.policy

    def set_policy(self, policy: Policy) -> None:
        """Apply another policy."""
        self._parts.rules.set_policy(policy)
        self.observability.set_policy(policy)
        self.driver.set_policy(policy)

    def stop(self) -> None:
        """Drain and end; before clients can connect, end at once."""
        self._stopping.set()
        self._may_reconfigure.set()  # to be refused
        self._starting.cancel()

    async def stop_at_signals(self) -> None:
        """Drain at SIGTERM or SIGINT; end at once at the second."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                if self._stopping.is_set():
                    _log.warning("exiting without draining", signal=signal.Signals(number).name)
                    raise SystemExit(ExitCode.FAILED)
                _log.info("draining", signal=signal.Signals(number).name)
                self.stop()


def _living_tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living if trio.lowlevel.in_trio_run() else 0
