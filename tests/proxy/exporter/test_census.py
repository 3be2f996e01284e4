"""Which groups there are, when brokers answer late, in part or not at all."""

import trio

from proxy.exporter import census
from proxy.exporter.census import Census
from proxy.groups.lag.asking_process import AskingProcess
from proxy.groups.lag.messages import AskGroups, AskMembers, Groups, Members, Question
from proxy.groups.lag.readings import Unknown, Why


class Asked(AskingProcess):
    """Keeps the questions; the test answers."""

    def __init__(self) -> None:
        super().__init__({"bootstrap.servers": "nobody:1"})
        self.questions: list[Question] = []

    def ask(self, question: Question) -> None:
        self.questions.append(question)

    def answer(self, *answers: Groups | Members) -> None:
        for answer in answers:
            for told in self.on_answer:
                told(answer)


async def test_a_list_that_is_not_complete_keeps_the_groups_of_the_last_one(autojump_clock):
    asked = Asked()
    known = Census(asked)
    asked.answer(Groups(("a", "b")))
    assert known.groups == {"a", "b"}
    asked.answer(Groups(("a", "c"), Unknown(Why.NO_ANSWER)))
    assert known.groups == {"a", "b", "c"}
    assert known.missing == Unknown(Why.NO_ANSWER)
    asked.answer(Groups(("c",)))
    assert known.groups == {"c"}
    assert known.missing is None


async def test_a_list_that_is_late_is_not_asked_for_twice(autojump_clock):
    asked = Asked()
    known = Census(asked)
    await known.list_groups(3)
    await known.list_groups(3)
    assert asked.questions == [AskGroups()]
    assert trio.current_time() >= 6
    asked.answer(Groups(("a",)))
    assert known.groups == {"a"}
    await known.list_groups(0)
    assert len(asked.questions) == 2


async def test_members_are_asked_for_in_pieces_and_who_is_late_once(autojump_clock, monkeypatch):
    monkeypatch.setattr(census, "GROUPS_AT_ONCE", 2)
    asked = Asked()
    known = Census(asked)
    await known.count_members(["a", "b", "c"], 1)
    assert asked.questions == [AskMembers(("a", "b")), AskMembers(("c",))]
    asked.answer(Members("a", 2), Members("b", Unknown(Why.NOT_AUTHORIZED)))
    assert {group: one.members for group, one in known.members.items()} == {"a": 2}
    await known.count_members(["a", "b", "c"], 1)
    assert asked.questions[2:] == [AskMembers(("a", "b"))]


async def test_the_members_of_a_group_that_is_gone_are_forgotten(autojump_clock):
    asked = Asked()
    known = Census(asked)
    asked.answer(Members("a", 2))
    await known.count_members(["b"], 1)
    assert known.members == {}


async def test_when_the_process_is_gone_all_is_asked_anew(autojump_clock):
    asked = Asked()
    known = Census(asked)
    await known.count_members(["a"], 1)
    await known.list_groups(1)
    for lost in asked.on_lost:
        lost()
    await known.count_members(["a"], 1)
    await known.list_groups(1)
    assert asked.questions == [AskMembers(("a",)), AskGroups()] * 2
