"""Calls that no honest worker sends: nothing fails, nothing is given that another runs, and nothing grows."""

import random

import pytest

from coordinator.connect_groups import formats
from coordinator.connect_groups.formats import Difference, Said
from coordinator.connect_groups.work import Work
from coordinator.uuids import SeededUuids
from hosting.groups.member import HostedCall
from hosting.groups.room import HostedGroups
from hosting.groups.settings import HostedSettings
from protocol_codecs.all_messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from protocol_codecs.codec import encode

GROUP = "connect-cluster"
MOST_BYTES = 20_000
CONNECTORS = ("a", "b", "c")


class Strangers:
    """Who may act in the group, and sends whatever may confuse: by a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - reproducible on purpose
        self.now_ms = 0
        self._ids = 0
        self._waiting: dict[int, object] = {}
        self._calls = 0
        self.known: dict[str, int] = {}
        """The generation of each member id that was answered."""
        self.led: dict[str, list[str]] = {}
        """What the leaders were told: member ids."""
        self.room = HostedGroups(
            HostedSettings(most_bytes=MOST_BYTES, most_members=8),
            new_id=self._new_id,
            uuids=SeededUuids(seed),
            now_ms=0,
        )

    def _new_id(self) -> str:
        self._ids += 1
        return f"id-{self._ids}"

    def act(self) -> None:
        """Send something."""
        what = self.random.choice(("join", "join", "sync", "sync", "beat", "beat", "leave", "gone", "time"))
        if what == "time":
            self._pass()
        elif what == "gone":
            self._take(self.room.client_gone(self.random.randrange(4), self.now_ms))
        else:
            self._send(getattr(self, f"_{what}")())
        self._check()

    def _pass(self) -> None:
        self.now_ms += self.random.choice((10, 1_000, 5_000, 11_000, 61_000))
        while (due_ms := self.room.next_deadline_ms()) is not None and due_ms <= self.now_ms:
            self._take(self.room.advance(self.now_ms))
            next_ms = self.room.next_deadline_ms()
            assert next_ms is None or next_ms > self.now_ms

    def _works(self) -> frozenset[Work]:
        return frozenset(
            Work(self.random.choice(CONNECTORS), self.random.randrange(-1, 3))
            for _ in range(self.random.choice((0, 0, 1, 3)))
        )

    def _member(self) -> str:
        return self.random.choice(("", "nobody", *self.known))

    def _join(self) -> JoinGroupRequest:
        said = Said("http://w/", self.random.choice((-1, 1, 2, 3)), self._works())
        metadata = [formats.for_leader(said, "compatible"), formats.for_leader(said, "sessioned")]
        metadata += [b"", self.random.randbytes(30), metadata[0][:-3]]
        names = self.random.choice((("sessioned", "compatible"), ("compatible",), ("default",)))
        return JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=self.random.choice((6_000, 10_000, 60_000, 1)),
            rebalance_timeout_ms=self.random.choice((0, 10_000, 60_000)),
            member_id=self._member(),
            group_instance_id=self.random.choice((None, None, None, "static")),
            protocol_type=self.random.choice(("connect", "connect", "connect", "consumer")),
            protocols=tuple(
                JoinGroupRequestProtocol(name=name, metadata=self._mostly_first(metadata)) for name in names
            ),
        )

    def _mostly_first(self, choices: list[bytes]) -> bytes:
        return choices[0] if self.random.random() < 0.7 else self.random.choice(choices)

    def _sync(self) -> SyncGroupRequest:
        leaders = [one for one in self.led if one in self.known]
        member_id = self.random.choice(leaders) if leaders and self.random.random() < 0.6 else self._member()
        members = list(self.led.get(member_id, ()))
        if self.random.random() < 0.1:
            members.append("nobody")
        delay_ms = self.random.choice((0, 0, 5_000))
        contents = {
            one: formats.for_worker(
                Difference(
                    0,
                    member_id,
                    "http://w/",
                    3,
                    self._works() if n == 0 else frozenset(),
                    self._works(),
                    delay_ms,
                ),
                "compatible",
            )
            for n, one in enumerate(sorted(members, key=lambda _: self.random.random()))
        }
        return SyncGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            generation_id=self._generation(member_id),
            assignments=tuple(
                SyncGroupRequestAssignment(
                    member_id=one,
                    assignment=self.random.choice((content, content, content, b"junk"))
                    if self.random.random() < 0.1
                    else content,
                )
                for one, content in contents.items()
            ),
        )

    def _generation(self, member_id: str) -> int:
        return self.known.get(member_id, 1) + self.random.choice((0, 0, 0, 0, 1))

    def _beat(self) -> HeartbeatRequest:
        member_id = self._member()
        return HeartbeatRequest(
            group_id=GROUP, member_id=member_id, generation_id=self._generation(member_id)
        )

    def _leave(self) -> LeaveGroupRequest:
        return LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id=self._member()),))

    def _send(self, message) -> None:
        self._calls += 1
        self._waiting[self._calls] = message
        call = HostedCall(key=self._calls, connection=self.random.randrange(4), version=5)
        self._take(self.room.handle(call, message, self.now_ms))

    def _take(self, answers) -> None:
        for answer in answers:
            asked, message = self._waiting.pop(answer.call.key), answer.message
            encode(message, answer.call.version if isinstance(message, JoinGroupResponse) else 3)
            if isinstance(message, JoinGroupResponse) and not message.error_code:
                self.known[message.member_id] = message.generation_id
                if message.members:
                    assert message.leader == message.member_id
                    self.led = {message.leader: [one.member_id for one in message.members]}
            if isinstance(message, SyncGroupResponse) and message.assignment:
                self._check_given(asked.member_id, message.assignment)

    def _check_given(self, member_id: str, content: bytes) -> None:
        given = formats.read_differences({"": content})[""].assigned
        group = self.room.groups[GROUP]
        others = (runs for other, runs in group.rules.running().items() if other != member_id)
        assert given.isdisjoint(frozenset().union(*others))

    def _check(self) -> None:
        group = self.room.groups.get(GROUP)
        if group is not None:
            assert group.size <= 2 * MOST_BYTES


@pytest.mark.parametrize(
    "seeds", [range(1, 151), pytest.param(range(151, 5_000), marks=pytest.mark.long)], ids=str
)
def test_whatever_comes(seeds):
    installs = 0
    for seed in seeds:
        strangers = Strangers(seed)
        for _ in range(120):
            strangers.act()
        group = strangers.room.groups.get(GROUP)
        installs += getattr(getattr(group, "rules", None), "installs", 0)
    assert installs > len(seeds) / 20, "they get past the checks, too"
