"""Gates of a move by steps, on a real Kafka: planted harm is stopped and taken back, and what is well goes on.

All of it takes minutes, so all are long tests; histories with gates are in tests/simulation/test_gate_seeds.py. The
twelve kinds of harm are judged by the windows that are shipped, the others by windows of three seconds
(support/quick_gates.py). The brokers have Kafka's own settings for groups. What was seen is in `gates.json` in each
test's folder.
"""

import contextlib
import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import misbehaving
from support.broker import Kafka
from support.clients import AIOKAFKA, CONFLUENT, COOPERATIVE
from support.consumers import ConsumerProcess
from support.entry import Proxy, running_proxy
from support.gate_story import PARTITIONS, POLICY, QUICK, Story, kinds, moves
from support.load import Load
from support.misbehaving import Misbehaving
from support.waiting import eventually, stays

from tools.kafka.settings import GROUP_DEFAULTS

HARMS: Mapping[str, tuple[Callable[[Misbehaving], None], str]] = {
    "commits": (misbehaving.commits_with_an_old_generation, "commit errors"),
    "rejoins": (misbehaving.joins_all_the_time, "rejoins"),
    "flaps": (misbehaving.leaves_and_comes_back, ""),
    "disconnects": (misbehaving.loses_its_connection, "disconnects"),
    "crashes": (misbehaving.crashes_again_and_again, ""),
    "unowned": (misbehaving.never_asks_for_its_assignment, "seconds without an owner"),
}
"""What raw members do once they are translated, and the gate that has to name it; empty: any may, or it is held."""
LAGS = ("reads-nothing", misbehaving.reads_nothing, "lag", "lagging")
PAUSES = ("pauses", misbehaving.takes_long_in_each_rebalance, "pause p99", "pausing")


@pytest.fixture(scope="module")
def stock(own_kafka_of_module) -> Kafka:
    """A broker with Kafka's own settings for groups."""
    cluster = own_kafka_of_module(overrides=GROUP_DEFAULTS)
    return Kafka(cluster.bootstrap, source="maven", version=cluster.version)


@pytest.fixture
def fleet(stock, group):
    return {
        "kafka": {"bootstrap.servers": stock.bootstrap},
        "topic": f"members-{group}",
        "partitions": 4,
        "replication": 1,
        "expires": True,
    }


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.scenario("three kinds of harm abort their moves, and a group that is well is moved")
def test_harm_is_stopped_and_taken_back_and_what_is_well_goes_on(
    stock, consumers, folder: Path, group, fleet
):
    with (
        running_proxy(
            stock.bootstrap, folder / "proxy", policy=POLICY, fleet=fleet, script=QUICK, limits={}
        ) as proxy,
        contextlib.ExitStack() as stack,
    ):
        story = Story(stock, consumers, proxy, stack, group)
        for name in ("commits", "disconnects"):
            story.misbehaves(name, *HARMS[name])
        story.misbehaves(*LAGS)
        well, topic = story.new_group("well")
        for _ in range(2):
            story.client(well, topic)
        story.are_stopped()
        eventually(
            partial(kinds, stock, well), lambda found: found == Counter(consumer=3), what="all are moved"
        )
        assert moves(proxy)[well]["phase"] == "moving"
        stays(
            lambda: [kinds(stock, one)["consumer"] for one in story.harmed],
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


def raw(name: str) -> Callable[[Story], None]:
    """A raw member that does this harm."""
    return lambda story: story.misbehaves(name, *HARMS[name])


TWELVE: Mapping[str, Callable[[Story], object]] = {
    **{name: raw(name) for name in HARMS},
    "reads-nothing": lambda story: story.misbehaves(*LAGS),
    "pauses": lambda story: story.misbehaves(*PAUSES),
    "stalls": lambda story: story.stuck.add(story.does_harm("stalls", stalls, "lag")),
    "killed": lambda story: story.stuck.add(story.does_harm("killed", is_killed, waits=False)),
    "closed": lambda story: story.does_harm("closed", is_closed),
    "resubscribes": lambda story: story.does_harm("resubscribes", resubscribes),
}
HEALTHY = 30
CLIENTS = ((CONFLUENT, "range"), (CONFLUENT, COOPERATIVE), (AIOKAFKA, "range"))
SLOW = """\
default: observe
rules:
  - {pattern: "slow-.*", mode: translate, steps: [4, "100%"], hold_s: 0, abort_if: {}}
"""
"""A step that takes so long that everybody can be killed in it."""
HALVES = list(TWELVE)[:6], list(TWELVE)[6:]


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.scenario(
    "twelve kinds of harm stop their moves within a minute, by the windows that are shipped"
)
@pytest.mark.parametrize("half", HALVES, ids=["raw members", "more"])
def test_twelve_kinds_of_harm(half: list[str], stock, consumers, folder: Path, group, fleet):
    with (
        running_proxy(stock.bootstrap, folder / "proxy", policy=POLICY, fleet=fleet, limits={}) as proxy,
        contextlib.ExitStack() as stack,
    ):
        story = Story(stock, consumers, proxy, stack, group)
        for name in half:
            TWELVE[name](story)
        seen = story.are_stopped()
        (folder / "gates.json").write_text(json.dumps(seen, indent=2))


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.scenario("30 groups of three kinds of clients are moved with gates, and none is aborted")
@pytest.mark.parametrize("half", [1, 2])
def test_fifteen_healthy_moves_beside_one_another(half, stock, consumers, folder: Path, group, fleet):
    """By the windows that are shipped. They are judged until a minute after the last step has settled."""
    topic = stock.new_topic(partitions=PARTITIONS)
    with (
        running_proxy(stock.bootstrap, folder / "proxy", policy=POLICY, fleet=fleet, limits={}) as proxy,
        Load(stock, topic),
    ):
        groups = [f"single-{number}-{group}" for number in range(HEALTHY // 2)]
        for name, (client, assignor) in zip(groups, itertools.cycle(CLIENTS), strict=False):
            for _ in range(2):
                consumers.start(
                    client,
                    proxy.bootstrap,
                    name,
                    topic,
                    assignor,
                    session_timeout_ms=10_000,
                    heartbeat_interval_ms=3_000,
                )
        said = set[str]()

        def look() -> dict[str, dict[str, Any]]:
            found = moves(proxy)
            said.update(f"{name}: {move['text']}" for name, move in found.items())
            return found

        def none_is_aborted(found: Mapping[str, dict[str, Any]]) -> bool:
            return not any(move["phase"] == "aborted" for move in found.values())

        def all_are_through(found: Mapping[str, dict[str, Any]]) -> bool:
            assert none_is_aborted(found), found
            return len(found) == len(groups) and all(
                move["step"] == move["steps"] and move["settled"] and move["gates"] == "clear"
                for move in found.values()
            )

        eventually(look, all_are_through, what="all are at the last step", timeout_s=400, between_s=1)
        stays(look, none_is_aborted, what="none is aborted while the last step is judged", for_s=65)
        for name in groups:
            assert kinds(stock, name) == Counter(consumer=2)
        (folder / "gates.json").write_text(json.dumps(sorted(said), indent=2))


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.scenario(
    "a broker is killed in a move: it is paused, nothing is taken back, and it goes on afterwards"
)
def test_a_broker_that_is_killed_pauses_a_move_and_takes_nothing_back(
    own_kafka, consumers, folder: Path, group
):
    cluster = own_kafka(brokers=3, overrides=GROUP_DEFAULTS)
    kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
    with (
        running_proxy(cluster.bootstrap, folder / "proxy", policy=POLICY, script=QUICK, limits={}) as proxy,
        contextlib.ExitStack() as stack,
    ):
        story = Story(kafka, consumers, proxy, stack, group)
        moving, topic = story.new_group("paused", "single")
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


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.scenario("all replicas are killed in a step: the first that is back goes on with it within 30 s")
def test_when_all_replicas_are_killed_the_first_that_is_back_goes_on_with_the_same_step(
    stock, consumers, folder: Path, group, fleet
):
    group, topic = f"slow-{group}", stock.new_topic(partitions=2 * PARTITIONS)
    replicas = [
        Proxy(
            stock.bootstrap,
            folder / f"proxy-{number}",
            policy=SLOW,
            fleet=fleet,
            sole_process=False,
            limits={},
        )
        for number in range(2)
    ]
    everywhere = ",".join(one.bootstrap for one in replicas)

    def translated() -> int:
        return int(kinds(stock, group)["consumer"])

    with contextlib.ExitStack() as stack:
        for one in replicas:
            stack.callback(one.stop)
            one.start()
        stack.enter_context(Load(stock, topic))
        for _ in range(6):
            consumers.start(
                CONFLUENT,
                everywhere,
                group,
                topic,
                COOPERATIVE,
                session_timeout_ms=30_000,
                heartbeat_interval_ms=1_000,
            )
        eventually(translated, lambda count: count == 1, what="the first is translated", timeout_s=150)
        for one in replicas:
            one.kill()
        before = translated()

        replicas[0].start()
        began = time.monotonic()
        said: list[dict[str, Any]] = []

        def looked() -> int:
            said.extend(filter(None, [moves(replicas[0]).get(group)]))
            return translated()

        eventually(looked, lambda count: count > before, what="the step goes on", timeout_s=30)
        took_s = time.monotonic() - began
        replicas[1].start()
        eventually(looked, lambda count: count == 6, what="all are translated", timeout_s=200, between_s=0.5)
    assert "baseline" not in {move["gates"] for move in said}, "it is measured once"
    assert [step for step, _ in itertools.groupby(move["step"] for move in said)] == [1, 2]
    (folder / "gates.json").write_text(json.dumps({"goes_on_after_s": round(took_s, 1)}))
