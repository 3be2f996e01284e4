from proxy.demo.members import MemberBoard, MemberView
from translation.actions import Event, EventKind


def event(**fields: object) -> Event:
    told = {"group_id": "g", "member_id": "m", "client_id": "epochgate-1", "state": "Stable", **fields}
    return Event(kind=EventKind.EPOCH_MOVED, **told)


def test_a_member_is_known_by_its_client_id_and_by_the_latest_event():
    board = MemberBoard("g")
    assert board.saw(event(generation=2, epoch=2))
    assert board.saw(event(generation=2, epoch=5))
    assert board.of("epochgate-1") == MemberView("Stable", generation=2, epoch=5)
    assert board.of("epochgate-2") is None


def test_events_of_other_groups_and_of_no_member_are_left_out():
    board = MemberBoard("g")
    assert not board.saw(event(group_id="other"))
    assert not board.saw(event(member_id=""))
    assert board.of("epochgate-1") is None
