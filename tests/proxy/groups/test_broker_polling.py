"""What the poller makes of a broker's description of a group."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
)
from proxy.groups.broker_polling import BrokerGroupPoller
from proxy.groups.broker_queries import Description
from proxy.groups.group_registry import GroupRegistry
from proxy.groups.snapshot import BrokerView
from proxy.metrics.registry import Metrics
from proxy.runtime.wall_clock import WallClock
from translation.members.conversion import HELPER_PREFIX

GROUP = "orders"
CLASSIC, CONSUMER = 0, 1


class AnsweringBrokers:
    """Brokers that answer each query with one description."""

    def __init__(self, group: ConsumerGroupDescribeResponseDescribedGroup) -> None:
        self._group = group

    def ask(self, _group_id: str, _make_query: object, on_response: Callable[[Any], None]) -> bool:
        on_response(ConsumerGroupDescribeResponse(groups=(self._group,)))
        return True

    def described(self, _group_id: str, _description: Description) -> None:
        pass


def test_the_helper_of_a_conversion_is_no_member() -> None:
    types = {"a": CLASSIC, "b": CONSUMER, f"{HELPER_PREFIX}1": CONSUMER}
    members = tuple(
        ConsumerGroupDescribeResponseMember(member_id=member_id, member_type=kind)
        for member_id, kind in types.items()
    )
    group = ConsumerGroupDescribeResponseDescribedGroup(
        group_id=GROUP, group_state="Stable", group_epoch=3, members=members
    )
    views: list[BrokerView] = []
    registry = SimpleNamespace(
        groups={GROUP: SimpleNamespace(id=GROUP, members={"a": SimpleNamespace(protocol="classic")})},
        set_broker_view=lambda _group_id, view: views.append(view),
    )
    poller = BrokerGroupPoller(
        AnsweringBrokers(group),
        cast("GroupRegistry", registry),
        WallClock(),
        1.0,
        cast("Metrics", None),
    )
    poller.poll_due_groups(0.0)
    (view,) = views
    assert (view.classic, view.consumer, view.members) == (1, 1, ("a", "b"))
