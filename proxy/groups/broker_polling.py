"""Polls brokers about groups (``metrics.ask_brokers_every_s``): how many members use the classic protocol, and how
many the new one.

The helper of a group that is being converted (:mod:`translation.members.conversion`) is no member of any client.

Each query goes over the connection of one of the group's own members. Its principal may describe the group, and no
further connection is needed. The number of queries per second is limited, however many groups there are.
"""

import math
from collections.abc import Callable

import trio

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.error_code import error_name
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from protocol_codecs.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from proxy.groups.broker_queries import BrokerQueries, BrokerQuery
from proxy.groups.group_records import GroupRecord
from proxy.groups.group_registry import GroupRegistry
from proxy.groups.snapshot import BrokerView
from proxy.metrics.periodic import run_periodically
from proxy.metrics.registry import Metrics
from proxy.runtime.wall_clock import WallClock
from translation.actions import Connection
from translation.members.conversion import is_helper

MAX_GROUPS_PER_S = 20
"""The most groups that are polled in one second."""

_INTERVAL_S = 1.0
_SETTLE_DELAY_S = 1.5
_CLASSIC_MEMBER = 0
_DEAD = "Dead"
_NOT_POLLED = ("share", "streams")


def nobody(_group_id: str, _described: DescribedGroup) -> None:
    """Nobody wants to know how brokers describe classic groups."""


class BrokerGroupPoller:
    """Polls each group every ``interval_s`` seconds, or less often if there are very many groups. 0: never.

    ``described`` is called with each description of a classic group.
    """

    def __init__(
        self,
        brokers: BrokerQueries,
        registry: GroupRegistry,
        clock: WallClock,
        interval_s: float,
        metrics: Metrics,
        described: Callable[[str, DescribedGroup], None] = nobody,
    ) -> None:
        self._brokers = brokers
        self._registry = registry
        self._clock = clock
        self._interval_s = interval_s
        self._metrics = metrics
        self._described = described
        self._due: dict[str, float] = {}

    async def run(self) -> None:
        """Poll until cancelled."""
        if self._interval_s:
            await run_periodically(
                _INTERVAL_S, lambda: self.poll_due_groups(trio.current_time()), self._metrics
            )

    def poll_due_groups(self, now: float) -> None:
        """Poll the groups that are due, the longest overdue first.

        Groups without members are skipped, and so are share groups and streams groups: none of the two queries is for
        them.
        """
        groups = self._registry.groups
        for gone in self._due.keys() - groups.keys():
            del self._due[gone]
        due = [
            (self._due.get(group.id, -math.inf), group.id)
            for group in groups.values()
            if group.members and self._due.get(group.id, -math.inf) <= now and not _is_other(group)
        ]
        for _, group_id in sorted(due)[:MAX_GROUPS_PER_S]:
            self._due[group_id] = now + self._interval_s
            self._query_consumer_group(group_id)

    def membership_changed(self, group_id: str) -> None:
        """Poll a group again soon, once the broker has assigned its changed members."""
        if self._interval_s:
            soon = trio.current_time() + _SETTLE_DELAY_S
            self._due[group_id] = min(soon, self._due.get(group_id, soon))

    def _query_consumer_group(self, group_id: str) -> None:
        def make_query(connection: Connection) -> BrokerQuery | None:
            version = _newest(connection, ApiKey.CONSUMER_GROUP_DESCRIBE, 1)
            message = ConsumerGroupDescribeRequest(group_ids=(group_id,))
            return None if version is None else BrokerQuery(ApiKey.CONSUMER_GROUP_DESCRIBE, version, message)

        def on_response(response: ConsumerGroupDescribeResponse) -> None:
            for group in response.groups:
                if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                    self._query_classic_group(group_id)
                elif group.error_code != ErrorCode.NONE:
                    self._store(group_id, error=error_name(group.error_code))
                else:
                    members = [member for member in group.members if not is_helper(member.member_id)]
                    classic = sum(member.member_type == _CLASSIC_MEMBER for member in members)
                    self._store(
                        group_id,
                        kind="consumer",
                        state=group.group_state,
                        classic=classic,
                        consumer=len(members) - classic,
                        epoch=group.group_epoch,
                        members=tuple(member.member_id for member in members),
                    )
                    self._brokers.described(group_id, group)

        if not self._brokers.ask(group_id, make_query, on_response):
            self._query_classic_group(group_id)

    def _query_classic_group(self, group_id: str) -> None:
        def make_query(connection: Connection) -> BrokerQuery | None:
            version = _newest(connection, ApiKey.DESCRIBE_GROUPS, 5)
            message = DescribeGroupsRequest(groups=(group_id,))
            return None if version is None else BrokerQuery(ApiKey.DESCRIBE_GROUPS, version, message)

        def on_response(response: DescribeGroupsResponse) -> None:
            for group in response.groups:
                self._described(group_id, group)
                if group.error_code != ErrorCode.NONE:
                    self._store(group_id, error=error_name(group.error_code))
                elif group.group_state == _DEAD:
                    self._store(group_id, error="the broker does not know this group")
                else:
                    self._store(
                        group_id,
                        kind="classic",
                        state=group.group_state,
                        classic=len(group.members),
                        members=tuple(member.member_id for member in group.members),
                    )
                    self._brokers.described(group_id, group)

        self._brokers.ask(group_id, make_query, on_response)

    def _store(
        self,
        group_id: str,
        *,
        kind: str = "",
        state: str = "",
        classic: int = 0,
        consumer: int = 0,
        epoch: int = -1,
        members: tuple[str, ...] = (),
        error: str = "",
    ) -> None:
        view = BrokerView(
            asked_at=self._clock.now_us() / 1_000_000,
            type=kind,
            state=state,
            classic=classic,
            consumer=consumer,
            epoch=epoch,
            members=members,
            error=error,
        )
        self._registry.set_broker_view(group_id, view)


def _is_other(group: GroupRecord) -> bool:
    """Whether it is a share group or a streams group; all members of such a group are of one protocol."""
    return next(iter(group.members.values())).protocol in _NOT_POLLED


def _newest(connection: Connection, api_key: ApiKey, newest: int) -> int | None:
    low, high = connection.versions.get(api_key, (0, -1))
    version = min(high, newest)
    return version if version >= low else None
