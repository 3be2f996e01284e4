"""Live groups that are moved in place and back: what the simplest case of test_live_switch.py leaves out."""

from pathlib import Path

import pytest
from support.clients import CONFLUENT, COOPERATIVE, JAVA, KAFKA_PYTHON, REACTOR_KAFKA, SPRING_KAFKA
from support.live_group import live_group
from support.short_form import long

COMMITS_IN_REVOKED = {"auto_commit": False, "commit_in": ["revoked"]}
COMMITS_IN_BOTH = {"auto_commit": False, "commit_in": ["revoked", "lost"]}
"""As with the default of onPartitionsLost, which calls onPartitionsRevoked."""

TIMES = 3


@pytest.mark.kafka
@pytest.mark.parametrize("client", [CONFLUENT, JAVA], ids=str)
def test_range_of_several_topics_stays_as_it_is(client, kafka, consumers, folder: Path, group):
    """The helper's end moves the group epoch: the broker's range assigns what the clients' did, uniform would not."""
    with live_group(kafka, consumers, folder, group, 4, 4) as live:
        live.form(client, "range")
        assert sorted(len(one.owned()) for one in live.members) == [2, 2, 4]
        marks = live.move("translate")
        assert live.callbacks(marks) == []
    live.account()


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("client", "assignor"), [(CONFLUENT, "range"), (JAVA, COOPERATIVE), long(KAFKA_PYTHON, "range")], ids=str
)
def test_static_members_are_moved_in_place_and_back(client, assignor, kafka, consumers, folder: Path, group):
    with live_group(kafka, consumers, folder, group) as live:
        live.form(client, assignor, is_static=True)
        for _ in range(2):
            before = live.until_classic()
            marks = live.move("translate")
            assert live.until_consumer_group() == before
            assert live.callbacks(marks) == []
            marks = live.move("observe")
            assert live.callbacks(marks, "lost") == []
    live.account()


@pytest.mark.kafka
@pytest.mark.parametrize("client", [CONFLUENT, JAVA], ids=str)
def test_a_proxy_that_has_just_been_started_costs_ordinary_rebalances_only(
    client, kafka, consumers, folder: Path, group
):
    """A Stable classic group answers a follower's JoinGroup at once; only the leader's has all the others rejoin."""
    with live_group(kafka, consumers, folder, group) as live:
        live.form(client, "range", session_timeout_ms=30_000)  # the restart takes seconds
        live.proxy.stop()
        live.proxy.start()
        marks = live.move("translate")
        assert live.callbacks(marks, "lost") == []
        assert all(
            len(one.seen("revoked", since=mark)) <= 2 for one, mark in zip(live.members, marks, strict=True)
        )
    live.account()


@pytest.mark.kafka
@pytest.mark.parametrize("client", [CONFLUENT, long(JAVA)], ids=str)
def test_a_proxy_that_does_not_know_the_members_takes_them_back(
    client, kafka, consumers, folder: Path, group
):
    """Started without a member log while the policy says observe: the broker answers their Heartbeats
    UNKNOWN_MEMBER_ID."""
    with live_group(kafka, consumers, folder, group) as live:
        live.form(client, "range", session_timeout_ms=30_000)  # the restart takes seconds
        before = live.until_classic()
        live.move("translate")
        live.proxy.stop()
        marks = live.policy("observe")
        live.proxy.start()
        live.until_moved("observe")
        assert live.until_classic() == before
        assert live.callbacks(marks, "lost") == []
    live.account()


@pytest.mark.kafka
@pytest.mark.parametrize("with_log", [True, False], ids=["member log", "no log"])
@pytest.mark.parametrize("client", [CONFLUENT, long(JAVA)], ids=str)
def test_two_replicas_move_a_group_in_place_and_back(
    client, with_log, kafka, consumers, folder: Path, group, fleet
):
    options = {"fleet": fleet} if with_log else {}
    with live_group(kafka, consumers, folder, group, proxies=2, sole_process=False, **options) as live:
        live.form(client, "range")
        for _ in range(2):
            marks = live.move("translate")
            assert live.callbacks(marks) == []
            marks = live.move("observe")
            assert live.callbacks(marks, "lost") == []
    live.account()


@pytest.mark.kafka
@pytest.mark.parametrize("assignor", ["range", COOPERATIVE])
@pytest.mark.parametrize(
    "commits", [COMMITS_IN_REVOKED, COMMITS_IN_BOTH], ids=["commits in revoked", "commits in both"]
)
def test_an_application_that_commits_in_its_callbacks_goes_on(
    commits, assignor, kafka, consumers, folder: Path, group
):
    """It catches nothing: `lost` with a commit that is refused would end it, and fail the wait."""
    with live_group(kafka, consumers, folder, group) as live:
        live.form(JAVA, assignor, **commits)
        for _ in range(TIMES):
            marks = live.move("translate")
            assert live.callbacks(marks) == []
            marks = live.move("observe")
            assert live.callbacks(marks, "lost") == []
        assert not any(one.ended for one in live.members)
    live.account()


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.parametrize("client", [SPRING_KAFKA, REACTOR_KAFKA], ids=str)
def test_applications_on_java_frameworks_go_on(client, kafka, consumers, folder: Path, group):
    """Reactor Kafka commits when partitions are lost too, and ends when that is refused."""
    with live_group(kafka, consumers, folder, group) as live:
        live.form(client, "range")
        marks = live.move("translate")
        assert live.callbacks(marks) == []
        marks = live.move("observe")
        assert live.callbacks(marks, "lost") == []
        assert not any(one.ended for one in live.members)
    assert live.account().duplicates == {}


@pytest.fixture
def fleet(kafka, group):
    """A member log of its own."""
    return {
        "kafka": {"bootstrap.servers": kafka.bootstrap},
        "topic": f"members-{group}",
        "partitions": 4,
        "replication": 1,
        "expires": True,
    }
