"""Gates of a move by steps, on a real Kafka: planted harm is stopped and taken back, and what is well goes on.

All of it takes minutes, so all are long tests; histories with gates are in tests/simulation/test_gate_seeds.py. The
first and the last judge by windows of three seconds (support/quick_gates.py), the other by those that are shipped.
"""

import contextlib
import json
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
from support import misbehaving
from support.broker import Kafka
from support.clients import CONFLUENT
from support.consumers import ConsumerProcess
from support.entry import Proxy, running_proxy
from support.load import Load
from support.misbehaving import Misbehaving
from support.waiting import eventually, stays

PARTITIONS = 4
QUICK = Path(__file__).parent / "support" / "quick_gates.py"
POLICY = """\
default: observe
rules:
  - {pattern: "moving-.*", mode: translate, switch_pause_ms: 200, steps: [1, "100%"], hold_s: 0, abort_if: {}}
  - {pattern: "lagging-.*", mode: translate, switch_pause_ms: 200, steps: [1, "100%"], hold_s: 0, abort_if: {
      lag: 300}}
  - {pattern: "pausing-.*", mode: translate, switch_pause_ms: 200, steps: [1, "100%"], hold_s: 0, abort_if: {
      unowned_s: null, rejoins: null, pause_p99_ms: 5000}}
"""
HARMS: Mapping[str, tuple[Callable[[Misbehaving], None], str]] = {
    "commits": (misbehaving.commits_with_an_old_generation, "commit errors"),
    "rejoins": (misbehaving.joins_all_the_time, "rejoins"),
    "flaps": (misbehaving.leaves_and_comes_back, ""),
    "disconnects": (misbehaving.loses_its_connection, "disconnects"),
    "crashes": (misbehaving.crashes_again_and_again, ""),
    "unowned": (misbehaving.never_asks_for_its_assignment, "seconds without an owner"),
}
"""What raw members do, and the gate that has to name it; empty: any may."""
LAGS = ("reads-nothing", misbehaving.reads_nothing, "lag", "lagging")
PAUSES = ("pauses", misbehaving.takes_long_in_each_rebalance, "pause p99", "pausing")
STOPPED_WITHIN_S = 60.0


def moves(proxy: Proxy) -> dict[str, dict]:
    """The moves of all groups in /api/groups, by group."""
    with urllib.request.urlopen(f"{proxy.admin}/api/groups", timeout=30) as answer:  # noqa: S310  the proxy's own
        groups = json.load(answer)["groups"]
    return {one["id"]: one["move"] for one in groups if one["move"]}


def kinds(kafka, group: str) -> Counter:
    """How many members the broker has of each kind; a classic group has classic ones only."""
    described = kafka.describe(group)
    if described is not None:
        return Counter(one.member_type for one in described.members)
    return Counter(classic=len(kafka.describe_classic(group).members))


@pytest.fixture
def fleet(kafka, group):
    return {
        "kafka": {"bootstrap.servers": kafka.bootstrap},
        "topic": f"members-{group}",
        "partitions": 4,
        "replication": 1,
        "expires": True,
    }


class Story:
    """Groups that are moved, each by its own topic, with a well-behaved client beside the one that does harm."""

    def __init__(self, kafka, consumers, proxy: Proxy, stack: contextlib.ExitStack, group: str) -> None:
        self.kafka, self.consumers, self.proxy, self._stack, self._group = (
            kafka,
            consumers,
            proxy,
            stack,
            group,
        )
        self.harmed: dict[str, Callable[[], float]] = {}
        """By group: since when there is harm, 0 while there is none."""
        self.expected: dict[str, str] = {}

    def new_group(self, name: str, kind: str = "moving") -> tuple[str, str]:
        """A group and its topic, on which records flow, with one client that heartbeats seldom."""
        group, topic = f"{kind}-{name}-{self._group}", self.kafka.new_topic(partitions=PARTITIONS)
        self._stack.enter_context(Load(self.kafka, topic))
        self.client(group, topic, heartbeat_interval_ms=3_000, session_timeout_ms=10_000)
        return group, topic

    def client(self, group: str, topic: str, **spec: object):
        """One more client of a group."""
        return self.consumers.start(CONFLUENT, self.proxy.bootstrap, group, topic, "range", **spec)

    def misbehaves(
        self, name: str, harm: Callable[[Misbehaving], None], gate: str, kind: str = "moving"
    ) -> None:
        """A group in which a raw member does harm once it is translated."""
        group, topic = self.new_group(name, kind)
        member = Misbehaving(self.proxy.bootstrap, group, topic, PARTITIONS, harm)
        self._stack.enter_context(member)
        self.harmed[group], self.expected[group] = lambda: member.harmed_at, gate

    def does_harm(
        self, name: str, harm: Callable[[ConsumerProcess, str], ConsumerProcess | None], gate: str = ""
    ) -> None:
        """A group in which a real client does harm once it is translated; `harm` returns its next process, if any."""
        kind = "lagging" if gate == "lag" else "moving"
        group, topic = self.new_group(name, kind)
        spec = {"heartbeat_interval_ms": 300, "name": f"bad-{name}"}
        started: list[float] = []
        stopping = threading.Event()

        def run() -> None:
            client = self.client(group, topic, **spec)
            while not stopping.wait(1.0):
                if started or kinds(self.kafka, group)["consumer"]:
                    started[:] = started or [time.monotonic()]
                    if harm(client, topic) is None:
                        client = self.client(group, topic, **spec)

        thread = threading.Thread(target=run, name=f"harm in {group}")
        thread.start()
        self._stack.callback(thread.join)
        self._stack.callback(stopping.set)
        self.harmed[group], self.expected[group] = lambda: started[0] if started else 0.0, gate

    def are_aborted(self) -> None:
        """Each is aborted within a minute of its first harm, by the gate that it has to be, and all are classic."""
        waiting = set(self.harmed)

        def look() -> set[str]:
            for group in list(waiting):
                move, since = moves(self.proxy).get(group), self.harmed[group]()
                if move and move["phase"] == "aborted":
                    waiting.discard(group)
                    assert move["why"].startswith(self.expected[group]), (group, move["why"])
                    assert since, f"{group} was aborted before there was harm: {move['why']}"
                elif since and time.monotonic() - since > STOPPED_WITHIN_S:
                    raise AssertionError(f"{group} was not stopped: {move}")
            return waiting

        eventually(
            look, lambda left: not left, what="all moves with harm are aborted", timeout_s=200, between_s=0.5
        )
        for group in self.harmed:
            eventually(
                partial(kinds, self.kafka, group),
                lambda found: not found["consumer"],
                what=f"all of {group} are classic again",
                timeout_s=60,
            )


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.scenario("three kinds of harm abort their moves, and a group that is well is moved")
def test_harm_is_stopped_and_taken_back_and_what_is_well_goes_on(
    kafka, consumers, folder: Path, group, fleet
):
    with (
        running_proxy(kafka.bootstrap, folder / "proxy", policy=POLICY, fleet=fleet, script=QUICK) as proxy,
        contextlib.ExitStack() as stack,
    ):
        story = Story(kafka, consumers, proxy, stack, group)
        for name in ("commits", "disconnects"):
            story.misbehaves(name, *HARMS[name])
        story.misbehaves(*LAGS)
        well, topic = story.new_group("well")
        story.client(well, topic)
        story.are_aborted()
        eventually(
            partial(kinds, kafka, well), lambda found: found == Counter(consumer=2), what="all are moved"
        )
        assert moves(proxy)[well]["phase"] == "moving"
        stays(
            lambda: [kinds(kafka, one)["consumer"] for one in story.harmed],
            lambda found: not any(found),
            what="no group that was aborted is moved again",
            for_s=5,
        )
        assert 'epochgate_group_moves{phase="aborted"} 3' in proxy.metrics()


def stalls(client: ConsumerProcess, _topic: str) -> ConsumerProcess:
    """The application does not poll any more."""
    client.send("stall", ms=600_000)
    return client


def is_killed(client: ConsumerProcess, _topic: str) -> None:
    """The process is killed again and again."""
    client.kill()


def is_closed(client: ConsumerProcess, _topic: str) -> None:
    """The process ends in an orderly way, and is started again at once."""
    client.close()


def resubscribes(client: ConsumerProcess, topic: str) -> ConsumerProcess:
    """The application unsubscribes and subscribes again."""
    client.send("unsubscribe")
    client.send("subscribe", topics=[topic])
    return client


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.scenario(
    "twelve kinds of harm abort their moves within a minute, by the windows that are shipped"
)
def test_twelve_kinds_of_harm(kafka, consumers, folder: Path, group, fleet):
    with (
        running_proxy(kafka.bootstrap, folder / "proxy", policy=POLICY, fleet=fleet) as proxy,
        contextlib.ExitStack() as stack,
    ):
        story = Story(kafka, consumers, proxy, stack, group)
        for name, (harm, gate) in HARMS.items():
            story.misbehaves(name, harm, gate)
        story.misbehaves(*LAGS)
        story.misbehaves(*PAUSES)
        story.does_harm("stalls", stalls, "lag")
        story.does_harm("killed", is_killed)
        story.does_harm("closed", is_closed)
        story.does_harm("resubscribes", resubscribes)
        story.are_aborted()


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.scenario(
    "a broker is killed in a move: it is paused, nothing is taken back, and it goes on afterwards"
)
def test_a_broker_that_is_killed_pauses_a_move_and_takes_nothing_back(
    own_kafka, consumers, folder: Path, group
):
    cluster = own_kafka(brokers=3)
    kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
    with (
        running_proxy(cluster.bootstrap, folder / "proxy", policy=POLICY, script=QUICK) as proxy,
        contextlib.ExitStack() as stack,
    ):
        story = Story(kafka, consumers, proxy, stack, group)
        moving, topic = story.new_group("paused")
        for _ in range(2):
            story.client(moving, topic)
        eventually(
            partial(kinds, kafka, moving), lambda found: found["consumer"] == 1, what="one is translated"
        )
        cluster.kill_broker(2)
        eventually(
            lambda: moves(proxy)[moving], lambda move: move["gates"] == "paused", what="the move is paused"
        )
        stays(
            lambda: moves(proxy)[moving]["phase"], lambda phase: phase == "moving", what="it moves", for_s=15
        )
        cluster.start_broker(2)
        eventually(
            partial(kinds, kafka, moving),
            lambda found: found["consumer"] == 3,
            what="all are moved",
            timeout_s=120,
        )
