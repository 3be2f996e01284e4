"""A room with one Connect group, spoken to call by call."""

from coordinator.connect_groups import formats
from coordinator.connect_groups.formats import Difference, Said
from coordinator.connect_groups.work import Work, WorkSet
from coordinator.uuids import SeededUuids
from hosting.groups.member import HostedCall
from hosting.groups.room import HostedGroups
from hosting.groups.settings import HostedSettings
from protocol_codecs import ErrorCode
from protocol_codecs.all_messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from protocol_codecs.messages.connect_protocol import decode_assignment, decode_metadata

GROUP = "connect-cluster"
SESSION_MS, REBALANCE_MS = 10_000, 60_000
NONE = ErrorCode.NONE
REJOIN = ErrorCode.REBALANCE_IN_PROGRESS


def works(*names: str) -> WorkSet:
    """``a`` is a connector, ``a-0`` its first task."""
    return frozenset(
        Work(name.split("-")[0], int(name.split("-")[1])) if "-" in name else Work(name) for name in names
    )


class Talk:
    """The calls of workers, by the name that is also their connection's."""

    def __init__(self, **settings) -> None:
        self.now_ms = 0
        self.room = HostedGroups(
            HostedSettings(**settings), new_id=self._new_id, uuids=SeededUuids(1), now_ms=0
        )
        self.ids: dict[str, str] = {}
        self.generations: dict[str, int] = {}
        self.answers: dict[str, list] = {}
        self.shown: dict[str, WorkSet] = {}
        """What each worker runs, as the last leader was told, by name."""
        self._next_name = ""

    def _new_id(self) -> str:
        return f"id-{self._next_name}"

    def pass_ms(self, ms: int) -> None:
        """Let time pass."""
        self.now_ms += ms
        self._take(self.room.advance(self.now_ms))

    def _take(self, answers) -> None:
        for one in answers:
            self.answers.setdefault(one.call.key, []).append(one.message)

    def _send(self, name: str, message):
        call = HostedCall(key=name, connection=name, version=5)
        self._take(self.room.handle(call, message, self.now_ms))

    def joined(self, name: str):
        """The answer to a worker's JoinGroup; None if it waits."""
        waiting = self.answers.get(name, [])
        if not waiting:
            return None
        answer = waiting.pop(0)
        if not answer.error_code:
            self.ids[name], self.generations[name] = answer.member_id, answer.generation_id
            if answer.members:
                self.shown = {
                    one.member_id.removeprefix("id-"): _runs(one.metadata) for one in answer.members
                }
        return answer

    def join(self, name: str, *runs: str, offset: int = 1, offers=("sessioned", "compatible"), **more):
        """Send a JoinGroup, and return its answer; None if it waits."""
        self._next_name = name
        said = Said(f"http://{name}/", offset, works(*runs))
        fields = {
            "group_id": GROUP,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "member_id": self.ids.get(name, ""),
            "protocol_type": "connect",
            "protocols": tuple(
                JoinGroupRequestProtocol(name=one, metadata=formats.for_leader(said, one)) for one in offers
            ),
            **more,
        }
        self._send(name, JoinGroupRequest(**fields))
        return self.joined(name)

    def heartbeat(self, name: str) -> ErrorCode:
        """Send a Heartbeat."""
        self._send(
            name,
            HeartbeatRequest(group_id=GROUP, member_id=self.ids[name], generation_id=self.generations[name]),
        )
        return ErrorCode(self.answers[name].pop().error_code)

    def sync(self, name: str, contents: dict[str, bytes] | None = None):
        """Send a SyncGroup, and return what it assigns, or the error."""
        self._send(
            name,
            SyncGroupRequest(
                group_id=GROUP,
                member_id=self.ids[name],
                generation_id=self.generations[name],
                protocol_name="sessioned",
                assignments=tuple(
                    SyncGroupRequestAssignment(member_id=member_id, assignment=content)
                    for member_id, content in (contents or {}).items()
                ),
            ),
        )
        answer = self.answers[name].pop()
        if answer.error_code:
            return ErrorCode(answer.error_code)
        return formats.read_differences({"": answer.assignment})[""]

    def lead(self, name: str, *, error: int = 0, offset: int = 1, delay_ms: int = 0, **parts):
        """Answer as the leader: ``w=(assigned, revoked)`` for workers that get something."""
        return self.sync(
            name, computed(name, self.shown, parts, error=error, offset=offset, delay_ms=delay_ms)
        )

    def disconnect(self, name: str) -> None:
        """A worker's connection ends, and with it what it waits for."""
        self._take(self.room.client_gone(name, self.now_ms))

    def leave(self, name: str) -> None:
        """Send a LeaveGroup."""
        self._send(
            name, LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id=self.ids[name]),))
        )
        self.answers[name].clear()


def computed(leader: str, members, parts, *, error=0, offset=1, delay_ms=0, url=None) -> dict[str, bytes]:
    """What a leader's SyncGroup brings, by member id."""
    contents = {}
    for name in members:
        assigned, revoked = parts.get(name, ((), ()))
        one = Difference(
            error,
            f"id-{leader}",
            url or f"http://{leader}/",
            offset,
            works(*assigned),
            works(*revoked),
            delay_ms,
        )
        contents[f"id-{name}"] = formats.for_worker(one, "sessioned")
    return contents


def group(**parts: tuple[str, ...]) -> Talk:
    """A group whose workers run this; the first leads, and nothing is under way."""
    talk = Talk()
    for name, runs in parts.items():
        assert talk.join(name, *runs) is None
    talk.pass_ms(SESSION_MS)
    leader = next(iter(parts))
    assert talk.joined(leader).leader == f"id-{leader}"
    talk.lead(leader)
    for name in parts:
        if name != leader:
            talk.joined(name)
            talk.sync(name)
    return talk


def _runs(metadata: bytes) -> WorkSet:
    allocation = decode_metadata(metadata)[1].allocation
    if allocation is None:
        return frozenset()
    listed = decode_assignment(allocation)[1].assignment or ()
    return frozenset(Work(one.connector, task) for one in listed for task in one.tasks)
