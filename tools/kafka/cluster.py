"""A KRaft cluster of one or three nodes on loopback, which tests start, break on purpose and stop."""

import base64
import json
import shutil
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.kafka import jars, probe, settings
from tools.kafka.broker import POLL_S, Broker
from tools.kafka.ports import LOOPBACK, free_ports
from tools.maven import Say

RUN = jars.BUILD / "run"
START_TIMEOUT_S = 120.0
STATE = "cluster.json"


@dataclass(frozen=True)
class ExtraListener:
    """Another listener of every broker besides PLAINTEXT, each on its own port.

    `settings` are those of the listener, without Kafka's prefix `listener.name.<name>.`. `advertised_ports` has
    a port for each broker that clients are told instead of the real one: that of a relay before it. `host` is the
    address where clients are that are not on loopback.
    """

    name: str
    protocol: str
    settings: Mapping[str, str] = field(default_factory=dict)
    advertised_ports: Sequence[int] = ()
    host: str = LOOPBACK

    def broker_settings(self) -> dict[str, str]:
        """Return its lines of server.properties."""
        return {f"listener.name.{self.name.lower()}.{key}": value for key, value in self.settings.items()}


class Cluster:
    """`brokers` nodes (ids from 1), each broker and controller in one, under one folder.

        with Cluster(RUN / "mine", brokers=3, overrides={"num.partitions": "6"}) as kafka:
            kafka.bootstrap             # "127.0.0.1:…,127.0.0.1:…,127.0.0.1:…"
            kafka.kill_broker(2)
            kafka.start_broker(2)       # the same port, the same data

    `plugins` are folders of classes that the brokers find besides Kafka's own.

    Raises jars.KafkaUnavailableError when Java, Maven or the jars cannot be had.
    """

    def __init__(
        self,
        folder: Path,
        *,
        version: str = jars.DEFAULT_VERSION,
        brokers: int = 1,
        ports: Sequence[int] | None = None,
        overrides: Mapping[str, str] | None = None,
        listeners: Sequence[ExtraListener] = (),
        format_options: Sequence[str] = (),
        java_options: Sequence[str] = (),
        plugins: Sequence[Path] = (),
        say: Say = print,
    ) -> None:
        self.folder = folder.resolve()
        self.version = version
        self._overrides = dict(overrides or {})
        self._listeners = tuple(listeners)
        self._format_options = tuple(format_options)
        self._say = say
        client_ports = list(ports) if ports is not None else free_ports(brokers)
        if len(client_ports) != brokers:
            raise ValueError(f"{brokers} brokers need {brokers} ports, not {client_ports}")
        self.brokers = [
            Broker(number, self.folder / f"node-{number}", version, port, java_options, plugins)
            for number, port in enumerate(client_ports, start=1)
        ]
        extra = iter(free_ports(brokers * len(self._listeners)) if self._listeners else ())
        self._extra_ports = {
            listener.name: [next(extra) for _ in self.brokers] for listener in self._listeners
        }

    @property
    def bootstrap(self) -> str:
        """Return every node's host:port, separated by commas."""
        return ",".join(broker.address for broker in self.brokers)

    def bootstrap_of(self, listener: str) -> str:
        """Return the same for an extra listener."""
        host = next(one.host for one in self._listeners if one.name == listener)
        return ",".join(f"{host}:{port}" for port in self._extra_ports[listener])

    @property
    def client_ports(self) -> set[int]:
        """Return all ports of all brokers that clients can connect to."""
        extra = (port for ports in self._extra_ports.values() for port in ports)
        return {*extra, *(broker.port for broker in self.brokers)}

    def start(self) -> None:
        """Format new storage, start every node, and wait until all are ready."""
        jars.check_java()
        jars.ensure_jars(self.version, say=self._say)
        began = time.monotonic()
        self._say(f"starting Kafka {self.version}, {len(self.brokers)} node(s), on {self.bootstrap}")
        self._configure()
        self._format()
        for broker in self.brokers:
            broker.start()
        try:
            self.wait_ready()
            self._warm_up()
        except BaseException:
            self.stop()
            raise
        self._say(f"Kafka {self.version} is ready on {self.bootstrap} ({time.monotonic() - began:.1f} s)")

    def stop(self, *, grace_s: float = 8.0) -> None:
        """Stop every node.

        The last nodes of a quorum cannot shut down in order, since they wait for a controller that has gone: hence a
        short grace period before SIGKILL.
        """
        for broker in self.brokers:
            broker.terminate()
        deadline = time.monotonic() + grace_s
        for broker in self.brokers:
            if not broker.wait_gone(deadline):
                broker.kill()

    def remove(self) -> None:
        """Remove data and logs of a stopped cluster."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def stop_broker(self, node_id: int) -> None:
        """Stop one node in order."""
        self._broker(node_id).stop()

    def kill_broker(self, node_id: int) -> None:
        """Kill one node with SIGKILL."""
        self._broker(node_id).kill()

    def start_broker(self, node_id: int) -> None:
        """Start one node again and wait until the whole running cluster is ready."""
        self._broker(node_id).start()
        self.wait_ready()

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until every running node answers ApiVersions and sees all running nodes and a controller.

        Raises TimeoutError with what was missing, or RuntimeError as soon as a node has died.
        """
        running = [broker for broker in self.brokers if broker.pid() is not None]
        expected = {broker.node_id for broker in running}

        def ready() -> None:
            for broker in running:
                if broker.pid() is None:
                    raise RuntimeError(f"node {broker.node_id} died while starting: {broker.last_words()}")
                answer = probe.ask(LOOPBACK, broker.port)
                if not expected <= answer.node_ids or answer.controller_id < 0:
                    raise probe.NotReadyError(
                        f"node {broker.node_id} sees only nodes {sorted(answer.node_ids)}"
                    )

        self._wait(ready, "every node sees the whole cluster", timeout_s)

    def save(self, owner_pid: int | None = None) -> None:
        """Write a file by which another process finds this cluster (`Cluster.load`)."""
        state = {
            "version": self.version,
            "ports": [broker.port for broker in self.brokers],
            "owner_pid": owner_pid,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / STATE).write_text(json.dumps(state) + "\n")

    @classmethod
    def load(cls, folder: Path, *, say: Say = print) -> Self | None:
        """Return the cluster that was saved under `folder`, or None."""
        try:
            state = json.loads((folder / STATE).read_text())
        except FileNotFoundError:
            return None
        ports = state["ports"]
        return cls(folder, version=state["version"], brokers=len(ports), ports=ports, say=say)

    @classmethod
    def stop_orphans(cls, run: Path, *, say: Say = print) -> None:
        """Stop and remove the clusters under `run` whose owner died without stopping them."""
        for state in run.glob(f"*/{STATE}"):
            owner = json.loads(state.read_text())["owner_pid"]
            orphan = None if owner is None or Path(f"/proc/{owner}").exists() else cls.load(state.parent)
            if orphan is not None:
                say(f"stopping a Kafka that process {owner} left behind ({orphan.bootstrap})")
                orphan.stop(grace_s=0)
                orphan.remove()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _broker(self, node_id: int) -> Broker:
        return self.brokers[node_id - 1]

    def _configure(self) -> None:
        controller_ports = self._controller_ports()
        voters = ",".join(
            f"{broker.node_id}@{LOOPBACK}:{port}"
            for broker, port in zip(self.brokers, controller_ports, strict=True)
        )
        protocols = {"CONTROLLER": "PLAINTEXT", "PLAINTEXT": "PLAINTEXT"}
        protocols |= {listener.name: listener.protocol for listener in self._listeners}
        of_listeners = {key: value for one in self._listeners for key, value in one.broker_settings().items()}
        hosts = {one.name: one.host for one in self._listeners}
        for number, (broker, controller_port) in enumerate(zip(self.brokers, controller_ports, strict=True)):
            plain = f"PLAINTEXT://{broker.address}"
            bound = {one.name: self._extra_ports[one.name][number] for one in self._listeners}
            told = bound | {
                one.name: one.advertised_ports[number] for one in self._listeners if one.advertised_ports
            }
            broker.configure(
                {
                    "process.roles": "broker,controller",
                    "controller.quorum.voters": voters,
                    "controller.listener.names": "CONTROLLER",
                    "listener.security.protocol.map": ",".join(
                        f"{name}:{protocol}" for name, protocol in protocols.items()
                    ),
                    "listeners": ",".join(
                        [plain, *_at(hosts, bound), f"CONTROLLER://{LOOPBACK}:{controller_port}"]
                    ),
                    "advertised.listeners": ",".join([plain, *_at(hosts, told)]),
                    "inter.broker.listener.name": "PLAINTEXT",
                    **of_listeners,
                    **settings.for_tests(len(self.brokers)),
                    **self._overrides,
                }
            )

    def _controller_ports(self) -> list[int]:
        """Return the controller ports; later starts keep them, because the first start stores the voters."""
        path = self.folder / "controller-ports.json"
        if path.exists():
            known = list(json.loads(path.read_text()))
            if len(known) != len(self.brokers):
                raise ValueError(
                    f"{self.folder} holds a cluster of {len(known)} nodes, not {len(self.brokers)}"
                )
            return known
        ports = free_ports(len(self.brokers))
        self.folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(ports))
        return ports

    def _format(self) -> None:
        fresh = [
            broker for broker in self.brokers if not (broker.folder / "data" / "meta.properties").exists()
        ]
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")
        formats = [(broker, broker.format(cluster_id, self._format_options)) for broker in fresh]
        for broker, process in formats:
            if process.wait() != 0:
                raise RuntimeError(f"node {broker.node_id}: formatting failed: {broker.last_words()}")

    def _warm_up(self) -> None:
        """Create the offsets topic and load its coordinators before the first group asks."""
        first = self.brokers[0]
        self._wait(
            lambda: probe.find_coordinator(LOOPBACK, first.port, "epochgate-warm-up"),
            "the group coordinator is there",
            START_TIMEOUT_S,
        )

    def _wait(self, attempt: Callable[[], object], what: str, timeout_s: float) -> None:
        began = said = time.monotonic()
        while True:
            try:
                attempt()
            except probe.NotReadyError as error:
                now = time.monotonic()
                if now - began > timeout_s:
                    raise TimeoutError(f"waited {timeout_s:.0f} s until {what}: {error}") from error
                if now - said >= 5:
                    said = now
                    self._say(f"waiting until {what} ({now - began:.0f} s): {error}")
                time.sleep(POLL_S)
            else:
                return


def _at(hosts: Mapping[str, str], ports: Mapping[str, int]) -> list[str]:
    return [f"{name}://{hosts[name]}:{port}" for name, port in ports.items()]
