"""The case studies of KIP-848, state by state.

Which member gets which partition follows from the member ids; here they are such that the pictures are the KIP's. Where
the epochs differ, the numbers are Kafka's: a group begins at epoch 1, so its first member makes it 2.
"""

import pytest

from coordinator.config import CoordinatorConfig
from tests.coordinator.core_backend import CONFIG, CoreBackend
from tests.coordinator.picture import picture
from tests.coordinator.scenarios.steps import all_join, all_sync, stable_pair
from tests.coordinator.script import Classic, Member, Script


@pytest.fixture
def s() -> Script:
    script = Script(CoreBackend(config=CONFIG), "kip")
    script.configure(interval=0)
    return script


def two_members_and_six_partitions(s: Script) -> tuple[Member, Member]:
    s.topic("foo", 6)
    a, b = s.member("A"), s.member("B")
    a.join()
    b.join()
    a.settle()
    b.settle()
    return a, b


def test_basic_a_second_member_waits_for_what_the_first_gives_up(s: Script):
    s.topic("foo", 3)
    a, b = s.member("A"), s.member("B")

    a.join()
    assert picture(s) == {
        "group": 2,
        "state": "Stable",
        "target": (2, {"A": [0, 1, 2]}),
        "members": {"A": (2, [0, 1, 2], [], [])},
    }

    b.join()  # it reaches the new epoch at once, but 2 is still with A
    assert picture(s) == {
        "group": 3,
        "state": "Reconciling",
        "target": (3, {"A": [0, 1], "B": [2]}),
        "members": {"A": (2, [0, 1, 2], [], []), "B": (3, [], [], [2])},
    }

    assert a.beat()["assignment"] == {"foo": [0, 1]}  # told to revoke
    assert picture(s)["members"] == {"A": (2, [0, 1], [2], []), "B": (3, [], [], [2])}

    assert b.beat()["assignment"] is None  # nothing yet
    a.ack()
    assert picture(s)["members"] == {"A": (3, [0, 1], [], []), "B": (3, [], [], [2])}

    assert b.beat()["assignment"] == {"foo": [2]}
    assert picture(s) == {
        "group": 3,
        "state": "Stable",
        "target": (3, {"A": [0, 1], "B": [2]}),
        "members": {"A": (3, [0, 1], [], []), "B": (3, [2], [], [])},
    }


def test_basic_a_third_member_changes_nothing_for_who_keeps_all(s: Script):
    s.topic("foo", 3)
    a, b, c = s.member("A"), s.member("B"), s.member("C")
    a.join()
    b.join()
    a.settle()
    b.settle()

    c.join()
    assert picture(s) == {
        "group": 4,
        "state": "Reconciling",
        "target": (4, {"A": [0], "B": [2], "C": [1]}),
        "members": {"A": (3, [0, 1], [], []), "B": (3, [2], [], []), "C": (4, [], [], [1])},
    }

    assert b.beat()["assignment"] is None  # only its epoch moves
    assert picture(s)["members"] == {
        "A": (3, [0, 1], [], []),
        "B": (4, [2], [], []),
        "C": (4, [], [], [1]),
    }

    assert c.beat()["assignment"] is None
    assert a.beat()["assignment"] == {"foo": [0]}
    a.ack()
    assert c.beat()["assignment"] == {"foo": [1]}
    assert picture(s)["members"] == {"A": (4, [0], [], []), "B": (4, [2], [], []), "C": (4, [1], [], [])}


def test_member_joins_and_gets_its_partitions_one_by_one(s: Script):
    a, b = two_members_and_six_partitions(s)
    assert picture(s)["target"] == (3, {"A": [0, 1, 2], "B": [3, 4, 5]})
    c = s.member("C")

    c.join()
    assert picture(s) == {
        "group": 4,
        "state": "Reconciling",
        "target": (4, {"A": [0, 1], "B": [3, 4], "C": [2, 5]}),
        "members": {
            "A": (3, [0, 1, 2], [], []),
            "B": (3, [3, 4, 5], [], []),
            "C": (4, [], [], [2, 5]),
        },
    }

    a.beat()
    b.beat()
    assert c.beat()["assignment"] is None
    a.ack()
    assert picture(s)["members"] == {
        "A": (4, [0, 1], [], []),
        "B": (3, [3, 4], [5], []),
        "C": (4, [], [], [2, 5]),
    }

    assert c.beat()["assignment"] == {"foo": [2]}
    b.ack()
    assert c.beat()["assignment"] == {"foo": [2, 5]}
    assert picture(s)["members"] == {
        "A": (4, [0, 1], [], []),
        "B": (4, [3, 4], [], []),
        "C": (4, [2, 5], [], []),
    }


def test_member_failure(s: Script):
    a, b = two_members_and_six_partitions(s)
    c = s.member("C")
    c.join()
    for member in (a, b, c):
        member.settle()
    c.beat()

    for _ in range(5):  # A is silent for its session timeout of six seconds
        s.pass_time(1000)
        b.beat()
        c.beat()
    s.pass_time(1000)
    assert picture(s) == {
        "group": 5,
        "state": "Assigning",
        "target": (4, {"B": [3, 4], "C": [2, 5]}),
        "members": {"B": (4, [3, 4], [], []), "C": (4, [2, 5], [], [])},
    }

    assert b.beat()["assignment"] == {"foo": [0, 3, 4]}
    assert picture(s) == {
        "group": 5,
        "state": "Reconciling",
        "target": (5, {"B": [0, 3, 4], "C": [1, 2, 5]}),
        "members": {"B": (5, [0, 3, 4], [], []), "C": (4, [2, 5], [], [])},
    }

    c.beat()
    assert picture(s) == {
        "group": 5,
        "state": "Stable",
        "target": (5, {"B": [0, 3, 4], "C": [1, 2, 5]}),
        "members": {"B": (5, [0, 3, 4], [], []), "C": (5, [1, 2, 5], [], [])},
    }


def test_partition_added(s: Script):
    s.topic("foo", 1)
    a, b = s.member("A"), s.member("B")
    a.join()
    b.join()
    assert picture(s)["members"] == {"A": (2, [0], [], []), "B": (3, [], [], [])}
    a.beat()

    s.add_partitions("foo", 2)
    assert picture(s)["group"] == 3  # nothing happens before somebody sends a heartbeat

    b.beat()
    assert picture(s) == {
        "group": 4,
        "state": "Reconciling",
        "target": (4, {"A": [0], "B": [1]}),
        "members": {"A": (3, [0], [], []), "B": (4, [1], [], [])},
    }
    a.beat()
    assert picture(s)["members"] == {"A": (4, [0], [], []), "B": (4, [1], [], [])}


@pytest.fixture
def generic(s: Script) -> tuple[Script, dict[str, Classic]]:
    """A classic group of three: A with 0 and 1, B with 3 and 4, C with 2 and 5."""
    s.topic("foo", 6)
    a, b = stable_pair(s)
    c = s.classic("C")
    c.ask_member_id()
    waiting = c.send_join()
    all_join(a, b)
    c.joined(waiting)
    members = {"A": a, "B": b, "C": c}
    assignment = {"A": {"foo": [0, 1]}, "B": {"foo": [3, 4]}, "C": {"foo": [2, 5]}}
    all_sync(assignment, *members.values())
    return s, members


def test_online_migration(generic: tuple[Script, dict[str, Classic]]):
    s, classic = generic
    a, b, c = classic["A"], classic["B"], classic["C"]

    # A leaves and comes back with the new protocol: the group is converted, B and C keep what they had.
    a.leave()
    all_join(b, c)
    all_sync({"B": {"foo": [3, 4]}, "C": {"foo": [2, 5]}}, b, c)
    generation = b.generation
    new_a = s.member("A")
    new_a.join()
    converted = picture(s)
    assert converted["group"] == generation + 1
    assert converted["members"] == {
        "A": (generation + 1, [0, 1], [], []),
        "B": (generation, [3, 4], [], []),
        "C": (generation, [2, 5], [], []),
    }

    # B leaves; C hears of the rebalance at its next heartbeat, gives up everything and joins again.
    b.leave()
    new_a.beat()
    assert c.beat() == "REBALANCE_IN_PROGRESS"
    c.join(owned={})
    epoch = picture(s)["group"]
    assert c.generation == epoch
    c.sync()
    assert sorted((*new_a.assigned["foo"], *c.assigned["foo"])) == [0, 1, 2, 3, 4, 5]
    assert c.beat() == "NONE"
    assert picture(s)["members"] == {
        "A": (epoch, new_a.assigned["foo"], [], []),
        "C": (epoch, c.assigned["foo"], [], []),
    }

    # B returns with the new protocol: A and C each give up what goes to B.
    new_b = s.member("B")
    new_b.join()
    new_a.beat()
    assert c.beat() == "REBALANCE_IN_PROGRESS"
    c.join(owned={})
    c.sync()
    new_a.ack()
    new_b.beat()
    assert sorted((*new_a.assigned["foo"], *new_b.assigned["foo"], *c.assigned["foo"])) == [0, 1, 2, 3, 4, 5]
    assert {len(member.assigned["foo"]) for member in (new_a, new_b, c)} == {2}
    assert s.describe()["state"] == "Stable"


def test_a_cooperative_member_keeps_its_partitions_during_the_migration(
    generic: tuple[Script, dict[str, Classic]],
):
    s, classic = generic
    b = classic["B"]
    for name in "NOP":
        s.member(name).join()
    assert picture(s)["target"][1]["B"] in ([3], [4])  # type: ignore[index]

    assert b.beat() == "REBALANCE_IN_PROGRESS"
    b.join()  # it still owns 3 and 4: it keeps its generation as long as it has to give something up
    b.sync()
    kept = b.assigned["foo"]

    assert set(kept) < {3, 4}
    assert b.beat() == "REBALANCE_IN_PROGRESS"
    b.join()
    b.sync()
    assert b.assigned["foo"] == kept
    assert b.beat() == "NONE"


def test_a_group_of_its_own_size_limit_refuses_more():
    config = CoordinatorConfig(consumer_max_size=1, consumer_assignment_interval_ms=0)
    s = Script(CoreBackend(config=config), "full")
    s.topic("foo", 1)
    s.member("A").join()

    assert s.member("B").join()["error"] == "GROUP_MAX_SIZE_REACHED"


@pytest.mark.parametrize(("moves", "group_epoch"), [(True, 3), (False, 2)])
def test_another_assignor_moves_the_group_epoch_as_the_broker_is_configured(moves: bool, group_epoch: int):
    config = CoordinatorConfig(consumer_assignor_moves_epoch=moves, consumer_assignment_interval_ms=0)
    s = Script(CoreBackend(config=config), "votes")
    s.topic("foo", 1)
    a = s.member("A")
    a.join()

    assert a.beat(server_assignor="range")["epoch"] == group_epoch


@pytest.mark.parametrize(("shows", "described"), [(True, [0, 1, 2]), (False, [0, 1])])
def test_what_is_to_be_revoked_is_described_as_the_broker_is_configured(shows: bool, described: list[int]):
    config = CoordinatorConfig(consumer_describes_pending_revocation=shows, consumer_assignment_interval_ms=0)
    s = Script(CoreBackend(config=config), "described")
    s.topic("foo", 3)
    a, b = s.member("A"), s.member("B")
    a.join()
    b.join()
    a.beat()  # told to revoke one of three

    members = {member["id"]: member["assignment"] for member in s.describe()["members"]}
    assert members == {"A": {"foo": described}, "B": {}}
