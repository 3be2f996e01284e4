from proxy.demo.members import MemberTracker, MemberView
from translation.actions import Event, EventKind


def event(**fields: object) -> Event:
    ownership = {"group_id": "g", "member_id": "m", "client_id": "epochgate-1", "state": "Stable", **fields}
    return Event(kind=EventKind.EPOCH_MOVED, **ownership)


def test_a_member_is_known_by_its_client_id_and_by_the_latest_event():
    tracker = MemberTracker("g")
    assert tracker.record(event(generation=2, epoch=2))
    assert tracker.record(event(generation=2, epoch=5))
    assert tracker.of("epochgate-1") == MemberView("Stable", generation=2, epoch=5)
    assert tracker.of("epochgate-2") is None


def test_events_of_other_groups_and_of_no_member_are_left_out():
    tracker = MemberTracker("g")
    assert not tracker.record(event(group_id="other"))
    assert not tracker.record(event(member_id=""))
    assert tracker.of("epochgate-1") is None
