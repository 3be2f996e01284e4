"""Measures what clients of four libraries go through while three replicas of a fleet are replaced.

`make bench-rolling-restart` runs it, prints the tables of docs/evidence/rolling-restart.md, and writes every
figure to build/bench-rolling-restart.json. The broker has Kafka's defaults for groups, the clients those of their
libraries: a session timeout of 45 s and a heartbeat every 3 s. One group is eager (`range`), one is cooperative
(`cooperative-sticky`); the libraries have equal parts in each. The replicas stand behind HAProxy, and a client
stays with its replica as long as that is in the Service. The member log is in a cluster of its own, so that it can
be away alone.

First the same clients work straight at Kafka for a while, where nothing happens: what they do then they do by
themselves. Then, one after another, each waiting until both groups have settled and were quiet for some seconds:

restarts    each replica is taken out of the Service, ended with SIGTERM and started again, one after another, ROUNDS
            times; the next one as soon as the one before is in the Service again
kill        each replica is killed (kill -9) and started again
log         the only broker of the log is away
cut         a replica stands still (SIGSTOP), and the load balancer cuts its connections
freeze      a replica stands still, and its connections stay as they are
"""

import argparse
import contextlib
import dataclasses
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from support import ROOT, find_broker
from support.broker import Kafka
from support.clients import CONFLUENT, COOPERATIVE, JAVA, KAFKA_PYTHON, ClientKind
from support.consumers import ConsumerProcess, Consumers
from support.load import Load
from support.other_clients import FRANZ_GO
from support.ownership import Partition
from support.rollout import Service, service
from support.waiting import eventually, stays

from benchmarks.lib.rolling_restart_costs import Cost, Phase, Reading, costs, joined, reading, table
from tools.kafka.cluster import Cluster
from tools.kafka.settings import GROUP_DEFAULTS

REPORT = ROOT / "build" / "bench-rolling-restart.json"
FOLDER = ROOT / "build" / "bench-rolling-restart"
LIBRARIES = (CONFLUENT, JAVA, FRANZ_GO, KAFKA_PYTHON)
PROTOCOLS = {"eager": "range", "cooperative": COOPERATIVE}
REPLICAS = ("r1", "r2", "r3")
FAULTS = ("restarts", "kill", "log", "cut", "freeze")

PARTITIONS_PER_MEMBER = 2
SESSION_MS, HEARTBEAT_MS = 45_000, 3_000
"""The libraries' own."""
QUIET_S = 10.0
"""No callback for so long: some heartbeats of every client."""
SETTLE_S = 180.0
DRAIN_S = 30.0


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is measured: how often, with how many clients, and for how long something is away."""

    rounds: int = 10
    members: int = 20
    """Of each protocol."""
    faults: Sequence[str] = FAULTS
    away_s: float = 60.0
    control_s: float = 60.0


@dataclasses.dataclass(frozen=True)
class Restart:
    """One replica, ended with SIGTERM and started again."""

    round: int
    replica: str
    clients: int
    """Clients that had connections to it."""
    drained_s: float
    """From SIGTERM to the end of the process."""
    took_s: float
    """From the moment that it was taken out of the Service until it was in it again."""


@dataclasses.dataclass
class Report:
    """All figures of a run."""

    costs: list[Cost] = dataclasses.field(default_factory=list)
    readings: dict[str, list[Reading]] = dataclasses.field(default_factory=dict)
    restarts: list[Restart] = dataclasses.field(default_factory=list)
    faults: list[dict[str, object]] = dataclasses.field(default_factory=list)


class Group:
    """The members of one group, of all libraries, and its topic."""

    def __init__(self, kafka: Kafka, protocol: str, consumers: Consumers, members: int) -> None:
        self.protocol = protocol
        self.members: dict[str, list[ConsumerProcess]] = {str(kind): [] for kind in LIBRARIES}
        self._consumers = consumers
        self._partitions = PARTITIONS_PER_MEMBER * members
        self._topic = kafka.new_topic(protocol, partitions=self._partitions)
        self.load = Load(kafka, self._topic)

    @property
    def everybody(self) -> list[ConsumerProcess]:
        """Its members."""
        return [member for members in self.members.values() for member in members]

    def start(self, kind: ClientKind, name: str, bootstrap: str) -> None:
        """Start one more."""
        self.members[str(kind)].append(
            self._consumers.start(
                kind,
                bootstrap,
                f"group-of-{self._topic}",
                self._topic,
                PROTOCOLS[self.protocol],
                name=name,
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
                max_poll_interval_ms=300_000,
                auto_commit_interval_ms=5_000,
            )
        )

    def is_shared(self) -> bool:
        """Whether every partition has one owner, and every member has some."""
        owned = [member.owned() for member in self.everybody]
        everything = {Partition(self._topic, number) for number in range(self._partitions)}
        return all(owned) and sum(map(len, owned)) == len(everything) and set().union(*owned) == everything

    def has_read(self, count: int) -> bool:
        """Whether the first so many records are read."""
        written = {(Partition(at.topic, at.partition), at.offset) for at in self.load.records[:count]}
        return written <= set().union(*(member.consumed() for member in self.everybody))

    def last_change(self) -> int:
        """When a callback was called last, in nanoseconds of CLOCK_MONOTONIC."""
        return max((event.mono for member in self.everybody for event in member.callbacks()), default=0)


class Scene:
    """Two groups at work, at one entry, and the phases that they went through."""

    def __init__(
        self, kafka: Kafka, plan: Plan, folder: Path, bootstrap: Callable[[str], str], journal: Path | None
    ) -> None:
        self.phases: list[Phase] = []
        self._journal = journal
        folder.mkdir(parents=True, exist_ok=True)
        self._consumers = Consumers(folder)
        self.groups = [Group(kafka, protocol, self._consumers, plan.members) for protocol in PROTOCOLS]
        for name in names(plan):
            protocol, _, number = name.partition("-")
            group = self.groups[list(PROTOCOLS).index(protocol)]
            group.start(LIBRARIES[int(number) % len(LIBRARIES)], name, bootstrap(name))

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Records flow meanwhile; everybody is gone at the end."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._consumers.end)
            self.settle()
            for group in self.groups:
                stack.enter_context(group.load)
            self.settle()
            yield

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """What happens until the groups have settled again belongs to it."""
        print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)
        began = time.monotonic_ns()
        before = joined(self._journal) if self._journal else None
        yield
        self.settle()
        counted = joined(self._journal) - before if self._journal and before is not None else None
        phase = Phase(name, began, time.monotonic_ns(), counted)
        self.phases.append(phase)
        print(
            table([cost for at in self.groups for cost in costs([phase], at.protocol, at.members)]),
            flush=True,
        )

    def works_for(self, seconds: float) -> None:
        """Let time pass; nobody may crash."""
        stays(self._nobody_crashed, what="nobody has crashed", for_s=seconds)

    def settle(self) -> None:
        """Wait until every partition has one owner, nobody was called back for a while from now on, and all is read."""
        began = time.monotonic_ns()
        counts = [len(group.load.records) for group in self.groups]

        def settled() -> bool:
            quiet_since = time.monotonic_ns() - QUIET_S * 1e9
            if not self._nobody_crashed():
                raise AssertionError("\n".join(one.story() for one in self._consumers.all if one.ended))
            return all(
                max(began, group.last_change()) < quiet_since and group.is_shared() and group.has_read(count)
                for group, count in zip(self.groups, counts, strict=True)
            )

        eventually(settled, what="the groups have settled", timeout_s=SETTLE_S, between_s=1.0)

    def figures(self) -> tuple[list[Cost], list[Reading]]:
        """What the groups went through, once nothing flows any more."""
        spent = [cost for group in self.groups for cost in costs(self.phases, group.protocol, group.members)]
        read = [reading(group.protocol, group.load.records, group.everybody) for group in self.groups]
        return spent, read

    def finish(self) -> None:
        """Stop the records, and wait until all are read."""
        for group in self.groups:
            group.load.stop()
        self.settle()

    def _nobody_crashed(self) -> bool:
        return not any(one.ended for one in self._consumers.all)


def names(plan: Plan) -> list[str]:
    """The clients: a protocol and a number, which says the library."""
    return [f"{protocol}-{number}" for protocol in PROTOCOLS for number in range(plan.members)]


def control(kafka: Kafka, plan: Plan, folder: Path, report: Report) -> None:
    """The same clients straight at Kafka, where nothing happens."""
    scene = Scene(kafka, plan, folder / "control", lambda _name: kafka.bootstrap, None)
    with scene.working():
        with scene.phase("nothing, straight at Kafka"):
            scene.works_for(plan.control_s)
        scene.finish()
        spent, read = scene.figures()
    report.costs += spent
    report.readings["straight at Kafka"] = read


def fleet(kafka: Kafka, log: Cluster, plan: Plan, folder: Path, report: Report) -> None:
    """Clients behind three replicas, to which all that `plan` names is done."""
    settings = {"kafka": {"bootstrap.servers": log.bootstrap}, "replication": 1, "expires": True}
    with contextlib.ExitStack() as stack:
        control_socket = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "control"
        pods = stack.enter_context(
            service(kafka.bootstrap, names(plan), REPLICAS, folder, control_socket, settings)
        )
        for name in REPLICAS:
            pods.create(name)
        scene = Scene(kafka, plan, folder / "fleet", pods.bootstrap, folder / "journal")
        faults = Faults(pods, scene, log, plan, report)
        stack.enter_context(scene.working())
        for name in plan.faults:
            getattr(faults, name)()
        scene.finish()
        spent, read = scene.figures()
    report.costs += spent
    report.readings["behind three replicas"] = read


class Faults:
    """What is done to the replicas; each is a phase, or several."""

    def __init__(self, pods: Service, scene: Scene, log: Cluster, plan: Plan, report: Report) -> None:
        self._pods, self._scene, self._log = pods, scene, log
        self._plan, self._report = plan, report

    def restarts(self) -> None:
        """Every replica in turn, so many rounds."""
        with self._scene.phase(f"{self._plan.rounds} rolling restarts (SIGTERM)"):
            for number in range(1, self._plan.rounds + 1):
                for name in REPLICAS:
                    clients, began = len(self._pods.clients_of(name)), time.monotonic()
                    self._pods.delete(name)
                    self._pods.pods[name].wait(DRAIN_S)
                    self._pods.create(name)
                    drained, took = self._pods.pods[name].drained_s, time.monotonic() - began
                    self._report.restarts.append(
                        Restart(number, name, clients, round(drained, 2), round(took, 2))
                    )

    def kill(self) -> None:
        """Every replica once, when all that it has written is read back."""
        for name in REPLICAS:
            self._wait_metric("epochgate_fleet_unresolved_records", 0)
            with self._scene.phase(f"kill -9 of {name}"):
                self._note("kill", name)
                self._pods.pods[name].kill()
                self._pods.create(name)

    def log(self) -> None:
        """The log's only broker."""
        with self._scene.phase(f"the log away for {self._plan.away_s:g} s"):
            self._log.stop_broker(1)
            began = time.monotonic()
            self._wait_metric("epochgate_fleet_log_away", 1, at_least=True)
            self._scene.works_for(self._plan.away_s)
            self._note("log", "broker", away_s=round(time.monotonic() - began, 1))
            self._log.start_broker(1)
            self._wait_metric("epochgate_fleet_log_away", 0)

    def cut(self) -> None:
        """A replica that stands still, and whose connections are cut when its probes fail."""
        self._stand_still(cut=True)

    def freeze(self) -> None:
        """A replica that stands still, and whose connections stay."""
        self._stand_still(cut=False)

    def _stand_still(self, *, cut: bool) -> None:
        name = max(REPLICAS, key=lambda one: len(self._pods.clients_of(one)))
        how = "its connections cut" if cut else "its connections left"
        with self._scene.phase(f"SIGSTOP for {self._plan.away_s:g} s, {how}"):
            self._note("cut" if cut else "freeze", name)
            self._pods.pods[name].freeze()
            began = time.monotonic()
            eventually(lambda: not self._pods.has(name), what=f"{name} is out of the Service")
            if cut:
                self._pods.cut(name)
            self._scene.works_for(self._plan.away_s - (time.monotonic() - began))
            self._pods.pods[name].thaw()
            eventually(lambda: self._pods.has(name), what=f"{name} is in the Service")

    def _note(self, fault: str, target: str, **more: object) -> None:
        clients = sorted(self._pods.clients_of(target)) if target in REPLICAS else []
        self._report.faults.append({"fault": fault, "target": target, "clients": clients, **more})

    def _wait_metric(self, series: str, wanted: float, *, at_least: bool = False) -> None:
        for pod in self._pods.pods.values():
            eventually(
                lambda at=pod: at.metric(series),  # type: ignore[misc]
                lambda value: value >= wanted if at_least else value == wanted,
                what=f"{series} of {pod.name} is {wanted:g}",
            )


def measure(kafka: Kafka, log: Cluster, plan: Plan, folder: Path) -> Report:
    """Measure on a `kafka` with GROUP_DEFAULTS; `log` has the member log.

    Raises AssertionError if a client crashes or the groups do not settle.
    """
    folder.mkdir(parents=True, exist_ok=True)
    report = Report()
    if plan.control_s:
        control(kafka, plan, folder, report)
    fleet(kafka, log, plan, folder, report)
    return report


def described(report: Report) -> str:
    """All tables."""
    lines = [table(report.costs), ""]
    for way, readings in report.readings.items():
        lines += [
            f"{way}, {one.protocol}: {one.produced} records, {one.lost} lost, {one.read_twice} read twice; "
            f"{one.two_owners} times two owners, {one.two_owners_after_loss} of these after a loss"
            for one in readings
        ]
    if report.restarts:
        took = sorted(one.took_s for one in report.restarts)
        drained = sorted(one.drained_s for one in report.restarts)
        lines.append(
            f"{len(took)} restarts that moved {sum(one.clients for one in report.restarts)} clients: out of the "
            f"Service for {took[len(took) // 2]:.1f} s (median), {took[-1]:.1f} s at most; "
            f"ended {drained[len(took) // 2]:.1f} s after SIGTERM, {drained[-1]:.1f} s at most"
        )
    lines += [
        f"{one['fault']} of {one['target']}: {len(one['clients'])} clients"  # type: ignore[arg-type]
        + (f", {one['away_s']} s" if "away_s" in one else "")
        for one in report.faults
    ]
    return "\n".join(lines)


def main() -> int:
    """Start two clusters, measure, print, and write the report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rolling_restart",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = Plan()
    parser.add_argument("--rounds", type=int, default=default.rounds, help="each replica so many times")
    parser.add_argument("--members", type=int, default=default.members, help="of each protocol")
    parser.add_argument(
        "--faults", default=",".join(FAULTS), help=f"some of {','.join(FAULTS)}, in this order"
    )
    parser.add_argument("--away-s", type=float, default=default.away_s, help="for how long")
    parser.add_argument("--control-s", type=float, default=default.control_s, help="0: without a control")
    options = parser.parse_args()
    faults = options.faults.split(",")
    if not set(faults) <= set(FAULTS):
        parser.error(f"--faults: some of {','.join(FAULTS)}")
    plan = Plan(options.rounds, options.members, faults, options.away_s, options.control_s)
    with (
        find_broker.own_cluster("bench-rolling-restart", overrides=GROUP_DEFAULTS) as cluster,
        find_broker.own_cluster("bench-rolling-restart-log") as log,
    ):
        kafka = Kafka(cluster.bootstrap, source="maven", version=cluster.version)
        report = measure(kafka, log, plan, FOLDER)
    print(described(report))
    about = {
        "kafka": kafka.version,
        "machine": platform.platform(),
        "libraries": {str(kind): kind.version() for kind in LIBRARIES},
        "plan": dataclasses.asdict(plan),
        **dataclasses.asdict(report),
    }
    REPORT.write_text(json.dumps(about, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
