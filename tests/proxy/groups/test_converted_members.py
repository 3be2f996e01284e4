"""A member that was converted in place, on the page of its group."""

from proxy.groups.group_registry import GroupRegistry
from proxy.groups.group_views import view_of
from proxy.groups.timeline import timeline
from tests.proxy.groups.events import MICRO, event, life, topic
from translation.actions import Event, EventKind
from translation.moving.in_place import UNNOTICED
from translation.policy.policy import Policy


def test_a_converted_member_keeps_its_partitions_and_the_timeline_has_its_conversion() -> None:
    registry = GroupRegistry(Policy())
    refused = Event(kind=EventKind.PASSED_THROUGH, group_id="g", reason="not converted: it is in state Empty")
    events = [
        *life(owned=topic(0, 1), protocol="classic"),
        refused,
        event(EventKind.ADOPTED, owned=topic(0, 1), reason=UNNOTICED),
        event(EventKind.ADOPTED, owned=topic(0, 1), reason="found at the broker"),
    ]
    for number, one in enumerate(events):
        registry.record(one, (1 + number) * MICRO)
    shown = view_of(registry.groups["g"], 10 * MICRO)
    (member,) = shown.members
    assert (member.protocol, member.partitions) == ("translated", topic(0, 1))
    assert shown.why_not is None
    assert [UNNOTICED in mark.text for mark in timeline(shown, 10.0).marks] == [True]
