"""What the observer of classic members is told by the events of the translation."""

from typing import cast

import pytest

from proxy.connection.event_reporter import EventReporter
from proxy.metrics.registry import Metrics
from translation.actions import Event, EventKind, MemberProtocol
from translation.passthrough.observer import Observer


class Told:
    """In the place of the observer."""

    def __init__(self) -> None:
        self.translated: list[tuple[str, str]] = []

    def member_translated(self, group_id: str, member_id: str) -> None:
        self.translated.append((group_id, member_id))


@pytest.mark.parametrize("kind", [EventKind.JOINED, EventKind.ADOPTED])
def test_a_member_that_is_translated_now_is_no_classic_one_whose_session_expires(kind: EventKind) -> None:
    told, emitted = Told(), list[Event]()
    reporter = EventReporter(cast("Observer", told), emitted.append, cast("Metrics", None))
    event = Event(kind=kind, group_id="orders", member_id="a", protocol=MemberProtocol.TRANSLATED)
    classic = Event(kind=kind, group_id="orders", member_id="b", protocol=MemberProtocol.CLASSIC)
    reporter.report([event, classic])
    assert told.translated == [("orders", "a")]
    assert emitted == [event, classic]
