"""What is asked for a reading, and what is said of what did not come."""

import pytest

from proxy.groups.lag import rounds
from proxy.groups.lag.messages import AskCommits, AskEnds, AskLeaders, Commit, Commits, End, Ends, Leaders
from proxy.groups.lag.readings import GroupLag, Partition, PartitionLag, Unknown, Why
from proxy.groups.lag.rounds import FRESH_S, MAX_GROUPS, SLOW_AFTER_S, Rounds

NOT_AUTHORIZED = Unknown(Why.NOT_AUTHORIZED, "no")
A0, A1, B0 = Partition("a", 0), Partition("a", 1), Partition("b", 0)


def commits(group: str, **offsets: int) -> Commits:
    """`a0=3`: 3 in partition 0 of topic a."""
    return Commits(
        group, tuple(Commit(Partition(at[0], int(at[1:])), offset) for at, offset in offsets.items())
    )


def ends(leader: int, *found: tuple[Partition, int | Unknown]) -> Ends:
    return Ends(leader, tuple(End(partition, offset) for partition, offset in found))


def read_once(book: Rounds, now: float, group: str = "g", committed: int = 3, end: int = 10) -> None:
    """A whole round of a group with one partition, led by broker 1."""
    assert book.begin([group], now)
    book.answered(commits(group, a0=committed), now)
    questions = book.next_questions(now)
    if questions == [AskLeaders(("a",))]:
        book.answered(Leaders("a", ((0, 1),)), now)
        questions = book.next_questions(now)
    assert questions == [AskEnds(1, (A0,))]
    book.answered(ends(1, (A0, end)), now)
    assert book.next_questions(now) == []


def reading(book: Rounds, now: float, group: str = "g") -> GroupLag:
    found = book.results([group], now)[group]
    assert isinstance(found, GroupLag), found
    return found


def test_ends_are_asked_for_together_one_question_a_leader():
    book = Rounds()
    assert book.begin(["g", "h"], 0) == [AskCommits(("g", "h"))]
    book.answered(commits("g", a0=3), 0.01)
    assert book.next_questions(0.01) == []  # the other may come
    book.answered(commits("h", a1=1, b0=2), 0.02)
    assert book.next_questions(0.02) == [AskLeaders(("a", "b"))]
    book.answered(Leaders("a", ((0, 1), (1, 2))), 0.03)
    book.answered(Leaders("b", ((0, 1),)), 0.03)
    assert book.next_questions(0.03) == [AskEnds(1, (A0, B0)), AskEnds(2, (A1,))]
    book.answered(ends(1, (A0, 10), (B0, 2)), 0.04)
    book.answered(ends(2, (A1, 10)), 0.05)
    assert book.next_questions(0.05) == []
    assert {at: one.lag for at, one in reading(book, 1, "g").partitions.items()} == {A0: 7, A1: None}
    assert {at: one.lag for at, one in reading(book, 1, "h").partitions.items()} == {A0: None, A1: 9, B0: 0}
    assert reading(book, 1, "h").lag == 9
    assert reading(book, 1, "h").read_at == 0.02
    assert reading(book, 1, "h").age_s(1.02) == pytest.approx(1)


def test_who_is_slow_delays_the_others_by_the_gathering_only():
    book = Rounds()
    book.begin(["quick", "slow"], 0)
    book.answered(commits("quick", a0=3), 0.01)
    assert book.next_questions(0.01) == []
    deadline = book.next_deadline()
    assert deadline is not None
    assert deadline < 0.5
    assert book.next_questions(deadline) == [AskLeaders(("a",))]
    book.answered(Leaders("a", ((0, 1),)), 0.3)
    book.next_questions(0.3)
    book.answered(ends(1, (A0, 10)), 0.3)
    book.next_questions(0.3)
    assert reading(book, 0.4, "quick").lag == 7
    assert book.is_awaited(["quick", "slow"], also_slow=False)
    assert not book.is_awaited(["quick"], also_slow=False)


def test_who_was_slow_is_neither_asked_twice_nor_waited_for():
    book = Rounds()
    read_once(book, 0)
    assert book.begin(["g"], 10) == [AskCommits(("g",))]
    book.close(["g"], 13)
    assert reading(book, 13).stale == Unknown(Why.NO_ANSWER, "none for 3.0 s")
    assert reading(book, 13).read_at == 0
    assert book.begin(["g"], 20) == []
    assert not book.is_awaited(["g"], also_slow=False)
    book.answered(commits("g", a0=5), 21)  # late, and it counts
    book.next_questions(21)
    book.answered(ends(1, (A0, 10)), 21)
    book.next_questions(21)
    assert reading(book, 21).stale is None
    assert reading(book, 21).lag == 5
    assert reading(book, 21).read_at == 21


def test_one_who_asks_for_a_moment_does_not_make_the_others_slow():
    book = Rounds()
    book.begin(["g"], 0)
    book.close(["g"], SLOW_AFTER_S - 0.1)
    assert book.is_awaited(["g"], also_slow=False)


def test_a_slow_leader_costs_its_own_partitions():
    book = Rounds()
    book.begin(["g"], 0)
    book.answered(commits("g", a0=3, a1=4), 0)
    book.next_questions(0)
    book.answered(Leaders("a", ((0, 1), (1, 2))), 0)
    book.next_questions(0)
    book.answered(ends(1, (A0, 10)), 0.1)
    book.next_questions(0.1)
    assert book.is_awaited(["g"], also_slow=False)
    book.close(["g"], 3)
    assert reading(book, 3).partitions[A0].lag == 7
    assert reading(book, 3).unknown_partitions[A1].why is Why.NO_ANSWER
    assert reading(book, 3).stale is None
    # In the next round it is not asked again, nor waited for.
    book.begin(["g"], 5)
    book.answered(commits("g", a0=3, a1=4), 5)
    assert book.next_questions(5) == [AskEnds(1, (A0,))]
    book.answered(ends(1, (A0, 11)), 5)
    book.next_questions(5)
    assert not book.is_awaited(["g"], also_slow=True)
    assert reading(book, 5).lag == 8
    assert set(reading(book, 5).unknown_partitions) == {A1}
    # Once it has answered, it is.
    book.answered(ends(2, (A1, Unknown(Why.NO_ANSWER))), 10)
    book.begin(["g"], 15)
    book.answered(commits("g", a0=3, a1=4), 15)
    assert book.next_questions(15) == [AskLeaders(("a",))]  # it may be led by another
    book.answered(Leaders("a", ((0, 1), (1, 1))), 15)
    assert book.next_questions(15) == [AskEnds(1, (A0, A1))]


def test_what_was_asked_a_moment_ago_for_another_is_waited_for():
    book = Rounds()
    book.begin(["g"], 0)
    book.answered(commits("g", a0=3), 0)
    assert book.next_questions(0) == [AskLeaders(("a",))]
    book.begin(["h"], 0.5)
    book.answered(commits("h", a0=4, a1=4), 0.5)
    assert book.next_questions(0.5) == []
    book.answered(Leaders("a", ((0, 1), (1, 1))), 0.6)
    assert book.next_questions(0.6) == [AskEnds(1, (A0, A1))]
    book.begin(["i"], 0.9)
    book.answered(commits("i", a0=5), 0.9)
    assert book.next_questions(0.9) == []
    book.answered(ends(1, (A0, 10), (A1, 10)), 1)
    assert book.next_questions(1) == []
    assert [reading(book, 1, group).lag for group in "ghi"] == [7, 12, 5]


def test_slow_metadata_leaves_the_partitions_with_commits_unknown():
    book = Rounds()
    book.begin(["g"], 0)
    book.answered(commits("g", a0=3), 0)
    assert book.next_questions(0) == [AskLeaders(("a",))]
    book.close(["g"], 3)
    assert reading(book, 3).unknown_partitions[A0].why is Why.NO_ANSWER
    book.begin(["g"], 5)
    book.answered(commits("g", a0=3), 5)
    assert book.next_questions(5) == []
    assert not book.is_awaited(["g"], also_slow=True)


@pytest.mark.parametrize(
    ("leaders", "why"),
    [
        (((0, None),), Why.NO_LEADER),
        (((1, 1),), Why.NO_TOPIC),
        (NOT_AUTHORIZED, Why.NOT_AUTHORIZED),
        (Unknown(Why.NO_TOPIC), Why.NO_TOPIC),
    ],
)
def test_a_partition_that_nobody_can_be_asked_about_is_unknown_for_one_round(leaders, why):
    book = Rounds()
    book.begin(["g"], 0)
    book.answered(commits("g", a0=3), 0)
    book.next_questions(0)
    book.answered(Leaders("a", leaders), 0)
    for question in book.next_questions(0):
        assert question == AskEnds(1, (A1,))  # the topic's other partition
        book.answered(ends(1, (A1, 10)), 0)
        book.next_questions(0)
    assert reading(book, 0).unknown_partitions[A0].why is why
    book.begin(["g"], 2)
    book.answered(commits("g", a0=3), 2)
    if isinstance(leaders, tuple) and None not in dict(leaders).values():
        return
    assert book.next_questions(2) == [AskLeaders(("a",))]
    book.answered(Leaders("a", ((0, 1),)), 2)
    assert book.next_questions(2) == [AskEnds(1, (A0,))]


def test_a_failed_reading_keeps_the_last_one_and_says_why():
    book = Rounds()
    read_once(book, 0)
    book.begin(["g"], 5)
    book.answered(Commits("g", NOT_AUTHORIZED), 5)
    assert reading(book, 6).stale == NOT_AUTHORIZED
    assert reading(book, 6).age_s(6) == 6
    assert reading(book, 6).lag == 7
    read_once(book, 10)
    assert reading(book, 10).stale is None


def test_a_group_that_was_never_read_is_unknown():
    book = Rounds()
    book.begin(["g"], 0)
    book.answered(Commits("g", NOT_AUTHORIZED), 0)
    assert book.results(["g", "h"], 0) == {"g": NOT_AUTHORIZED, "h": Unknown(Why.NO_ANSWER, "not asked yet")}


def test_readings_and_ends_of_the_last_second_are_used_again():
    book = Rounds()
    read_once(book, 0)
    assert book.begin(["g"], FRESH_S) == []
    assert book.begin(["h"], FRESH_S) == [AskCommits(("h",))]
    book.answered(commits("h", a0=12), FRESH_S)
    assert book.next_questions(FRESH_S) == []
    assert reading(book, FRESH_S, "h").lag == 0  # never negative
    assert book.begin(["g"], FRESH_S + 0.1) == [AskCommits(("g",))]


def test_an_end_of_before_is_not_used_for_a_later_reading():
    book = Rounds()
    read_once(book, 0, end=10)
    read_once(book, 5, end=20)
    assert reading(book, 5).lag == 17


def test_an_end_that_was_fresh_when_a_group_was_asked_is_not_used_when_its_commits_come_late():
    book = Rounds()
    read_once(book, 0, end=10)
    book.begin(["slow"], 0.5)
    book.answered(commits("slow", a0=12), 5)
    assert book.next_questions(5) == [AskEnds(1, (A0,))]


def test_when_the_process_is_gone_everything_in_flight_has_failed():
    book = Rounds()
    read_once(book, 0)
    book.begin(["g", "h"], 5)
    book.lose(Unknown(Why.NO_ANSWER, "gone"))
    assert book.in_flight_since is None
    assert reading(book, 5).stale == Unknown(Why.NO_ANSWER, "gone")
    assert book.results(["h"], 5) == {"h": Unknown(Why.NO_ANSWER, "gone")}
    assert book.begin(["g"], 6) == [AskCommits(("g",))]
    book.answered(commits("h", a0=1), 6)  # of before: nobody asked
    assert book.next_questions(6) == []


def test_no_answer_from_brokers_that_refuse_the_account_says_so():
    book = Rounds()
    book.begin(["g"], 0)
    book.account_refused("wrong password", 1)
    book.close(["g"], 3)
    assert book.results(["g"], 3) == {"g": Unknown(Why.BAD_ACCOUNT, "wrong password")}
    assert book.results(["g"], 60)["g"].why is Why.NO_ANSWER


def test_groups_and_partitions_are_bounded(monkeypatch):
    book = Rounds()
    many = [f"g{number}" for number in range(MAX_GROUPS + 1)]
    (question,) = book.begin(many, 0)
    assert isinstance(question, AskCommits)
    assert len(question.groups) == MAX_GROUPS
    found = book.results(many, 0)
    assert found[many[-1]].why is Why.TOO_MANY
    monkeypatch.setattr(rounds, "MAX_PARTITIONS", 1)
    book.answered(commits("g0", a0=1, a1=1), 0)
    assert book.results(["g0"], 0)["g0"].why is Why.TOO_MANY
    book.answered(commits("g1", a0=1), 0)
    book.next_questions(1)
    book.answered(Leaders("a", ((0, 1), (1, 1))), 1)
    assert book.next_questions(1) == [AskEnds(1, (A0, A1))]
    book.answered(ends(1, (A0, 5), (A1, 5)), 1)
    book.next_questions(1)
    assert book.results(["g1"], 1)["g1"].why is Why.TOO_MANY


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(rounds, "MAX_PARTITIONS_IN_ALL", 2)
    book = Rounds()
    for number in range(4):
        read_once(book, 10 * number, group=f"g{number}")
    found = book.results([f"g{number}" for number in range(4)], 40)
    assert [isinstance(one, GroupLag) for one in found.values()] == [False, False, True, True]


def test_many_ends_of_one_leader_are_asked_for_in_pieces(monkeypatch):
    monkeypatch.setattr(rounds, "PARTITIONS_AT_ONCE", 1)
    book = Rounds()
    book.begin(["g"], 0)
    book.answered(commits("g", a0=3, a1=3), 0)
    book.next_questions(0)
    book.answered(Leaders("a", ((0, 1), (1, 1))), 0)
    assert book.next_questions(0) == [AskEnds(1, (A0,)), AskEnds(1, (A1,))]
    book.answered(ends(1, (A0, 10)), 0)
    assert book.next_questions(0) == []
    book.answered(ends(1, (A1, 10)), 0)
    book.next_questions(0)
    assert reading(book, 0).lag == 14


def test_an_error_of_one_commit_is_of_its_partition():
    one = PartitionLag(committed=NOT_AUTHORIZED, end=10)
    assert one.lag is None
    assert one.unknown == NOT_AUTHORIZED
    assert PartitionLag(committed=None, end=10).unknown is None
