"""Workers go to the target: give up first, then get what nobody else holds."""

from protocol_codecs import ErrorCode
from tests.coordinator.connect_groups.talk import REBALANCE_MS, SESSION_MS, Talk, told, works

ALL = "a a-0 a-1 a-2"


def one_worker_with_all() -> Talk:
    talk = Talk()
    talk.join("w1", ALL, 7)
    talk.compute("w1", {"w1": ALL})
    assert told(talk.beat("w1", runs="")) == ALL
    return talk


def half_to_a_second() -> Talk:
    talk = one_worker_with_all()
    talk.join("w2", ALL, 7)
    talk.compute("w1", {"w1": "a a-0", "w2": "a-1 a-2"})
    return talk


def test_a_task_changes_hands_only_after_its_owner_says_that_it_has_stopped_it():
    talk = half_to_a_second()

    waits = talk.beat("w2", runs="")
    assert (told(waits), waits.member_epoch) == ("", 3)
    revoking = talk.beat("w1", runs=ALL)
    assert (told(revoking), revoking.member_epoch) == ("a a-0", 2)
    assert told(talk.beat("w2", runs="")) is None
    assert talk.beat("w1", runs="a a-0 a-1").member_epoch == 2
    assert talk.beat("w1").member_epoch == 2
    stopped = talk.beat("w1", runs="a a-0")
    assert (told(stopped), stopped.member_epoch) == ("a a-0", 3)

    assert told(talk.beat("w2", runs="")) == "a-1 a-2"


def test_a_worker_that_runs_none_of_what_it_loses_goes_on_at_once():
    talk = half_to_a_second()

    assert talk.beat("w1", runs="a a-0").member_epoch == 3
    assert told(talk.beat("w2", runs="")) == "a-1 a-2"


def test_what_is_not_taken_away_stays_where_it_is_all_the_time():
    talk = half_to_a_second()

    for runs in (ALL, "a a-0"):
        assert told(talk.beat("w1", runs=runs)) == "a a-0"


def test_a_worker_is_told_again_until_it_has_stopped():
    talk = half_to_a_second()
    talk.beat("w1", runs=ALL)

    assert told(talk.beat("w1", runs=ALL)) == "a a-0"
    assert told(talk.beat("w1")) == "a a-0"


def test_a_newer_target_waits_until_the_worker_has_stopped():
    talk = half_to_a_second()
    talk.beat("w1", runs=ALL)
    talk.beat("w2", config_offset=7, client_assignors=None)
    talk.join("w3", ALL, 7)
    talk.compute("w1", {"w1": ALL, "w2": "", "w3": ""})

    assert told(talk.beat("w1", runs=ALL)) == "a a-0"
    assert told(talk.beat("w1", runs="a a-0")) == ALL


def test_a_worker_that_does_not_stop_in_time_is_fenced_and_its_tasks_are_free():
    talk = half_to_a_second()
    talk.beat("w2", runs="")
    talk.beat("w1", runs=ALL)

    talk.wait(REBALANCE_MS - 1)
    talk.beat("w1", runs=ALL)
    talk.wait(1)

    assert talk.beat("w1", runs=ALL).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert told(talk.beat("w2", runs="")) == "a-1 a-2"


def test_a_worker_that_stopped_in_time_is_not_fenced():
    talk = half_to_a_second()
    talk.beat("w1", runs=ALL)
    talk.beat("w1", runs="a a-0")

    talk.wait(REBALANCE_MS)

    assert "w1" in talk.group.members


def test_the_time_to_stop_begins_again_when_the_coordinator_restarts():
    talk = half_to_a_second()
    talk.beat("w1", runs=ALL)
    talk.wait(REBALANCE_MS - 1)
    talk.restart()
    talk.beat("w1", runs=ALL)

    talk.wait(REBALANCE_MS - 1)
    assert "w1" in talk.group.members
    talk.wait(1)
    assert "w1" not in talk.group.members


def test_tasks_of_a_worker_that_is_gone_wait_for_the_session_and_the_next_target():
    talk = half_to_a_second()
    talk.beat("w1", runs="a a-0")
    talk.beat("w2", runs="")
    talk.wait(SESSION_MS - 1)
    talk.beat("w2", runs="a-1 a-2")
    talk.wait(1)

    assert set(talk.group.owners) == works("a-1 a-2")
    talk.compute("w2", {"w2": ALL})
    assert told(talk.beat("w2", runs="a-1 a-2")) == ALL


def test_a_connector_that_is_deleted_is_stopped():
    talk = one_worker_with_all()

    talk.beat("w1", configured=(), config_offset=9)
    talk.compute("w1", {"w1": ""})

    assert told(talk.beat("w1", runs=ALL)) == ""
    assert talk.beat("w1", runs="").member_epoch == 3
