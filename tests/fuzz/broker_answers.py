"""A broker answers anything to the proxy's own calls for a client whose group is translated; for ``targets``.

The client does what clients do, with what it was answered. Only translation and codecs run: a connection's bytes are
the matter of ``two_connections``, whose runs take ten times as long.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from protocol_codecs import ApiKey, ErrorCode, MalformedMessage, Message, decode, encode
from protocol_codecs.all_apis import ALL_APIS
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupResponse
from protocol_codecs.messages.leave_group import LeaveGroupResponse, MemberResponse
from protocol_codecs.messages.metadata import MetadataResponse, MetadataResponseTopic
from protocol_codecs.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.translation.answers import commit_answer, described, member
from tests.translation.bench import GROUP, TOPIC_IDS, Bench
from translation.actions import Call, RequestId

CALL, ANSWER, GOOD_ANSWER, TIME = range(4)
"""What a chunk's first byte says modulo 4: the client makes a call, the broker answers the oldest call of the proxy
with the chunk's other bytes or as it should, or time passes."""
_LONGEST_S = 25.6
_LONGEST_WAIT_S = 200


class _Client:
    """A classic client of the group, its connection, and what the broker has to answer."""

    def __init__(self) -> None:
        self.bench = Bench(new_group=False, lets_in=False)
        self._connection = self.bench.connect()
        self._member_id, self._generation = "", -1
        self._waits_for: RequestId | None = None
        self._calls: tuple[Callable[[], RequestId], ...] = (
            lambda: self._join("range"),
            lambda: self.bench.sync(self._connection, self._member_id, self._generation),
            lambda: self.bench.heartbeat(self._connection, self._member_id, self._generation),
            lambda: self.bench.commit(self._connection, self._member_id, self._generation),
            lambda: self.bench.leave(self._connection, self._member_id),
            lambda: self._join("cooperative-sticky"),
            lambda: self._join("range", instance_id="i"),
            self._fetch_offsets,
        )

    def _join(self, protocol: str, **fields: Any) -> RequestId:
        claims = (0, 1) if self._generation > 0 else ()
        return self.bench.join(self._connection, self._member_id, protocol=protocol, claims=claims, **fields)

    def _fetch_offsets(self) -> RequestId:
        request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=GROUP),))
        return self.bench.send(self._connection, ApiKey.OFFSET_FETCH, 8, request)

    def calls(self, what: int) -> None:
        """Make a call, if none waits for an answer."""
        self._take_answer()
        if self._waits_for is None:
            self._waits_for = self._calls[what % len(self._calls)]()

    def _take_answer(self) -> None:
        waits_for = self._waits_for
        if self._connection.id in self.bench.closed:
            self._loses_its_connection()
        elif waits_for is None or waits_for in self.bench.forwarded:
            self._waits_for = None
        elif (answer := self.bench.answers.get(waits_for)) is not None:
            self._waits_for = None
            if isinstance(answer, JoinGroupResponse):
                self._member_id, self._generation = answer.member_id, answer.generation_id
            if getattr(answer, "error_code", 0) == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id, self._generation = "", -1

    def answered(self, body: bytes) -> None:
        """The broker answers the oldest call with these bytes. The shell ends a connection whose broker is not one."""
        if not self.bench.calls:
            return
        call = self.bench.calls[0]
        try:
            message = decode(ALL_APIS[call.api_key].response, call.version, body)
        except MalformedMessage:
            self._loses_its_connection()
        else:
            self.bench.reply(message, call)

    def answered_well(self) -> None:
        """The broker answers the oldest call as it should."""
        if self.bench.calls:
            call = self.bench.calls[0]
            self.bench.reply(good_answer(call), call)

    def _loses_its_connection(self) -> None:
        self.bench.upstream_lost(self._connection)
        self._connection, self._waits_for = self.bench.connect(), None

    def check(self) -> None:
        """All that goes to either side can be written, and the client has an answer within its longest wait."""
        for call in self.bench.calls:
            encode(call.message, call.version)
        for _ in range(_LONGEST_WAIT_S):
            self._take_answer()
            if (waits_for := self._waits_for) is None:
                break
            self.bench.advance(1.0)
            while self.bench.calls:
                self.answered_well()
        else:
            raise AssertionError(f"{self.bench.request(waits_for)} is never answered")
        for request_id, answer in self.bench.answers.items():
            encode(answer, self.bench.request(request_id).version)
        self._loses_its_connection()


def good_answer(call: Call) -> Message:
    """What a broker answers that knows the group and has nothing against the call."""
    message = call.message
    match call.api_key:
        case ApiKey.CONSUMER_GROUP_HEARTBEAT:
            epoch = message.member_epoch
            if epoch > 0:
                return Bench.heartbeat_answer(epoch)
            return Bench.heartbeat_answer(epoch or 3, orders=(0, 1))
        case ApiKey.CONSUMER_GROUP_DESCRIBE:
            return described(member("somebody"))
        case ApiKey.HEARTBEAT:
            return HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        case ApiKey.METADATA:
            topics_by_name = TOPIC_IDS.items()
            return MetadataResponse(
                topics=tuple(MetadataResponseTopic(name=name, topic_id=uuid) for name, uuid in topics_by_name)
            )
        case ApiKey.OFFSET_COMMIT:
            return commit_answer()
        case ApiKey.LEAVE_GROUP:
            return LeaveGroupResponse(
                members=tuple(MemberResponse(member_id=one.member_id) for one in message.members)
            )
        case _:
            return ALL_APIS[call.api_key].response()


def run(chunks: Iterable[bytes]) -> None:
    """Let client, broker and time do what the chunks say.

    :raises AssertionError: the client is never answered, or an answer of the proxy cannot be written.
    """
    client = _Client()
    for chunk in chunks:
        if not chunk:
            continue
        match chunk[0] % 4:
            case 0:
                client.calls(chunk[0] >> 2)
            case 1:
                client.answered(chunk[1:])
            case 2:
                client.answered_well()
            case _:
                client.bench.advance((chunk[0] >> 2) / 64 * _LONGEST_S)
    client.check()


def histories() -> Iterator[bytes]:
    """A member joins, goes on, rejoins, commits and leaves; each answer of the broker by itself, and its bytes."""
    whole = [0, 0, 1, 2, 3, 7, 2, 5, 1, 2, 6, 1, 3, 4]
    for written in (False, True):
        for protocol in (0, 5, 6):
            yield _history([protocol if call == 0 else call for call in whole], written=written)


def _history(calls: Iterable[int], *, written: bool) -> bytes:
    client, chunks = _Client(), []
    for what in calls:
        chunks.append(bytes((what << 2 | CALL,)))
        client.calls(what)
        for _ in range(4):
            while client.bench.calls:
                call = client.bench.calls[0]
                body = encode(good_answer(call), call.version)
                chunks.append(bytes((ANSWER,)) + body if written else bytes((GOOD_ANSWER,)))
                client.answered(body)
            chunks.append(bytes((5 << 2 | TIME,)))
            client.bench.advance(5 / 64 * _LONGEST_S)
    return b"".join(len(chunk).to_bytes(2) + chunk for chunk in chunks)
