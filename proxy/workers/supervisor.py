"""The supervisor (``workers``): it owns the ports, passes connections to its workers, and drains them. ``/readyz``
and ``/healthz`` of all, and a configuration for all workers or none. It serves no client.
"""

import signal
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec
import structlog
import trio
from msgspec.structs import replace

from proxy.admin.admin_http import access_to, admin_app, serve_admin
from proxy.admin.metrics_aggregation import MetricsAggregator
from proxy.admin.preflight_view import PreflightBoard
from proxy.admin.process_queries import Readiness
from proxy.config.document import ConfigError
from proxy.config.schema import Config, Limits
from proxy.groups.group_metrics import GroupCollector, GroupLabels, counts_of_view
from proxy.groups.snapshot import Snapshot, merge
from proxy.metrics.bounds import Bound
from proxy.metrics.dump import MetricDump
from proxy.metrics.registry import Metrics
from proxy.runtime.exit_codes import ExitCode
from proxy.runtime.file_watcher import Reloadable
from proxy.runtime.log_setup import configure, count_suppressed_lines
from proxy.runtime.log_throttle import LogThrottle
from proxy.transport.first_requests import FirstRequests
from proxy.transport.listeners import BindError, Ports, bind, port_of
from proxy.transport.tls_errors import TlsFilesError
from proxy.workers.affinity import worker_of
from proxy.workers.control_messages import COMMAND, HandoffHeader, PortKey, Reconfigure, SetPolicy, Start
from proxy.workers.last_good_tls import LastGoodTls
from proxy.workers.reconfiguration import WorkersPrepared
from proxy.workers.supervisor_ports import SupervisorPorts
from proxy.workers.worker_process import WorkerHandle
from proxy.workers.worker_restart import keep_running
from translation.moving.command_writes import CommandOutcome, CommandState
from translation.policy.policy import Policy
from translation.rollout.commands import Command

if TYPE_CHECKING:
    from proxy.control.listener import ControlListener

T = TypeVar("T")

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.workers")

_QUERY_TIMEOUT_S = 5.0
_COMMAND_TIMEOUT_S = 12.0
"""Longer than two workers wait for the member log."""

_METRICS_INTERVAL_S = 2.0
"""Seconds between two collections of the workers' metrics. A crash loses what was counted after the last one."""

_EXIT_MARGIN_S = 5.0

_PREPARE_MARGIN_S = 15.0
"""Seconds that a worker has to prepare another configuration, beside the time to reach brokers."""


class Supervisor:
    """One supervisor with its workers. Constructing it binds all ports.

    :raises BindError: a port is taken or not allowed.
    :raises TlsFilesError: a certificate is invalid.
    :raises UnreadableSecret: the admin port's token can't be used.
    """

    def __init__(self, config: Config, policy: Policy, folder: Path) -> None:
        self.metrics = Metrics()
        self.preflight = PreflightBoard()
        count_suppressed_lines(lambda: self.metrics.hit(Bound.LOG_LINES))
        self._group_metrics = GroupCollector(GroupLabels(config.metrics.groups, self._rule_number), tuple)
        self.metrics.provide_groups(self._group_metrics)
        self._config = config
        self._policy = policy
        self._folder = folder
        self._tls = LastGoodTls(config)
        self._admin_access = access_to(config.admin, self.metrics)
        with ExitStack() as bound_so_far:
            self._admin_socket = bind(config.admin.bind, config.admin.port)
            bound_so_far.callback(self._admin_socket.close)
            self._ports = SupervisorPorts(config.listeners, self.metrics, bound_so_far)
            self.control: ControlListener | None = None
            if config.control is not None:
                from proxy.control import listener as control  # noqa: PLC0415 - most take no commands

                self.control = control.ControlListener(config.control, self.metrics)
                bound_so_far.callback(self.control.close)
            bound_so_far.pop_all()
        self._admin_port = port_of(self._admin_socket)
        self._first_requests = FirstRequests(self.metrics)
        self._reconfiguring = trio.Lock()
        self._may_reconfigure = trio.Event()
        self._throttle = LogThrottle()
        self._aggregator = MetricsAggregator(self.metrics.registry)
        self._stopping = trio.Event()
        self._not_ready_reason: str | None = "starting"
        self._workers = [
            WorkerHandle(
                n,
                partial(self._start_message, n),
                self.metrics,
                on_ports_changed=self._ports.changed,
                on_exit=self._aggregator.worker_exited,
            )
            for n in range(config.workers)
        ]
        self._worker_reloader = _WorkerReloader(self._workers)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until :meth:`stop` is called, then drain. ``task_status`` starts once clients can connect.

        :raises StartError: a worker ended before it was ready for clients.
        :raises BindError: another process took a port since construction.
        """
        admin_may_close = trio.Event()
        try:
            async with trio.open_nursery() as nursery:
                app = admin_app(self, self._config.visibility, self.preflight, self.in_force)
                hosts = self._config.admin.hosts
                access = self._admin_access
                nursery.start_soon(serve_admin, self._admin_socket, app, admin_may_close.wait, hosts, access)
                async with trio.open_nursery() as working:
                    for worker in self._workers:
                        working.start_soon(keep_running, worker, self.metrics)
                    await self._wait_until_serving()
                    if not self._stopping.is_set():
                        await self._accept_connections(task_status)
                    await self._drain(working)
                admin_may_close.set()
        finally:
            self._ports.close()
            self._admin_socket.close()
            if self.control is not None:
                self.control.close()

    @property
    def ports(self) -> Ports:
        """The ports that the process really listens on."""
        return Ports(self._ports.listeners, self._admin_port)

    def stop(self) -> None:
        """Make :meth:`run` drain and return."""
        self._stopping.set()
        self._may_reconfigure.set()  # to be refused

    async def stop_at_signals(self) -> None:
        """Drain at the first SIGTERM or SIGINT; kill the workers and exit at the second."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                if self._stopping.is_set():
                    _log.warning("exiting without draining", signal=signal.Signals(number).name)
                    for worker in self._workers:
                        worker.kill()
                    raise SystemExit(ExitCode.FAILED)
                _log.info("draining", signal=signal.Signals(number).name)
                self.stop()

    def _rule_number(self, group_id: str) -> int | None:
        return self._policy.number_for(group_id)

    def set_policy(self, policy: Policy) -> None:
        """Apply another policy in all workers, including those that are restarted later."""
        self._policy = policy
        self._group_metrics.labels.rank_again()
        message = SetPolicy(msgspec.msgpack.encode(policy))
        for worker in self._workers:
            worker.send(message)

    async def reconfigure(self, config: Config) -> None:
        """Put another configuration in force in all workers, or in none; see :meth:`Server.reconfigure`.

        :raises ConfigError: a part of it can't be had. Nothing has changed.
        """
        async with self._reconfiguring:
            await self._may_reconfigure.wait()
            with ExitStack() as undo:
                try:
                    tls = LastGoodTls(config, self._tls)
                    listeners = self._ports.bind(config.listeners, undo)
                    workers = WorkersPrepared(self._workers)
                    undo.callback(workers.drop)
                    message = Reconfigure(_worker_config(config), self._ports.of(listeners), tls.contents)
                    timeout_s = _PREPARE_MARGIN_S + config.upstream.connect_timeout_s * (
                        1 + len(config.upstream.bootstrap)
                    )
                    problems = await workers.prepare(message, timeout_s)
                    if not problems:
                        self._ports.listen(listeners)
                except (TlsFilesError, BindError) as error:
                    problems = [str(error)]
                if self._stopping.is_set():
                    problems = ["the process is draining"]
                if problems:
                    raise ConfigError(*problems)
                undo.pop_all()
            self._put_in_force(config, tls)
            self._ports.replace(listeners)
            workers.commit()

    def _put_in_force(self, config: Config, tls: LastGoodTls) -> None:
        if config.log != self._config.log:
            configure(config.log)
            count_suppressed_lines(lambda: self.metrics.hit(Bound.LOG_LINES))
        self._config, self._tls = config, tls

    @property
    def reloadables(self) -> tuple[Reloadable, ...]:
        """What to reload when TLS files change or at SIGHUP: contents for restarted workers, and running workers."""
        own = (
            () if self.control is None or self.control.certificates is None else (self.control.certificates,)
        )
        access = () if self._admin_access is None else self._admin_access.reloadables
        return (self._tls, self._worker_reloader, *own, *access)

    def in_force(self) -> tuple[Config, Path]:
        """The configuration that is in force, and the folder of its file."""
        return self._config, self._folder

    async def command(self, command: Command) -> CommandOutcome:
        """Have a worker obey a command; another one, if it can't say anything. They share the member log."""
        text = "no worker answers"
        outcome = CommandOutcome(state=CommandState.UNAVAILABLE, text=text)
        argument = msgspec.msgpack.encode(command)
        with trio.move_on_after(_COMMAND_TIMEOUT_S):
            for worker in self._workers:
                if not worker.serving:
                    continue
                answer = await worker.query(COMMAND, CommandOutcome, argument)
                outcome = answer or outcome
                if outcome.state in (CommandState.DONE, CommandState.REFUSED):
                    break
        return outcome

    certificates = reloadables

    # -- for the admin port -------------------------------------------------------------------------------

    async def query(self, name: str, kind: type[T]) -> list[T]:
        """See :class:`proxy.admin.process_queries.Processes`."""
        results = [result for _, result in sorted((await self._query_each(name, kind)).items())]
        return [cast("T", self._with_policy(one)) if isinstance(one, Snapshot) else one for one in results]

    async def exposition(self) -> bytes:
        """Return the metrics of all processes, aggregated, in Prometheus' text format."""
        await self._update_metrics()
        snapshots = await self.query("groups", Snapshot)
        groups = merge(snapshots).groups if snapshots else ()
        self._group_metrics.counts = lambda: map(counts_of_view, groups)
        self._group_metrics.labels.keep({group.id for group in groups})
        return self._aggregator.expose()

    async def not_ready(self) -> str | None:
        """Return why the proxy should get no clients; None if it should."""
        if self._not_ready_reason is not None:
            return self._not_ready_reason
        results = await self._query_each("readiness", Readiness)
        for worker in self._workers:
            if worker.number not in results:
                return f"worker {worker.number} does not answer"
            if (reason := results[worker.number].reason) is not None:
                return f"worker {worker.number}: {reason}"
        return None

    async def not_alive(self) -> str | None:
        """Return why the process should be restarted; None while all workers answer."""
        results = await self._query_each("readiness", Readiness)
        stuck = [worker.number for worker in self._workers if worker.serving and worker.number not in results]
        return f"workers {stuck} do not answer" if stuck else None

    def _with_policy(self, snapshot: Snapshot) -> Snapshot:
        """Add the policy's version and state: only the supervisor reads the policy file."""
        policy = self.metrics.policy_in_force()
        return replace(
            snapshot,
            policy_version=policy.version,
            policy_is_current=policy.is_current,
            policy_refused=policy.refused,
        )

    async def _query_each(self, name: str, kind: type[T]) -> dict[int, T]:
        results: dict[int, T] = {}

        async def one(worker: WorkerHandle) -> None:
            incarnation = worker.incarnation
            result = await worker.query(name, kind)
            if result is not None and worker.incarnation == incarnation and worker.serving:
                results[worker.number] = result

        with trio.move_on_after(_QUERY_TIMEOUT_S):
            async with trio.open_nursery() as nursery:
                for worker in self._workers:
                    if worker.serving:
                        nursery.start_soon(one, worker)
        return results

    async def _update_metrics(self) -> None:
        self.metrics.workers.set(sum(worker.serving for worker in self._workers))
        incarnations = {worker.number: worker.incarnation for worker in self._workers}
        for number, dumps in (await self._query_each("metrics", list[MetricDump])).items():
            worker = self._workers[number]
            if worker.serving and worker.incarnation == incarnations[number]:
                self._aggregator.update(number, dumps)

    async def _poll_metrics(self) -> None:
        while True:
            await self._update_metrics()
            await trio.sleep(_METRICS_INTERVAL_S)

    # -- workers and ports ---------------------------------------------------------------------------------------

    def _start_message(self, number: int) -> Start:
        ports = self._ports.of(self._ports.listeners)
        return Start(
            number, _worker_config(self._config), self._policy, ports, str(self._folder), self._tls.contents
        )

    async def _wait_until_serving(self) -> None:
        async with trio.open_nursery() as nursery:

            async def all_serve() -> None:
                for worker in self._workers:
                    await worker.has_served.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(all_serve)
            await self._stopping.wait()
            nursery.cancel_scope.cancel()

    async def _accept_connections(self, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as nursery:
            self._ports.start(nursery, partial(self._identify, nursery))
            nursery.start_soon(self._ports.sync, self._down_ports)
            nursery.start_soon(self._poll_metrics)
            if self.control is not None:
                nursery.start_soon(self.control.serve, self.command)
            self._ports.changed()
            self._not_ready_reason = None
            self._may_reconfigure.set()
            task_status.started()
            await self._stopping.wait()
            nursery.cancel_scope.cancel()

    def _identify(self, nursery: trio.Nursery, key: PortKey, connection: socket.socket, host: str) -> None:
        """Hand a connection over, once it is known which client of its host it is of."""
        hand_over = partial(self._hand_over, key, connection, host)
        if self._config.limits.max_connections_per_address == Limits().max_connections_per_address:
            nursery.start_soon(self._first_requests.read, connection, hand_over)
        else:
            hand_over("")

    def _hand_over(self, key: PortKey, connection: socket.socket, host: str, client_id: str) -> None:
        worker = self._workers[worker_of(host, len(self._workers), client_id)]
        if not worker.queue.add(HandoffHeader(key, host), connection):
            connection.close()
            self.metrics.connections_refused.labels("no_worker").inc()
            if (suppressed := self._throttle.suppressed("")) is not None:
                reason = "too many connections wait for the worker"
                _log.warning("connection refused", client=host, reason=reason, suppressed=suppressed)

    def _down_ports(self) -> set[PortKey]:
        return {key for worker in self._workers for key in worker.down_ports}

    async def _drain(self, working: trio.Nursery) -> None:
        self._not_ready_reason = "draining"
        self._ports.close()
        with trio.CancelScope(
            deadline=trio.current_time() + self._config.drain.grace_s + _EXIT_MARGIN_S
        ) as time:
            async with trio.open_nursery() as nursery:
                for worker in self._workers:
                    nursery.start_soon(worker.drain)
        if time.cancelled_caught:
            _log.warning("killing workers that did not drain in time")
        working.cancel_scope.cancel()
        _log.info("drained")


def _worker_config(config: Config) -> Config:
    """Return one worker's configuration: it gets its share of the limits that hold for all workers together."""
    whole = config.limits.max_connections
    share = whole if whole == Limits().max_connections else max(1, whole // config.workers)
    return replace(config, limits=replace(config.limits, max_connections=share))


class _WorkerReloader:
    """Sends SIGHUP to the workers when TLS files are reloaded. It has no files of its own."""

    files: tuple[Path, ...] = ()

    def __init__(self, workers: Sequence[WorkerHandle]) -> None:
        self._workers = workers

    def reload(self, _why: str) -> None:
        """Make the workers read their certificates again."""
        for worker in self._workers:
            worker.send_signal(signal.SIGHUP)
