"""How many members a group may have, and where they are."""

from tests.coordinator.core_backend import MAX_SIZE
from tests.coordinator.scenarios.registry import scenario
from tests.coordinator.script import Script


@scenario
def group_is_full(s: Script) -> None:
    """A member too many is refused; one that leaves makes room, and one that comes back needs none."""
    s.topic("foo", 4)
    s.configure(interval=0)
    members = [s.member(f"m{number}") for number in range(MAX_SIZE - 1)]
    members.append(s.member("static", instance_id="one"))
    for member in members:
        member.join()
    late = s.member("late")
    late.join()
    members[3].join()
    s.classic("classic").join()
    members[-1].leave(-2)
    s.member("static-2", instance_id="one").join()
    s.classic("static-3", instance_id="one").join()
    members[0].leave()
    late.join()
    s.describe()


@scenario
def classic_group_is_full(s: Script) -> None:
    """The same in a classic group; a live group that is too large for the other protocol is not converted."""
    s.topic("foo", 4)
    s.configure(interval=0)
    members = [s.classic(f"c{number:02}") for number in range(MAX_SIZE)]
    members[0].join()
    members[0].sync({members[0].member_id: {"foo": [0, 1, 2, 3]}})
    for member in members[1:]:
        member.ask_member_id()
    waiting = [(member, member.send_join()) for member in members[1:]]
    members[0].beat()
    waiting.insert(0, (members[0], members[0].send_join()))
    for member, join in waiting:
        member.joined(join)
    late = s.classic("late")
    late.join()
    s.member("new").join()
    members[5].leave()
    s.describe_classic()


@scenario
def members_have_racks(s: Script) -> None:
    """Racks are kept, shown, and change who gets what for neither assignor; a new one is no new subscription."""
    s.topic("foo", 5)
    s.configure(interval=0)
    near, far = s.member("A", rack_id="rack-a"), s.member("B", rack_id="rack-b", assignor="range")
    near.join()
    far.join()
    near.settle()
    far.settle()
    s.describe()
    near.heartbeat("moves to another rack", near.epoch, rack_id="rack-c")
    near.heartbeat("wants range too", near.epoch, server_assignor="range")
    near.settle()
    far.settle()
    s.describe()
