"""Counts all groups of a cluster and their members, by type and protocol, so many groups a second; those that no
proxy has seen too.

Each broker lists the groups that it coordinates, and describes them on the same connection, so FindCoordinator is not
needed. Groups whose listed state is ``Empty`` or ``Dead`` have no members and are not described. The number of groups
that are described per second is limited for the cluster as a whole.

ListGroups leaves out groups that the account may not DESCRIBE, without an error. Only an account with DESCRIBE on the
cluster is sure to get all, and DescribeCluster says whether it is one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

import msgspec
import trio

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.error_code import error_name
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from protocol_codecs.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol_codecs.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol_codecs.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from protocol_codecs.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from protocol_codecs.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from proxy.config.schema import Address
from proxy.exporter.broker_connection import BrokerAccount, BrokerConnection, BrokerRefuses
from proxy.transport.broker_calls import NoAnswerError
from proxy.transport.node_table import NodeIdentity
from proxy.wire.sasl_login import LoginError
from translation.members.conversion import is_helper

MAX_GROUPS_PER_S = 50
"""The most groups that are described in one second."""

GROUPS_AT_ONCE = 10
"""Groups of one request."""

_TIMEOUT_S = 10.0
_BROKERS_AT_ONCE = 10
_DESCRIBE = 1 << 8
"""The bit of DESCRIBE in a field of authorized operations."""

_WITHOUT_MEMBERS = frozenset({"Empty", "Dead"})
_CLASSIC_MEMBER = 0
_FAILURES = (
    OSError,
    ValueError,  # a host that is no name
    trio.BrokenResourceError,
    trio.TooSlowError,
    NoAnswerError,
    BrokerRefuses,
    LoginError,
)


class Gap(StrEnum):
    """What a count lacks."""

    BROKERS = "brokers"
    """Brokers that did not list their groups."""
    GROUPS = "groups"
    """Groups whose members are not known."""
    RIGHTS = "rights"
    """1 if the account lacks DESCRIBE on the cluster, so groups may be left out of the lists."""


class Kind(NamedTuple):
    """``type`` and ``protocol`` of a group as ListGroups has them, in lower case; ``none`` if it only has commits."""

    type: str
    protocol: str


class MemberKind(NamedTuple):
    """The kind of a member's group, and the protocol that the member itself uses."""

    type: str
    protocol: str
    member_type: str


_KINDS = (
    MemberKind("classic", "consumer", "classic"),
    MemberKind("classic", "connect", "classic"),
    MemberKind("consumer", "consumer", "classic"),
    MemberKind("consumer", "consumer", "consumer"),
    MemberKind("share", "share", "share"),
    MemberKind("streams", "streams", "streams"),
)
_TYPES = frozenset(kind.type for kind in _KINDS)
_PROTOCOLS = frozenset(kind.protocol for kind in _KINDS)


class ClusterCount(msgspec.Struct, frozen=True):
    """The groups and members of a cluster. With gaps the numbers are lower bounds."""

    groups: Counter[Kind]
    members: Counter[MemberKind]
    gaps: Counter[Gap]
    reasons: tuple[str, ...] = ()
    """Why there are gaps, for the log."""

    @property
    def is_complete(self) -> bool:
        """Whether these are all groups and all members."""
        return not self.gaps.total()


async def count_cluster(account: BrokerAccount) -> ClusterCount:
    """Count the groups and members of the cluster; errors of brokers are gaps of the result."""
    return await _Round(account).count()


class _Round:
    """One count."""

    def __init__(self, account: BrokerAccount) -> None:
        self._account = account
        self._listed: dict[str, Kind] = {}
        self._members: dict[str, Counter[str]] = {}
        """By member type; for each group whose members are known."""
        self._gaps = Counter[Gap]()
        self._reasons: dict[str, None] = {}
        self._next_batch_at = trio.current_time()

    async def count(self) -> ClusterCount:
        limiter = trio.CapacityLimiter(_BROKERS_AT_ONCE)
        async with trio.open_nursery() as nursery:
            for address, meant in await self._brokers():
                nursery.start_soon(self._read_broker, address, meant, limiter)
        groups = Counter[Kind](dict.fromkeys((Kind(*kind[:2]) for kind in _KINDS), 0))
        members = Counter[MemberKind](dict.fromkeys(_KINDS, 0))
        for group_id, kind in self._listed.items():
            groups[kind] += 1
            known = self._members.get(group_id)
            if known is None:
                self._gaps[Gap.GROUPS] += 1
            else:
                for member_type, number in known.items():
                    members[MemberKind(*kind, member_type)] += number
        return ClusterCount(groups, members, self._gaps, tuple(self._reasons))

    async def _brokers(self) -> tuple[tuple[Address, NodeIdentity], ...]:
        """The addresses of all brokers and who is to be there, from the first bootstrap broker that answers."""
        for address in self._account.bootstrap:
            try:
                with trio.fail_after(_TIMEOUT_S):
                    connection = await self._account.connect(address)
                    try:
                        cluster = await connection.call(
                            ApiKey.DESCRIBE_CLUSTER,
                            DescribeClusterRequest(include_cluster_authorized_operations=True),
                            DescribeClusterResponse,
                        )
                    finally:
                        await connection.aclose()
                    if cluster.error_code or not cluster.brokers:
                        raise BrokerRefuses(f"DescribeCluster: {error_name(cluster.error_code)}, no brokers")
            except _FAILURES as error:
                self._note(address, error)
                continue
            if not cluster.cluster_authorized_operations & _DESCRIBE:
                self._gaps[Gap.RIGHTS] = 1
                self._reasons["the account has no DESCRIBE on the cluster"] = None
            return tuple(
                (Address(one.host, one.port), NodeIdentity(cluster.cluster_id, one.broker_id))
                for one in cluster.brokers
            )
        self._gaps[Gap.BROKERS] += 1
        return ()

    async def _read_broker(
        self, address: Address, meant: NodeIdentity, limiter: trio.CapacityLimiter
    ) -> None:
        async with limiter:
            try:
                with trio.fail_after(_TIMEOUT_S):
                    connection = await self._account.connect(address, meant)
            except _FAILURES as error:
                self._gaps[Gap.BROKERS] += 1
                self._note(address, error)
                return
            try:
                await self._read_groups(connection)
            except _FAILURES as error:
                self._note(address, error)
            finally:
                await connection.aclose()

    async def _read_groups(self, connection: BrokerConnection) -> None:
        """List and describe. What is gone when it is described is listed once more: it may have another type now."""
        try:
            pending = await _list(connection)
        except _FAILURES:
            self._gaps[Gap.BROKERS] += 1
            raise
        for _ in range(2):
            self._listed |= {group.group_id: _kind(group) for group in pending}
            gone = await self._describe(connection, pending)
            if not gone:
                return
            pending = [group for group in await _list(connection) if group.group_id in gone]
            for group_id in gone - {group.group_id for group in pending}:
                self._listed.pop(group_id, None)  # two brokers may have listed it while its coordinator moved

    async def _describe(self, connection: BrokerConnection, groups: Iterable[ListedGroup]) -> set[str]:
        """Describe groups, and return those that are not there any more, or not of this type."""
        by_type: dict[str, list[str]] = {}
        for group in groups:
            if group.group_state in _WITHOUT_MEMBERS:
                self._members[group.group_id] = Counter()
            else:
                by_type.setdefault(_kind(group).type, []).append(group.group_id)
        gone = set[str]()
        for group_type, group_ids in by_type.items():
            for at in range(0, len(group_ids), GROUPS_AT_ONCE):
                batch = group_ids[at : at + GROUPS_AT_ONCE]
                await self._pace(len(batch))
                with trio.fail_after(_TIMEOUT_S):
                    gone |= await self._describe_batch(connection, group_type, tuple(batch))
        return gone

    async def _pace(self, groups: int) -> None:
        at = max(self._next_batch_at, trio.current_time())
        self._next_batch_at = at + groups / MAX_GROUPS_PER_S
        await trio.sleep_until(at)

    async def _describe_batch(
        self, connection: BrokerConnection, group_type: str, batch: tuple[str, ...]
    ) -> set[str]:
        gone = set[str]()
        try:
            described = await _described(connection, group_type, batch)
        except BrokerRefuses as error:  # it lists groups of this type, and can't describe them
            self._reasons[f"{group_type} groups: {error}"] = None
            return gone
        for group_id, error_code, members in described:
            if error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                gone.add(group_id)
            elif error_code:
                self._reasons[f"{group_type} groups: {error_name(error_code)}"] = None
            else:
                self._members[group_id] = members
        return gone & set(batch)

    def _note(self, address: Address, error: Exception) -> None:
        why = str(error) or type(error).__name__
        self._reasons[f"{address}: {why}"] = None


async def _list(connection: BrokerConnection) -> list[ListedGroup]:
    with trio.fail_after(_TIMEOUT_S):
        answer = await connection.call(ApiKey.LIST_GROUPS, ListGroupsRequest(), ListGroupsResponse)
    if answer.error_code:
        raise BrokerRefuses(f"ListGroups: {error_name(answer.error_code)}")
    return list(answer.groups)


def _kind(group: ListedGroup) -> Kind:
    """The labels of a group. Before ListGroups v5 there are classic groups only."""
    group_type, protocol = group.group_type.lower() or "classic", group.protocol_type or "none"
    return Kind(
        group_type if group_type in _TYPES else "other",
        protocol if protocol in _PROTOCOLS or protocol == "none" else "other",
    )


async def _described(
    connection: BrokerConnection, group_type: str, batch: tuple[str, ...]
) -> Iterator[tuple[str, int, Counter[str]]]:
    """Group id, error code and members by type of each group of a request."""
    match group_type:
        case "classic":
            classic = await connection.call(
                ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=batch), DescribeGroupsResponse
            )
            return (
                (
                    group.group_id,
                    ErrorCode.GROUP_ID_NOT_FOUND if group.group_state == "Dead" else group.error_code,
                    Counter(classic=len(group.members)),
                )
                for group in classic.groups
            )
        case "consumer":
            consumer = await connection.call(
                ApiKey.CONSUMER_GROUP_DESCRIBE,
                ConsumerGroupDescribeRequest(group_ids=batch),
                ConsumerGroupDescribeResponse,
            )
            return (
                (
                    group.group_id,
                    group.error_code,
                    Counter(
                        "classic" if member.member_type == _CLASSIC_MEMBER else "consumer"
                        for member in group.members
                        if not is_helper(member.member_id)
                    ),
                )
                for group in consumer.groups
            )
        case "share":
            share = await connection.call(
                ApiKey.SHARE_GROUP_DESCRIBE,
                ShareGroupDescribeRequest(group_ids=batch),
                ShareGroupDescribeResponse,
            )
            return (
                (group.group_id, group.error_code, Counter(share=len(group.members)))
                for group in share.groups
            )
        case "streams":
            streams = await connection.call(
                ApiKey.STREAMS_GROUP_DESCRIBE,
                StreamsGroupDescribeRequest(group_ids=batch),
                StreamsGroupDescribeResponse,
            )
            return (
                (
                    group.group_id,
                    group.error_code,
                    Counter("classic" if member.is_classic else "streams" for member in group.members),
                )
                for group in streams.groups
            )
        case _:
            return iter(())
