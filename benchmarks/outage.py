"""Measures what groups go through when their brokers are away for a while, straight at Kafka and through Epochgate.

    python -m benchmarks.outage --record --scope cluster,coordinator,log --away-s 5,15,60
    python -m benchmarks.outage --record --scope cluster --away-s 300

Each outage is in build/bench-outage/ when it has ended; with ``--record`` it replaces that of the same scope and
duration in docs/evidence/outages.json, from which ``python -m tools.recorded_tables`` makes the tables of
docs/evidence/outages.md. The brokers have Kafka's defaults for groups; the clients have a session timeout of 10 s and a
heartbeat every 3 s. Each kind of client (library, assignor, dynamic or static) has a group of its own on each way:
straight at Kafka, through the only process (``sole process``), and through two replicas with a member log, where the
two members of a group enter at different replicas. All groups of all ways go through the same outage. What is away:

cluster       the only broker, and with it the member log
coordinator   of three brokers the one that coordinates every group: the offsets topic has one replica
log           of three brokers the one that leads the log's partition of every group of the fleet

A broker is killed (SIGKILL) and started ``--away-s`` later. It is back when the cluster answers again; from then on the
figures count:

owners again  when every partition had an owner for good (seconds; 0: none was without one any more)
rejoins       the most assignments that a member was given after the outage had begun
read twice    records that two polls returned
two owners    partitions that two members owned at one time, of which the first had not reported its own as lost
fatal         members that ended, or whose library reported a fatal error
"""

import argparse
import contextlib
import itertools
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from support import ROOT, find_broker
from support.broker import Kafka
from support.clients import CONFLUENT, COOPERATIVE, JAVA, KAFKA_PYTHON, ClientKind
from support.consumers import ConsumerProcess, Consumers
from support.entry import running_proxy
from support.ownership import Partition, account, gaps, overlaps

from tools import outage_table, recorded
from tools.kafka import probe
from tools.kafka.cluster import Cluster
from tools.kafka.ports import LOOPBACK
from tools.kafka.settings import GROUP_DEFAULTS
from translation.member_log.records import member_key, partition_of

FOLDER = ROOT / "build" / "bench-outage"

STRAIGHT, SOLE, FLEET = "straight", "sole process", "two replicas"
WAYS = (STRAIGHT, SOLE, FLEET)
SCOPES = ("cluster", "coordinator", "log")
MEMBERS = 2
PARTITIONS = 6
SESSION_MS, HEARTBEAT_MS = 10_000, 3_000
LOG_TOPIC = "__epochgate_members"
COORDINATOR_NODE, LOG_NODE = 2, 3
"""Of three; the first is neither."""
QUIET_S = 12.0
"""No callback for so long: some heartbeats of every client."""
STARTS_S, SETTLES_S = 300.0, 150.0
RECORDS = 600


@dataclass(frozen=True)
class Kind:
    """One kind of client: a group of it on each way."""

    library: ClientKind
    assignor: str
    static: bool = False

    def __str__(self) -> str:
        protocol = "cooperative" if self.assignor == COOPERATIVE else "eager"
        return f"{self.library} {protocol} {'static' if self.static else 'dynamic'}"


KINDS: Mapping[str, Kind] = {
    f"{library}{'-cooperative' * (assignor == COOPERATIVE)}{'-static' * static}": Kind(
        library, assignor, static
    )
    for library, assignor, static in itertools.product(
        (JAVA, CONFLUENT, KAFKA_PYTHON), ("range", COOPERATIVE), (False, True)
    )
}


@dataclass(frozen=True)
class Row:
    """What one group went through in one outage."""

    kind: str
    way: str
    owners_again_s: float | None
    """None: some partition had no owner at the end."""
    rejoins: int
    read_twice: int
    lost: int
    two_owners: int
    fatal: int


@dataclass
class Group:
    """The members of one kind on one way, and its topic."""

    kind: Kind
    way: str
    topic: str
    members: list[ConsumerProcess]
    written: dict[tuple[Partition, int], str] = field(default_factory=dict)
    before: int = 0
    """Records that two polls had returned before the outage."""

    @property
    def living(self) -> list[ConsumerProcess]:
        """The members that can still own something."""
        return [one for one in self.members if not one.ended and one.fatal is None]

    def is_shared(self) -> bool:
        """Whether every living member owns something, and together they own everything once."""
        owned = [one.owned() for one in self.living]
        return all(owned) and sum(map(len, owned)) == len(frozenset().union(*owned)) == PARTITIONS

    def is_quiet(self) -> bool:
        """Whether no member was called back for a while."""
        last = max((event.mono for one in self.members for event in one.callbacks()), default=0)
        return time.monotonic_ns() - last > QUIET_S * 1e9

    def produce(self, kafka: Kafka, count: int) -> None:
        """Write records to its topic."""
        for record in kafka.produce(self.topic, count):
            self.written[Partition(record.topic, record.partition), record.offset] = record.value

    def read_twice(self) -> int:
        """Records that two polls returned."""
        return len(account(self.written, [list(one.events) for one in self.members]).duplicates)

    def row(self, began: int, back: int, ended: int) -> Row:
        """Its figures; times are nanoseconds of CLOCK_MONOTONIC."""
        logs = [list(one.events) for one in self.members]
        free = [gap for gap in gaps(logs, until=ended) if gap.end > back]
        seen = account(self.written, logs)
        return Row(
            kind=str(self.kind),
            way=self.way,
            owners_again_s=None
            if any(gap.end == ended for gap in free)
            else round(max((gap.end - back for gap in free), default=0) / 1e9, 1),
            rejoins=max(sum(event.mono > began for event in one.seen("assigned")) for one in self.members),
            read_twice=len(seen.duplicates) - self.before,
            lost=len(seen.lost),
            two_owners=sum(one.second.begin > began and not one.after_loss for one in overlaps(logs)),
            fatal=len(self.members) - len(self.living),
        )


class Scene:
    """A cluster, the proxies before it, and all groups on all ways."""

    def __init__(
        self, cluster: Cluster, scope: str, kinds: Sequence[Kind], ways: Sequence[str], folder: Path
    ) -> None:
        self._cluster, self._scope, self._folder = cluster, scope, folder
        self._kafka = Kafka(cluster.bootstrap, source="maven", version=cluster.version)
        self._consumers = Consumers(folder)
        self._stack = contextlib.ExitStack()
        self._kinds, self._ways = kinds, ways
        self._log_leaders: dict[int, int] = {}
        self._entries: Mapping[str, list[str]] = {}
        self._names = itertools.count()
        self.groups: list[Group] = []

    def __enter__(self) -> Self:
        with self._stack:
            self._stack.callback(self._consumers.end)
            self._entries = {way: self._start_proxies(way) for way in self._ways}
            if FLEET in self._ways:
                topic = self._kafka.admin.list_topics(LOG_TOPIC, timeout=60).topics[LOG_TOPIC]
                self._log_leaders = {number: at.leader for number, at in topic.partitions.items()}
            for kind, way in itertools.product(self._kinds, self._ways):
                self.groups.append(self._start(kind, way))
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start_proxies(self, way: str) -> list[str]:
        if way == STRAIGHT:
            return [self._kafka.bootstrap]
        fleet = {"kafka": {"bootstrap.servers": self._kafka.bootstrap}, "replication": 1, "expires": True}
        proxies = [
            self._stack.enter_context(
                running_proxy(
                    self._kafka.bootstrap,
                    self._folder / f"{way.replace(' ', '-')}-{number}",
                    sole_process=way == SOLE,
                    limits={},
                    fleet=fleet if way == FLEET else None,
                )
            )
            for number in range(2 if way == FLEET else 1)
        ]
        return [proxy.bootstrap for proxy in proxies]

    def _start(self, kind: Kind, way: str) -> Group:
        names = (f"translate-{number}" for number in self._names)
        name = next(filter(self._is_placed_right, names))
        topic = self._kafka.new_topic(f"of-{name}", partitions=PARTITIONS)
        entries = self._entries[way]
        group = Group(kind, way, topic, [])
        for number in range(MEMBERS):
            member = self._consumers.start(
                kind.library,
                entries[number % len(entries)],
                name,
                topic,
                kind.assignor,
                instance_id=f"instance-{number}" if kind.static else None,
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
                max_poll_interval_ms=300_000,
                auto_commit_interval_ms=5_000,
            )
            group.members.append(member)
        return group

    def _is_placed_right(self, group: str) -> bool:
        """Whether the right brokers of three coordinate a group and lead its partition of the log."""
        if self._scope == "cluster":
            return True
        coordinator = probe.find_coordinator(LOOPBACK, self._cluster.brokers[0].port, group)
        if coordinator != COORDINATOR_NODE:
            return False
        number = partition_of(member_key(group, ""), len(self._log_leaders)) if self._log_leaders else 0
        return self._log_leaders.get(number, LOG_NODE) == LOG_NODE

    def outage(self, away_s: float) -> dict[str, Any]:
        """Take away what is to be away, and wait until all groups have settled, or long enough."""
        self._settle("before the outage", STARTS_S)
        for group in self.groups:
            group.produce(self._kafka, RECORDS)
        self._read_all()
        for group in self.groups:
            group.before = group.read_twice()
        nodes = {"cluster": range(1, len(self._cluster.brokers) + 1), "coordinator": [COORDINATOR_NODE]}.get(
            self._scope, [LOG_NODE]
        )
        began = time.monotonic_ns()
        for node in nodes:
            self._cluster.kill_broker(node)
        time.sleep(max(0.0, away_s - (time.monotonic_ns() - began) / 1e9))
        for node in nodes:
            self._cluster.brokers[node - 1].start()
            with contextlib.suppress(PermissionError):  # as if the clients were elsewhere
                os.setpriority(os.PRIO_PROCESS, self._cluster.brokers[node - 1].pid() or 0, -10)
        self._cluster.wait_ready()
        back = time.monotonic_ns()
        away_for_s = (back - began) / 1e9
        print(f"{time.strftime('%H:%M:%S')} {self._scope} away for {away_for_s:.1f} s", flush=True)
        settled = self._settle("after the outage", SETTLES_S, may_fail=True)
        ended = time.monotonic_ns()
        if settled:
            for group in self.groups:
                group.produce(self._kafka, RECORDS)
            self._read_all(may_fail=True)
        return {
            "scope": self._scope,
            "away_s": away_s,
            "away_for_s": round(away_for_s, 1),
            "load": round(os.getloadavg()[0], 1),
            "groups": [asdict(group.row(began, back, ended)) for group in self.groups],
        }

    def replace_broken(self) -> None:
        """Start another group instead of each that an outage did not leave whole."""
        for number, group in enumerate(self.groups):
            if len(group.living) < MEMBERS or not group.is_shared():
                for member in group.members:
                    member.end()
                self.groups[number] = self._start(group.kind, group.way)

    def _settle(self, what: str, timeout_s: float, *, may_fail: bool = False) -> bool:
        def settled() -> bool:
            return all(group.is_shared() and group.is_quiet() for group in self.groups)

        return self._wait(settled, f"all groups have settled {what}", timeout_s, may_fail=may_fail)

    def _read_all(self, *, may_fail: bool = False) -> None:
        def read() -> bool:
            return all(
                set(group.written) <= set().union(*(one.consumed() for one in group.members))
                for group in self.groups
            )

        self._wait(read, "all is read", 30.0, may_fail=may_fail)

    def _wait(self, is_so: Callable[[], bool], what: str, timeout_s: float, *, may_fail: bool) -> bool:
        deadline = time.monotonic() + timeout_s
        while not is_so():
            if time.monotonic() > deadline:
                if not may_fail:
                    raise AssertionError(
                        f"{timeout_s:g} s passed, and it is not so that {what}: {self._consumers.all}"
                    )
                print(f"{timeout_s:g} s passed, and it is not so that {what}", flush=True)
                return False
            time.sleep(0.5)
        return True


def measure(
    scope: str, away: Sequence[float], kinds: Sequence[Kind], ways: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Measure these outages of a scope one after the other, on brokers with GROUP_DEFAULTS.

    Raises AssertionError if the groups do not settle before an outage.
    """
    folder = FOLDER / scope
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    options: dict[str, Any] = {"brokers": 1 if scope == "cluster" else 3}
    overrides = {**GROUP_DEFAULTS, "offsets.topic.replication.factor": "1"}
    with (
        find_broker.own_cluster(f"bench-outage-{scope}", overrides=overrides, **options) as cluster,
        Scene(cluster, scope, kinds, ways, folder) as scene,
    ):
        for number, away_s in enumerate(away):
            if number:
                scene.replace_broken()
            yield scene.outage(away_s)


def main() -> int:
    """Measure the outages that the arguments name, print them, and write the report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.outage",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--scope", default="cluster", help=f"some of {','.join(SCOPES)}")
    parser.add_argument("--away-s", default="15,60", help="for how long, one or several")
    parser.add_argument("--clients", default=",".join(KINDS), help=f"some of {','.join(KINDS)}")
    parser.add_argument("--ways", default=",".join(WAYS), help=f"some of {','.join(WAYS)}")
    parser.add_argument("--record", action="store_true", help="into docs/evidence/outages.json")
    options = parser.parse_args()
    scopes, ways = options.scope.split(","), options.ways.split(",")
    clients = options.clients.split(",")
    if not (set(scopes) <= set(SCOPES) and set(ways) <= set(WAYS) and set(clients) <= set(KINDS)):
        parser.error("an unknown scope, way or kind of client")
    away = [float(one) for one in options.away_s.split(",")]
    kinds = [KINDS[one] for one in clients]
    about = {
        **recorded.of_code(ROOT),
        "kafka": find_broker.wanted_version(),
        "libraries": {str(kind.library): kind.library.version() for kind in kinds},
    }
    for scope in scopes:
        for found in measure(scope, away, kinds, ways):
            run = {**about, **found}
            print(outage_table.table(run), flush=True)
            (FOLDER / f"{scope}-{found['away_s']:g}.json").write_text(json.dumps(run, indent=1) + "\n")
            if options.record:
                outage_table.OUTAGES.keep(run)
    return 0


if __name__ == "__main__":
    sys.exit(main())
