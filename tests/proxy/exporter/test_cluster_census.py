"""What a count of the cluster's groups says when brokers fail, refuse, or change their groups while it is made."""

from collections.abc import Mapping
from typing import Any

import pytest
import trio

from protocol_codecs import ApiKey, CodecError, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
)
from protocol_codecs.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from protocol_codecs.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from protocol_codecs.messages.list_groups import ListedGroup, ListGroupsResponse
from proxy.config.schema import Address
from proxy.exporter.broker_connection import BrokerRefuses
from proxy.exporter.cluster_census import (
    MAX_GROUPS_PER_S,
    ClusterCount,
    Gap,
    Kind,
    MemberKind,
    count_cluster,
)
from proxy.exporter.families import cluster_families
from proxy.transport.node_table import NodeIdentity
from translation.members.conversion import HELPER_PREFIX

CLASSIC, CONSUMER = Kind("classic", "consumer"), Kind("consumer", "consumer")
OF_CLASSIC = MemberKind("classic", "consumer", "classic")
OF_CONSUMER = MemberKind("consumer", "consumer", "consumer")
ALL_RIGHTS = 1 << 8


def listed(group_id: str, kind: Kind, state: str = "Stable") -> ListedGroup:
    return ListedGroup(
        group_id=group_id, protocol_type=kind.protocol, group_type=kind.type, group_state=state
    )


class Broker:
    """Answers as its attributes say; its groups can change at a call of an API."""

    def __init__(self, groups: Mapping[str, Kind] = {}, *, members: int = 1) -> None:
        self.groups = dict(groups)
        self.members = members
        self.helpers = 0
        self.error = ErrorCode.NONE
        self.fails: ApiKey | None = None
        self.fails_with: Exception = trio.BrokenResourceError()
        self.rights = ALL_RIGHTS
        self.ports: tuple[int, ...] = (1,)
        self.before_describe: Any = lambda: None
        self.described: list[tuple[float, str]] = []

    async def aclose(self) -> None:
        pass

    async def call(self, api_key: ApiKey, message: Any, _response: Any) -> Any:
        if api_key is self.fails:
            raise self.fails_with
        match api_key:
            case ApiKey.DESCRIBE_CLUSTER:
                return DescribeClusterResponse(
                    brokers=tuple(DescribeClusterBroker(host="b", port=port) for port in self.ports),
                    cluster_authorized_operations=self.rights,
                )
            case ApiKey.LIST_GROUPS:
                return ListGroupsResponse(
                    groups=tuple(listed(group, kind) for group, kind in self.groups.items())
                )
            case ApiKey.DESCRIBE_GROUPS:
                self._describe(message.groups)
                there = {group for group, kind in self.groups.items() if kind.type == "classic"}
                return DescribeGroupsResponse(
                    groups=tuple(
                        DescribedGroup(
                            group_id=group,
                            error_code=self.error,
                            group_state="Stable" if group in there else "Dead",
                            members=(DescribedGroupMember(),) * self.members,
                        )
                        for group in message.groups
                    )
                )
            case ApiKey.CONSUMER_GROUP_DESCRIBE:
                self._describe(message.group_ids)
                members = tuple(
                    ConsumerGroupDescribeResponseMember(member_id=name, member_type=1)
                    for name in ["m"] * self.members + [f"{HELPER_PREFIX}x"] * self.helpers
                )
                return ConsumerGroupDescribeResponse(
                    groups=tuple(
                        ConsumerGroupDescribeResponseDescribedGroup(group_id=group, members=members)
                        for group in message.group_ids
                    )
                )
        raise BrokerRefuses(f"the broker has no {api_key.name}")

    def _describe(self, groups: tuple[str, ...]) -> None:
        self.before_describe()
        self.described += [(trio.current_time(), group) for group in groups]


class Account:
    """Connects to the brokers by port."""

    bootstrap = (Address("b", 0), Address("b", 1))

    def __init__(self, *brokers: Broker) -> None:
        self.brokers = dict(enumerate(brokers, start=1))

    async def connect(self, address: Address, meant: NodeIdentity | None = None) -> Broker:
        if address.port not in self.brokers:
            raise OSError("refused")
        return self.brokers[address.port]


async def counted(*brokers: Broker) -> ClusterCount:
    return await count_cluster(Account(*brokers))  # type: ignore[arg-type]


async def test_groups_of_all_brokers_are_added_and_the_helpers_of_conversions_are_no_members(autojump_clock):
    first, second = Broker({"a": CLASSIC}, members=3), Broker({"b": CONSUMER, "c": CONSUMER}, members=2)
    first.ports, second.helpers = (1, 2), 1
    count = await counted(first, second)
    assert count.is_complete
    assert (count.groups[CLASSIC], count.groups[CONSUMER]) == (1, 2)
    assert (count.members[OF_CLASSIC], count.members[OF_CONSUMER]) == (3, 4)


async def test_a_group_that_moves_between_list_and_description_counts_by_its_new_type(autojump_clock):
    broker = Broker({"a": CLASSIC, "gone": CLASSIC})

    def move() -> None:
        broker.groups = {"a": CONSUMER}

    broker.before_describe = move
    count = await counted(broker)
    assert count.is_complete
    assert {kind: number for kind, number in count.groups.items() if number} == {CONSUMER: 1}
    assert {kind: number for kind, number in count.members.items() if number} == {OF_CONSUMER: 1}


async def test_a_group_that_two_brokers_list_may_be_gone_at_both(autojump_clock):
    """Its coordinator moved in between; or the brokers are not what they say."""
    brokers = [Broker({"gone": CLASSIC}), Broker({"gone": CLASSIC})]
    brokers[0].ports = (1, 2)
    for broker in brokers:
        broker.before_describe = broker.groups.clear
    count = await counted(*brokers)
    assert (count.groups[CLASSIC], count.is_complete) == (0, True)


@pytest.mark.parametrize(
    "error", [CodecError("cut off"), ValueError("no host name"), UnicodeError("label too long")]
)
async def test_a_broker_with_an_answer_or_a_name_that_can_not_be_used_is_a_gap(autojump_clock, error):
    broken = Broker({"b": CLASSIC})
    broken.fails_with = error
    broken.fails = ApiKey.LIST_GROUPS
    first = Broker({"a": CLASSIC})
    first.ports = (1, 2)
    count = await counted(first, broken)
    assert (count.gaps, count.groups[CLASSIC]) == ({Gap.BROKERS: 1}, 1)


async def test_what_is_not_known_is_counted_as_a_gap(autojump_clock):
    away = Broker({"a": CLASSIC})
    away.ports = (1, 9)
    assert (await counted(away)).gaps == {Gap.BROKERS: 1}
    refusing = Broker({"a": CLASSIC, "b": CLASSIC})
    refusing.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    count = await counted(refusing)
    assert (count.gaps, count.groups[CLASSIC]) == ({Gap.GROUPS: 2}, 2)
    assert count.reasons[-1] == "classic groups: COORDINATOR_NOT_AVAILABLE"
    broken = Broker({"a": CLASSIC})
    broken.fails = ApiKey.LIST_GROUPS
    assert (await counted(broken)).gaps == {Gap.BROKERS: 1}
    blind = Broker({"a": CLASSIC})
    blind.rights = 0
    assert (await counted(blind)).gaps == {Gap.RIGHTS: 1}
    nowhere = await counted()
    assert nowhere.gaps == {Gap.BROKERS: 1}


async def test_a_type_that_a_broker_can_not_describe_does_not_hide_the_others(autojump_clock):
    count = await counted(Broker({"s": Kind("share", "share"), "new": Kind("other", "other"), "a": CLASSIC}))
    assert count.gaps == {Gap.GROUPS: 2}
    assert count.members[OF_CLASSIC] == 1


async def test_the_rate_of_descriptions_is_bounded_for_all_brokers_together(autojump_clock):
    brokers = [Broker({f"{name}{number}": CLASSIC for number in range(200)}) for name in "ab"]
    brokers[0].ports = (1, 2)
    assert (await counted(*brokers)).is_complete
    times = sorted(at for broker in brokers for at, _ in broker.described)
    assert len(times) == 400
    assert times[-1] - times[0] > 400 / MAX_GROUPS_PER_S - 1
    for at in times:
        assert sum(at <= other < at + 0.99 for other in times) <= MAX_GROUPS_PER_S


@pytest.mark.parametrize("state", ["Empty", "Dead"])
async def test_groups_without_members_are_not_described(autojump_clock, state):
    broker = Broker({"a": CLASSIC})
    plain = broker.call

    async def call(api_key: ApiKey, message: Any, response: Any) -> Any:
        if api_key is ApiKey.LIST_GROUPS:
            return ListGroupsResponse(groups=(listed("a", CLASSIC, state),))
        return await plain(api_key, message, response)

    broker.call = call  # type: ignore[method-assign]
    count = await counted(broker)
    assert count.is_complete
    assert count.groups[CLASSIC] == 1
    assert broker.described == []


async def test_no_group_and_an_unreachable_cluster_are_not_the_same_in_the_metrics(autojump_clock):
    def names(count: ClusterCount | None) -> dict[str, float]:
        return {one.name: one.samples[0].value for one in cluster_families(count)}

    assert names(await counted(Broker()))["epochgate_cluster_groups"] == 0
    assert "epochgate_cluster_groups" not in names(await counted())
    assert names(None) == {"epochgate_cluster_complete": 0}
