"""The shadows of a process, in virtual time: when the broker is asked, what is computed, and what is only said."""

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from protocol_codecs import ApiKey, ErrorCode, Uuid
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    encode_assignment,
    encode_subscription,
)
from protocol_codecs.messages.describe_groups import DescribedGroup, DescribedGroupMember
from protocol_codecs.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from proxy.config.shadow import Shadow
from proxy.groups.broker_queries import BrokerQuery
from proxy.groups.group_registry import GroupRegistry
from proxy.groups.shadowing import Shadowing
from proxy.metrics.registry import Metrics
from proxy.runtime.wall_clock import WallClock
from proxy.shadow.view import ShadowView, Span
from tests.proxy.groups.events import event
from tests.proxy.reload.reloading import inline
from translation.actions import Connection, ConnectionId, EventKind
from translation.policy.policy import Mode, Policy, Rule

TOPIC_ID = Uuid(b"t" * 16)


def member(number: int, partitions: tuple[int, ...], **fields: Any) -> DescribedGroupMember:
    """A member that subscribes to ``t`` and has these partitions."""
    subscription = ConsumerProtocolSubscription(topics=("t",), rack_id=fields.pop("rack", None))
    assigned = (ConsumerProtocolTopicPartition(topic="t", partitions=partitions),) if partitions else ()
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=assigned, user_data=fields.pop("user_data", None)
    )
    return DescribedGroupMember(
        **{
            "member_id": f"m-{number}",
            "client_id": f"c-{number}",
            "client_host": "/127.0.0.1",
            "member_metadata": encode_subscription(subscription, 3),
            "member_assignment": encode_assignment(assignment, 3),
        }
        | fields
    )


def described(
    *members: DescribedGroupMember, state: str = "Stable", kind: str = "consumer"
) -> DescribedGroup:
    return DescribedGroup(
        error_code=0,
        group_id="g",
        group_state=state,
        protocol_type=kind,
        protocol_data="range",
        members=members,
    )


class Brokers:
    """Answers Metadata: topic ``t``, on three brokers in three racks, or what a test makes of it."""

    def __init__(self) -> None:
        self.asked = 0
        self.partitions = 4
        self.code = ErrorCode.NONE
        self.answers = True

    def ask(
        self,
        group_id: str,
        make_query: Callable[[Connection], BrokerQuery | None],
        on_response: Callable[[Any], None],
    ) -> bool:
        query = make_query(Connection(ConnectionId(1), "/127.0.0.1", {ApiKey.METADATA: (0, 13)}))
        assert query is not None
        assert not query.message.allow_auto_topic_creation  # type: ignore[attr-defined]
        self.asked += 1
        if self.answers:
            on_response(self.metadata())
        return self.answers

    def metadata(self) -> MetadataResponse:
        partitions = tuple(
            MetadataResponsePartition(
                error_code=0, partition_index=n, leader_id=n % 3, replica_nodes=(n % 3,), isr_nodes=(n % 3,)
            )
            for n in range(self.partitions)
        )
        return MetadataResponse(
            brokers=tuple(
                MetadataResponseBroker(node_id=n, host="h", port=1, rack=f"rack-{n}") for n in range(3)
            ),
            topics=(
                MetadataResponseTopic(
                    error_code=self.code,
                    name="t",
                    topic_id=TOPIC_ID,
                    partitions=() if self.code else partitions,
                ),
            ),
        )


class Bench:
    """A registry with one observed group, and its shadows."""

    def __init__(self, **config: Any) -> None:
        self.brokers = Brokers()
        self.registry = GroupRegistry(Policy(default=Mode.OBSERVE))
        self.registry.record(event(EventKind.JOINED, protocol="classic"), 1)
        self.metrics = Metrics()
        self.shadowing = Shadowing(
            self.brokers, self.registry, WallClock(), Shadow(**config), self.metrics, run_in_thread=inline
        )

    async def told(self, group: DescribedGroup, wait_s: float = 0.0) -> ShadowView | None:
        """What is told once the group was described, and everything has been computed."""
        await trio.sleep(wait_s)
        self.shadowing.described("g", group)
        await trio.sleep(20)
        return self.registry.groups["g"].shadow


@pytest.fixture
def bench(nursery: trio.Nursery, autojump_clock: MockClock) -> Bench:
    made = Bench()
    nursery.start_soon(made.shadowing.run)
    return made


TWO = (member(1, (0, 1, 2, 3)), member(2, ()))


async def test_counts_empty_members_and_what_moves(bench: Bench, autojump_clock: MockClock) -> None:
    view = await bench.told(described(*TWO))

    assert view is not None
    assert view.why_not is None
    assert (view.empty_now, view.fewest_now, view.most_now) == (1, 0, 4)
    assert (view.empty, view.fewest, view.most) == (
        Span(low=0, high=0),
        Span(low=2, high=2),
        Span(low=2, high=2),
    )
    assert view.moved == Span(low=2, high=2)
    assert view.assignor == "uniform"  # range is not what they have


async def test_members_without_a_partition_are_told(bench: Bench, autojump_clock: MockClock) -> None:
    bench.brokers.partitions = 1

    view = await bench.told(described(member(1, (0,)), member(2, ()), member(3, ())))

    assert view is not None
    assert view.empty == Span(low=2, high=2)


async def test_racks_are_told_if_clients_name_them(bench: Bench, autojump_clock: MockClock) -> None:
    bench.brokers.partitions = 3
    held = {2: (0, 1, 2), 0: (), 1: ()}

    view = await bench.told(described(*(member(n, has, rack=f"rack-{n}") for n, has in held.items())))

    assert view is not None
    assert view.rack_local_now == 1
    assert view.racks_lost == Span(low=1, high=1)


async def test_without_racks_nothing_is_said_of_them(bench: Bench, autojump_clock: MockClock) -> None:
    view = await bench.told(described(*TWO))

    assert view is not None
    assert (view.rack_local_now, view.racks_lost) == (None, None)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "its clients may not describe all of its topics"),
        (ErrorCode.UNKNOWN_SERVER_ERROR, "its clients may not describe all of its topics"),
    ],
)
async def test_hidden_topics_are_unknown_not_empty(
    bench: Bench, autojump_clock: MockClock, code: ErrorCode, why: str
) -> None:
    bench.brokers.code = code

    view = await bench.told(described(*TWO))

    assert view is not None
    assert view.why_not is not None
    assert view.why_not.startswith(why)
    assert view.empty is None


async def test_a_broker_that_does_not_answer_is_said(bench: Bench, autojump_clock: MockClock) -> None:
    bench.brokers.answers = False

    view = await bench.told(described(*TWO))

    assert view is not None
    assert view.why_not == "no broker could be asked for its topics"


@pytest.mark.parametrize(
    ("group", "why"),
    [
        (described(member(1, (0,)), kind="connect"), "it is no group of consumers"),
        (described(member(1, (0,)), state="PreparingRebalance"), "it is rebalancing"),
        (described(member(1, (0,), member_metadata=b"")), "the subscription of a member can't be read"),
        (described(member(1, (0,), member_assignment=b"\0")), "the assignment of a member can't be read"),
        (described(*(member(n, ()) for n in range(600))), "too large: it has 600 members"),
        (described(member(1, tuple(range(6000)))), "too large: its members have more than 5000 partitions"),
        (
            described(member(1, tuple(range(3000))), member(2, tuple(range(3000, 6000)))),
            "too large: its members have more than 5000 partitions",
        ),
    ],
)
async def test_what_cannot_be_told_is_said(
    bench: Bench, autojump_clock: MockClock, group: DescribedGroup, why: str
) -> None:
    view = await bench.told(group)

    assert view is not None
    assert view.why_not is not None
    assert view.why_not.startswith(why)
    assert bench.brokers.asked <= 1


async def test_no_broker_is_asked_for_the_topics_of_a_huge_group(
    bench: Bench, autojump_clock: MockClock
) -> None:
    await bench.told(described(member(1, tuple(range(3000))), member(2, tuple(range(3000, 6000)))))

    assert bench.brokers.asked == 0


async def test_too_many_partitions_are_said(bench: Bench, autojump_clock: MockClock) -> None:
    bench.brokers.partitions = 5_001

    view = await bench.told(described(*TWO))

    assert view is not None
    assert view.why_not == "too large: its topics have more than 5000 partitions"


async def test_user_data_in_assignments_moves_the_group_at_once(
    bench: Bench, autojump_clock: MockClock
) -> None:
    view = await bench.told(described(member(1, (0, 1), user_data=b"x"), member(2, (2, 3))))

    assert view is not None
    assert view.at_once == "the assignments carry user data of their assignor"


async def test_nothing_is_asked_or_computed_again_until_something_changes(
    bench: Bench, autojump_clock: MockClock
) -> None:
    first = await bench.told(described(*TWO))
    again = await bench.told(described(*TWO), wait_s=100)
    assert again is first
    assert bench.brokers.asked == 1

    same_topics = await bench.told(described(*TWO), wait_s=300)
    assert same_topics is first
    assert bench.brokers.asked == 2

    bench.brokers.partitions = 6
    grown = await bench.told(described(*TWO), wait_s=300)
    assert grown is not first
    assert grown is not None
    assert grown.partitions == 6

    joined = await bench.told(described(*TWO, member(3, ())), wait_s=60)
    assert joined is not None
    assert joined.members == 3


async def test_while_the_group_rebalances_what_was_told_stays(
    bench: Bench, autojump_clock: MockClock
) -> None:
    first = await bench.told(described(*TWO))

    assert await bench.told(described(*TWO, state="PreparingRebalance"), wait_s=100) is first


async def test_only_observed_groups_have_a_shadow(bench: Bench, autojump_clock: MockClock) -> None:
    assert await bench.told(described(*TWO)) is not None

    bench.registry.set_policy(Policy(rules=(Rule(mode=Mode.TRANSLATE, group="g"),)), 2)
    assert bench.registry.groups["g"].shadow is None
    assert await bench.told(described(*TWO), wait_s=100) is None

    bench.registry.set_policy(Policy(default=Mode.OBSERVE), 3)
    assert await bench.told(described(*TWO), wait_s=1) is not None


async def test_the_share_of_the_processor_is_kept(
    nursery: trio.Nursery, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(processor_share=0.05)
    nursery.start_soon(bench.shadowing.run)
    bench.brokers.partitions = 800
    told = trio.Event()
    store = bench.registry.set_shadow

    def stored(group_id: str, view: ShadowView) -> None:
        store(group_id, view)
        told.set()

    monkeypatch.setattr(bench.registry, "set_shadow", stored)
    began = trio.current_time()

    bench.shadowing.described("g", described(*(member(n, (n, n + 400)) for n in range(400))))
    await told.wait()

    used_s = bench.metrics.shadow_seconds._value.get()
    assert used_s > 0.01
    # What the last slice used is rested for after it was told.
    assert trio.current_time() - began >= 0.8 * used_s * 19


async def test_a_huge_group_delays_few_others(
    nursery: trio.Nursery, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    told: list[str] = []
    monkeypatch.setattr(bench.registry, "set_shadow", lambda group_id, _view: told.append(group_id))
    sizes = {"huge": 60, "large": 30, "b": 2, "c": 3, "d": 4}
    for group_id, members in sizes.items():
        bench.registry.record(event(EventKind.JOINED, group=group_id, protocol="classic"), 1)
        bench.shadowing.described(group_id, described(*(member(n, ()) for n in range(members))))

    nursery.start_soon(bench.shadowing.run)
    await trio.sleep(600)

    assert told == ["b", "huge", "c", "large", "d"]


async def test_descriptions_that_wait_are_bounded(bench: Bench, autojump_clock: MockClock) -> None:
    large = member(1, (), member_metadata=bytes(9 * 1024 * 1024))
    bench.registry.record(event(EventKind.JOINED, group="other", protocol="classic"), 1)

    bench.shadowing.described("g", described(large))
    bench.shadowing.described("other", described(large))

    assert list(bench.shadowing._waiting) == ["g"]
