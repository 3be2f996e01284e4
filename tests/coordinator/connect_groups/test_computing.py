"""Who computes, what it is told, and which assignments are installed."""

import msgspec
import pytest

from coordinator.connect_groups.work import from_message
from protocol_codecs import ErrorCode
from protocol_codecs import connect_groups as c
from tests.coordinator.connect_groups.talk import COMPATIBLE, REBALANCE_MS, Talk, text, told

INVALID = c.ConnectErrorCode.INVALID_ASSIGNMENT


def joined(*members: str, configured: str = "a a-0 a-1") -> Talk:
    talk = Talk()
    for member in members or ("w1", "w2"):
        talk.join(member, configured, 7)
    return talk


def test_the_worker_that_joined_first_is_told_to_compute_and_no_other():
    talk = joined("w1", "w2")

    assert talk.beat("w1").should_compute_assignment
    assert not talk.beat("w2").should_compute_assignment


def test_a_worker_that_has_not_read_all_that_is_configured_does_not_compute_if_another_has():
    talk = Talk()
    talk.join("w1", "a", 7)
    talk.join("w2", "a b", 9)
    talk.compute("w1", {"w1": "a b", "w2": ""})  # it was its turn before there was anything else to read
    talk.leave("w1")
    talk.join("w3", "a", 7)

    assert talk.beat("w2").should_compute_assignment
    talk.compute("w2", {"w2": "a b", "w3": ""})
    talk.leave("w2")
    assert talk.beat("w3").should_compute_assignment


def test_nobody_is_told_when_there_is_nothing_to_compute():
    talk = joined("w1")
    talk.compute("w1", {"w1": "a a-0 a-1"})

    assert not talk.beat("w1").should_compute_assignment
    assert talk.prepare("w1").error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_computing_worker_is_told_of_the_whole_group():
    talk = joined("w1", "w2")
    talk.compute("w1", {"w1": "a a-0", "w2": "a-1"})
    talk.join("w3", "a a-0 a-1 b", 8)

    prepared = talk.prepare("w1")

    assert (prepared.error_code, prepared.group_epoch, prepared.assignor_name) == (0, 4, "compatible")
    assert {m.member_id: text(from_message(m.connectors_and_tasks)) for m in prepared.members} == {
        "w1": "a a-0",
        "w2": "a-1",
        "w3": "",
    }
    assert {m.assignor.version for m in prepared.members} == {1}
    assert text(from_message(prepared.configured)) == "a a-0 a-1 b"
    assert (prepared.config_offset, prepared.topics) == (8, ())


def test_an_assignment_becomes_the_target_of_the_epoch_it_was_computed_for():
    talk = joined("w1", "w2")

    talk.compute("w1", {"w1": "a a-0", "w2": "a-1"})

    assert talk.group.assignment_epoch == talk.group.group_epoch == 3
    assert {member: text(part.works) for member, part in talk.group.target.items()} == {
        "w1": "a a-0",
        "w2": "a-1",
    }


def test_the_assignors_metadata_goes_to_each_worker_with_its_part():
    talk = joined("w1")
    prepared = talk.prepare("w1")

    talk.install("w1", prepared.group_epoch, {"w1": "a a-0 a-1"}, version=2, metadata=b"delta")
    assignment = talk.beat("w1", runs="").assignment

    assert (assignment.error, assignment.version, assignment.metadata) == (0, 2, b"delta")


def test_metadata_of_a_target_is_not_given_before_its_epoch_is_reached():
    talk = joined("w1", "w2")
    talk.compute("w1", {"w1": "a a-0 a-1", "w2": ""})
    talk.beat("w1", runs="")
    talk.join("w3", "a a-0 a-1", 7)
    epoch = talk.prepare("w1").group_epoch
    talk.install("w1", epoch, {"w1": "a", "w2": "a-0", "w3": "a-1"}, metadata=b"delta")

    revoking = talk.beat("w1", runs="a a-0 a-1")
    assert (told(revoking), revoking.assignment.metadata, revoking.member_epoch) == ("a", b"", 3)
    done = talk.beat("w1", runs="a")
    assert (told(done), done.assignment.metadata, done.member_epoch) == ("a", b"delta", 4)


@pytest.mark.parametrize(
    ("what", "assignment"),
    [
        ("assigned twice", {"w1": "a a-0 a-1", "w2": "a-1"}),
        ("assigned twice", {"w1": "a a-0 a-0 a-1", "w2": ""}),
        ("assigned to nobody", {"w1": "a a-0", "w2": ""}),
        ("assigned to nobody", {}),
        ("not configured", {"w1": "a a-0 a-1", "w2": "b"}),
        ("not configured", {"w1": "a a-0 a-1", "w2": "a-2"}),
        ("no member", {"w1": "a a-0", "w9": "a-1"}),
        ("named twice", [("w1", "a a-0"), ("w1", "a-1")]),
    ],
)
def test_a_wrong_assignment_changes_nothing(what: str, assignment: dict[str, str]):
    talk = joined("w1", "w2")
    epoch = talk.prepare("w1").group_epoch
    batches = len(talk.log.batches)

    response = talk.install("w1", epoch, assignment)

    assert response.error_code == INVALID
    assert what in response.error_message
    assert (talk.group.assignment_epoch, len(talk.log.batches)) == (1, batches)
    assert talk.install("w1", epoch, {"w1": "a a-0 a-1"}).error_code == 0


@pytest.mark.parametrize("version", [-1, 3, 70_000])
def test_metadata_that_a_worker_cannot_read_is_not_installed(version: int):
    talk = joined("w1")
    epoch = talk.prepare("w1").group_epoch

    assert talk.install("w1", epoch, {"w1": "a a-0 a-1"}, version=version).error_code == INVALID


def test_more_metadata_than_anybody_needs_is_not_installed():
    talk = joined("w1")
    epoch = talk.prepare("w1").group_epoch
    part = {"w1": "a a-0 a-1"}

    assert talk.install("w1", epoch, part, metadata=bytes((1 << 20) + 1)).error_code == INVALID
    assert talk.install("w1", epoch, part, metadata=bytes(1 << 20)).error_code == 0


def test_an_assignment_that_nobody_asked_for_is_not_installed():
    talk = joined("w1")

    assert talk.install("w1", 2, {"w1": "a a-0 a-1"}).error_code == INVALID


def test_an_assignment_for_another_epoch_than_was_asked_for_is_not_installed():
    talk = joined("w1", "w2")
    old = talk.prepare("w1").group_epoch
    talk.join("w3", "a a-0 a-1", 7)
    talk.prepare("w1")

    assert talk.install("w1", old, {"w1": "a a-0 a-1", "w2": ""}).error_code == INVALID


def test_if_the_group_has_gone_on_it_is_installed_for_its_epoch_and_computed_again_at_once():
    talk = joined("w1", "w2")
    epoch = talk.prepare("w1").group_epoch
    talk.join("w3", "a a-0 a-1", 7)
    talk.leave("w2")

    assert talk.install("w1", epoch, {"w1": "a a-0", "w2": "a-1"}).error_code == 0

    assert (talk.group.assignment_epoch, talk.group.group_epoch) == (epoch, epoch + 2)
    assert set(talk.group.target) == {"w1"}
    assert talk.beat("w1", runs="").should_compute_assignment
    talk.compute("w1", {"w1": "a a-0", "w3": "a-1"})
    assert told(talk.beat("w3", runs="")) == "a-1"


def test_what_another_worker_computes_is_not_installed():
    talk = joined("w1", "w2")
    epoch = talk.prepare("w1").group_epoch

    assert talk.prepare("w2").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.install("w2", epoch, {"w1": "a a-0 a-1"}).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_order_of_the_checks():
    talk = joined("w1", "w2")

    assert talk.prepare("w1", group_id="other").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert talk.prepare("w9", epoch=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.prepare("w2", epoch=5).error_code == ErrorCode.STALE_MEMBER_EPOCH
    assert talk.prepare("w1", epoch=-1).error_code == ErrorCode.INVALID_REQUEST
    assert talk.prepare("w1", group_id="").error_code == ErrorCode.INVALID_REQUEST
    assert talk.install("w1", 3, {}, epoch=5).error_code == ErrorCode.STALE_MEMBER_EPOCH


def test_a_failed_assignor_leaves_all_what_they_have_and_they_hear_of_it():
    talk = joined("w1", "w2")
    talk.compute("w1", {"w1": "a a-0", "w2": "a-1"})
    talk.beat("w2", runs="")
    talk.beat("w2", client_assignors=(msgspec.structs.replace(COMPATIBLE, metadata=b"x"),))
    epoch = talk.prepare("w1").group_epoch

    assert talk.install("w1", epoch, {}, error=2).error_code == 0

    response = talk.beat("w2", runs="a-1")
    assert (told(response), response.assignment.error, response.member_epoch) == ("a-1", 2, epoch)


def test_a_computing_worker_that_does_not_answer_costs_one_rebalance_timeout():
    talk = joined("w1", "w2")
    assert talk.beat("w1").should_compute_assignment
    talk.prepare("w1")

    talk.wait(REBALANCE_MS - 1)
    assert not talk.beat("w2").should_compute_assignment
    talk.wait(1)

    assert talk.beat("w2").should_compute_assignment
    assert not talk.beat("w1").should_compute_assignment
    assert talk.install("w1", 3, {"w1": "a a-0 a-1"}).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    talk.compute("w2", {"w1": "a a-0", "w2": "a-1"})


def test_the_timeout_begins_when_the_worker_is_told():
    talk = joined("w1", "w2", "w3")
    talk.leave("w1")
    talk.wait(REBALANCE_MS - 1)
    assert talk.beat("w2").should_compute_assignment
    talk.wait(REBALANCE_MS - 1)

    assert talk.beat("w2").should_compute_assignment
    assert not talk.beat("w3").should_compute_assignment
    talk.wait(1)
    assert talk.beat("w3").should_compute_assignment


def test_a_worker_that_is_never_heard_of_costs_one_rebalance_timeout_too():
    talk = joined("w1", "w2", "w3")
    talk.leave("w1")

    talk.wait(REBALANCE_MS)

    assert talk.beat("w3").should_compute_assignment


def test_a_computing_worker_that_leaves_costs_nothing():
    talk = joined("w1", "w2")
    talk.prepare("w1")

    talk.leave("w1")

    assert talk.beat("w2").should_compute_assignment


def test_the_worker_that_computed_last_computes_again():
    talk = joined("w1", "w2")
    talk.wait(REBALANCE_MS)
    talk.compute("w2", {"w1": "a a-0 a-1", "w2": ""})

    talk.join("w3", "a a-0 a-1", 7)

    assert talk.beat("w2").should_compute_assignment


def test_after_all_have_failed_the_first_is_asked_again_and_not_the_last():
    talk = joined("w1", "w2")
    for number in range(6):
        told_to = [member for member in ("w1", "w2") if talk.beat(member).should_compute_assignment]
        assert told_to == ["w1" if number % 2 == 0 else "w2"]
        talk.wait(REBALANCE_MS)


def test_a_lonely_worker_is_asked_again_and_again():
    talk = joined("w1")
    for _ in range(3):
        assert talk.beat("w1").should_compute_assignment
        talk.wait(REBALANCE_MS)


def test_a_restarted_coordinator_asks_again():
    talk = joined("w1", "w2")
    epoch = talk.prepare("w1").group_epoch

    talk.restart()

    assert talk.install("w1", epoch, {"w1": "a a-0 a-1"}).error_code == INVALID
    assert talk.beat("w1").should_compute_assignment
    talk.compute("w1", {"w1": "a a-0 a-1"})


def test_nothing_configured_is_an_assignment_too():
    talk = Talk()
    talk.join("w1")

    talk.compute("w1", {})

    assert talk.beat("w1", runs="").member_epoch == 2
