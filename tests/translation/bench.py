"""A bench for the translation: a client's calls in, the broker's answers by hand, and a clock that the test turns.

The names here are the words of the protocol, so that a test reads as a history.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from protocol_codecs import ApiKey, ErrorCode, Uuid
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
)
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    decode_assignment,
    encode_subscription,
)
from protocol_codecs.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol_codecs.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol_codecs.messages.metadata import MetadataResponse, MetadataResponseTopic
from protocol_codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol_codecs.messages.sync_group import SyncGroupRequest
from translation.actions import (
    Action,
    Answer,
    Authorized,
    Call,
    CallHook,
    CallId,
    Close,
    Connection,
    ConnectionId,
    Emit,
    EventKind,
    Forward,
    Relayed,
    Release,
    Request,
    RequestId,
)
from translation.admission.authorization import NOBODY
from translation.apis.predicted_heartbeat import PredictedHeartbeat
from translation.engine.context import Context
from translation.engine.group_router import GroupRouter
from translation.member_log.member_log import MemberLog
from translation.policy.policy import Mode, Policy, Rule
from translation.settings import TranslatorSettings
from translation.translator import Translator

GROUP = "payments"
TOPIC = "orders"
TOPIC_ID = Uuid(b"orders..........")
OTHER_TOPIC = "refunds"
OTHER_TOPIC_ID = Uuid(b"refunds.........")
TOPIC_IDS = {TOPIC: TOPIC_ID, OTHER_TOPIC: OTHER_TOPIC_ID}

KAFKA_4_3: Mapping[int, tuple[int, int]] = {
    ApiKey.METADATA: (0, 13),
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.OFFSET_FETCH: (1, 10),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.TXN_OFFSET_COMMIT: (0, 6),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
}

NO_CONSUMER_GROUP = ConsumerGroupDescribeResponse(
    groups=(
        ConsumerGroupDescribeResponseDescribedGroup(group_id=GROUP, error_code=ErrorCode.GROUP_ID_NOT_FOUND),
    )
)

TRANSLATE_ALL = Policy(rules=(Rule(pattern=".*", mode=Mode.TRANSLATE),))


def assignment(**topics: tuple[int, ...]) -> ConsumerGroupHeartbeatResponseAssignment:
    """An assignment by topic name, as ConsumerGroupHeartbeat answers it."""
    return ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=tuple(
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=TOPIC_IDS[name], partitions=partitions)
            for name, partitions in topics.items()
        )
    )


def owned(request: ConsumerGroupHeartbeatRequest) -> dict[str, tuple[int, ...]] | None:
    """The owned list of a ConsumerGroupHeartbeat by topic name; None if it is null."""
    if request.topic_partitions is None:
        return None
    names = {topic_id: name for name, topic_id in TOPIC_IDS.items()}
    return {names[topic.topic_id]: topic.partitions for topic in request.topic_partitions}


class Bench:
    """One translator, any number of connections, and the actions that it asked for."""

    def __init__(
        self,
        policy: Policy = TRANSLATE_ALL,
        settings: TranslatorSettings | None = None,
        versions: Mapping[int, tuple[int, int]] = KAFKA_4_3,
        *,
        new_group: bool = True,
        lets_in: bool = True,
        member_log: MemberLog | None = None,
        make_router: Callable[[Context], GroupRouter] | None = None,
    ) -> None:
        """``new_group``: the broker has no such group before the first join, and the bench answers so by itself.

        ``lets_in``: the broker lets everybody act in every group, and the bench answers so by itself.
        """
        self._new_group = new_group
        self._lets_in = lets_in
        self.now = 1000.0
        self.versions = versions
        self._uuids = iter(f"uuid-{n}" for n in range(1, 10_000))
        self.translator = Translator(
            policy,
            settings=settings,
            new_uuid=lambda: next(self._uuids),
            member_log=member_log,
            make_router=make_router,
        )
        self.calls: list[Call] = []
        self.answers: dict[RequestId, Any] = {}
        self.forwarded: list[RequestId] = []
        self.released: list[ConnectionId] = []
        self.closed: list[ConnectionId] = []
        self.hung_up: set[ConnectionId] = set()
        """Whose clients have closed their side as the kernel knows, while the shell has not read so far."""
        self.hook_calls: list[CallHook] = []
        self.events: list[Any] = []
        self._requests: dict[RequestId, Request] = {}
        self._predictions: dict[CallId, PredictedHeartbeat] = {}
        self._last_request = 0
        self._last_connection = 0

    # -- the shell's part --------------------------------------------------------------------------------------

    def connect(self, client_host: str = "/10.0.0.1") -> Connection:
        """A new connection of a client."""
        self._last_connection += 1
        connection_id = ConnectionId(self._last_connection)
        return Connection(
            connection_id, client_host, self.versions, peer_closed=lambda: connection_id in self.hung_up
        )

    def _do(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Call():
                    self.calls.append(action)
                case Answer():
                    assert action.request_id not in self.answers, "a request was answered twice"
                    self.answers[action.request_id] = action.message
                case Forward():
                    self.forwarded.append(action.request_id)
                case Release():
                    self.released.append(action.connection_id)
                case Emit():
                    self.events.append(action.event)
                case CallHook():
                    self.hook_calls.append(action)
                case Close():
                    self.closed.append(action.connection_id)
                case Authorized() | Relayed():
                    pass
                case _:
                    raise AssertionError(action)

    def send(self, connection: Connection, api_key: ApiKey, version: int, message: Any) -> RequestId:
        """A request of a client."""
        self._last_request += 1
        request_id = RequestId(self._last_request)
        request = Request(request_id, connection, api_key, version, "app", message)
        self._requests[request_id], prediction = request, None
        if api_key == ApiKey.HEARTBEAT:
            prediction = self.translator.predict(self.now, request)
        actions = self.translator.handle_request(self.now, request)
        if prediction is not None:
            (call,) = actions
            assert isinstance(call, Call)
            assert call.message is prediction.upstream_request
            self._predictions[call.call_id] = prediction
        self._do(actions)
        if self._lets_in:
            for call in self.questions():
                self.reply(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), call)
        return request_id

    def request(self, request_id: RequestId) -> Request:
        """What a client has sent."""
        return self._requests[request_id]

    def questions(self) -> list[Call]:
        """What the broker is asked about who may act in a group."""
        return [
            call
            for call in self.calls
            if call.api_key == ApiKey.HEARTBEAT and call.message.member_id == NOBODY
        ]

    def reply(self, message: Any, call: Call | None = None) -> None:
        """The broker's answer to a call; to the only one that waits if none is named."""
        if call is None:
            assert len(self.calls) == 1, self.calls
            call = self.calls[0]
        self.calls.remove(call)
        prediction = self._predictions.pop(call.call_id, None)
        answer = None if prediction is None else prediction.answer_to(message)
        actions = self.translator.handle_reply(self.now, call.call_id, message)
        if answer is not None:
            assert actions[0] == answer
        self._do(actions)

    def relayed_response(self, connection: Connection, request_id: RequestId, response: Any) -> None:
        """The broker's answer to a request that was forwarded."""
        assert request_id in self.forwarded
        request = replace(self._requests[request_id], connection=connection)
        self._do(self.translator.handle_relayed_response(self.now, request, response))

    def reply_names(self) -> None:
        """Answer the Metadata question that waits, with the topics of this bench."""
        call = next(call for call in self.calls if call.api_key == ApiKey.METADATA)
        asked = [(topic.name, topic.topic_id) for topic in call.message.topics]
        topics = tuple(
            MetadataResponseTopic(name=name, topic_id=topic_id)
            for name, topic_id in TOPIC_IDS.items()
            if any(name == a or topic_id == b for a, b in asked)
        )
        self.reply(MetadataResponse(topics=topics), call)

    def client_disconnected(self, connection: Connection) -> None:
        self._do(self.translator.client_disconnected(self.now, connection.id))

    def upstream_lost(self, connection: Connection) -> None:
        self.calls = [call for call in self.calls if call.connection_id != connection.id]
        self._do(self.translator.upstream_lost(self.now, connection.id))

    def advance(self, seconds: float) -> None:
        """Let time pass, with every deadline on its time."""
        until = self.now + seconds
        while (due := self.translator.next_deadline()) <= until:
            self.now = max(self.now, due)
            self._do(self.translator.handle_time(self.now))
        self.now = until

    # -- what a broker says ------------------------------------------------------------------------------------

    def beat(self, epoch: int, error: ErrorCode = ErrorCode.NONE, **topics: tuple[int, ...]) -> None:
        """Answer the heartbeat that waits; with an assignment if any topic is named."""
        self.reply(self.heartbeat_answer(epoch, error, **topics), self.heartbeat_call())
        if any(call.api_key == ApiKey.METADATA for call in self.calls):
            self.reply_names()

    @staticmethod
    def heartbeat_answer(
        epoch: int, error: ErrorCode = ErrorCode.NONE, **topics: tuple[int, ...]
    ) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(
            error_code=error,
            member_epoch=epoch,
            heartbeat_interval_ms=5000,
            assignment=assignment(**topics) if topics else None,
        )

    def heartbeat_call(self) -> Call:
        """The ConsumerGroupHeartbeat that waits for its answer."""
        waiting = [call for call in self.calls if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT]
        assert waiting, f"no heartbeat waits: {self.calls}"
        return waiting[0]

    # -- what a client says ------------------------------------------------------------------------------------

    def join(
        self,
        connection: Connection,
        member_id: str,
        *,
        claims: tuple[int, ...] = (),
        topics: tuple[str, ...] = (TOPIC,),
        protocol: str = "range",
        more_protocols: tuple[str, ...] = (),
        version: int = 9,
        instance_id: str | None = None,
        embedded_version: int = 3,
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
        protocol_type: str = "consumer",
        user_data: bytes | None = None,
        rack: str | None = None,
    ) -> RequestId:
        subscription = ConsumerProtocolSubscription(
            topics=topics,
            user_data=user_data,
            rack_id=rack,
            owned_partitions=(ConsumerProtocolTopicPartition(topic=TOPIC, partitions=claims),)
            if claims
            else (),
        )
        metadata = encode_subscription(subscription, embedded_version)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=tuple(
                JoinGroupRequestProtocol(name=name, metadata=metadata) for name in (protocol, *more_protocols)
            ),
        )
        if self._new_group and member_id:  # as if this process had given it out
            self.translator._context.ids.issued(member_id)
        request_id = self.send(connection, ApiKey.JOIN_GROUP, version, request)
        if self._new_group:
            self.answer_lookups()
        return request_id

    def answer_lookups(self) -> None:
        """Say that there is no such group, neither a consumer group nor a classic one."""
        for call in [call for call in self.calls if call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE]:
            self.reply(NO_CONSUMER_GROUP, call)
        for call in [call for call in self.calls if call.api_key == ApiKey.DESCRIBE_GROUPS]:
            self.reply(
                DescribeGroupsResponse(groups=(DescribedGroup(group_id=GROUP, group_state="Dead"),)), call
            )

    def sync(
        self, connection: Connection, member_id: str, generation: int, *, protocol_name: str | None = None
    ) -> RequestId:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            protocol_type="consumer",
            protocol_name=protocol_name,
        )
        return self.send(connection, ApiKey.SYNC_GROUP, 5, request)

    def heartbeat(
        self,
        connection: Connection,
        member_id: str,
        generation: int,
        instance_id: str | None = None,
    ) -> RequestId:
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        return self.send(connection, ApiKey.HEARTBEAT, 4, request)

    def leave(self, connection: Connection, member_id: str) -> RequestId:
        request = LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id=member_id),))
        request_id = self.send(connection, ApiKey.LEAVE_GROUP, 5, request)
        if self._new_group:
            self.answer_lookups()
        return request_id

    def commit(
        self,
        connection: Connection,
        member_id: str,
        generation: int,
        *,
        version: int = 8,
        instance_id: str | None = None,
    ) -> RequestId:
        request = OffsetCommitRequest(
            group_id=GROUP,
            group_instance_id=instance_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=(
                OffsetCommitRequestTopic(
                    name=TOPIC,
                    partitions=(OffsetCommitRequestPartition(partition_index=0, committed_offset=42),),
                ),
            ),
        )
        return self.send(connection, ApiKey.OFFSET_COMMIT, version, request)

    # -- whole stretches of a history --------------------------------------------------------------------------

    def stable_member(
        self,
        connection: Connection,
        partitions: tuple[int, ...],
        *,
        member_id: str = "epochgate-a",
        epoch: int = 1,
        **join: Any,
    ) -> int:
        """A member that has joined and synced; gives its generation. Nudges to itself are answered."""
        request = self.join(connection, member_id, **join)
        self.beat(epoch, orders=partitions)
        answer: JoinGroupResponse = self.answers[request]
        assert answer.error_code == ErrorCode.NONE
        assert self.handed(self.sync(connection, member_id, answer.generation_id)) == {TOPIC: partitions}
        self.settle(epoch)
        return answer.generation_id

    def settle(self, epoch: int) -> None:
        """Let the nudges that follow a change run out; no answer brings anything new."""
        until = self.now + 2.0
        while (due := self.translator.next_deadline()) <= until:
            self.now = max(self.now, due)
            self._do(self.translator.handle_time(self.now))
            while any(call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT for call in self.calls):
                self.beat(epoch)

    def handed(self, request_id: RequestId) -> dict[str, tuple[int, ...]]:
        """The assignment in a SyncGroup answer."""
        answer = self.answers[request_id]
        assert answer.error_code == ErrorCode.NONE, answer
        _, embedded = decode_assignment(answer.assignment)
        return {topic.topic: topic.partitions for topic in embedded.assigned_partitions}

    def error(self, request_id: RequestId) -> ErrorCode:
        """The error code of an answer."""
        return ErrorCode(self.answers[request_id].error_code)

    def kinds(self) -> list[EventKind]:
        """The kinds of the events so far."""
        return [event.kind for event in self.events]
