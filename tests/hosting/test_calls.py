"""Calls of hosted groups between the translation and the room: who is let in, the way in and back, and commits."""

from functools import partial

import pytest

from hosting.groups.settings import HostedSettings
from hosting.process_room import ProcessRoom
from hosting.router import HostedRouter
from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.connect_protocol import ConnectProtocolMetadata, encode_metadata
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
)
from protocol_codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolTopicPartition,
    encode_assignment,
)
from protocol_codecs.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from protocol_codecs.messages.leave_group import LeaveGroupResponse
from protocol_codecs.messages.list_groups import ListedGroup, ListGroupsResponse
from protocol_codecs.messages.share_group_describe import (
    ShareGroupDescribeResponse,
    ShareGroupDescribeResponseDescribedGroup,
)
from protocol_codecs.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol_codecs.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from protocol_codecs.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.translation.answers import commit_answer, commit_error
from tests.translation.bench import GROUP, KAFKA_4_3, TOPIC, Bench
from tests.translation.victim import ACCEPTED, REFUSED
from translation.policy.policy import Mode, Policy, Rule

VERSIONS = {**KAFKA_4_3, ApiKey.DESCRIBE_GROUPS: (0, 6)}
OF_THE_BROKER = "consumer-1"
EMPTY = DescribedGroup(group_id=GROUP, group_state="Empty")
WITH_MEMBERS = DescribedGroup(
    group_id=GROUP, group_state="Stable", members=(DescribedGroupMember(member_id=OF_THE_BROKER),)
)


def _policy(mode: Mode) -> Policy:
    return Policy(rules=(Rule(group=GROUP, mode=mode),))


class Host(Bench):
    """A translator with a room, before a broker that has nothing to say of the group unless it is told."""

    def __init__(self, mode: Mode = Mode.HOST) -> None:
        self.room = ProcessRoom(HostedSettings(), started=0.0)
        super().__init__(
            _policy(mode),
            versions=VERSIONS,
            new_group=False,
            make_router=partial(HostedRouter, room=self.room),
        )

    def set_mode(self, mode: Mode) -> None:
        """Change the policy."""
        self._do(self.translator.set_policy(self.now, _policy(mode)))

    def describe(
        self, classic: DescribedGroup = EMPTY, *native: str, no_such: ErrorCode = ErrorCode.GROUP_ID_NOT_FOUND
    ) -> None:
        """Say what the broker knows of the group: as a classic one, and members of the new protocol."""
        self.reply(DescribeGroupsResponse(groups=(classic,)), self.waiting(ApiKey.DESCRIBE_GROUPS))
        if any(call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE for call in self.calls):
            members = tuple(ConsumerGroupDescribeResponseMember(member_id=one) for one in native)
            code = ErrorCode.NONE if native else no_such
            group = ConsumerGroupDescribeResponseDescribedGroup(
                group_id=GROUP, error_code=code, members=members
            )
            self.reply(ConsumerGroupDescribeResponse(groups=(group,)))

    def waiting(self, api_key: ApiKey):
        """The call of this API that waits for the broker's answer."""
        return next(call for call in self.calls if call.api_key == api_key)

    def let_in(self, connection) -> JoinGroupResponse:
        """A client joins, and the broker has no members."""
        request = self.join(connection, "")
        self.describe()
        self.advance(3.0)
        return self.answers[request]

    def member(self, connection) -> JoinGroupResponse:
        """A client that is the only member, and has all three partitions."""
        joined = self.let_in(connection)
        assigned = ConsumerProtocolAssignment(
            assigned_partitions=(ConsumerProtocolTopicPartition(topic=TOPIC, partitions=(0, 1, 2)),)
        )
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=(
                SyncGroupRequestAssignment(
                    member_id=joined.member_id, assignment=encode_assignment(assigned, 1)
                ),
            ),
        )
        assert self.handed(self.send(connection, ApiKey.SYNC_GROUP, 5, request)) == {TOPIC: (0, 1, 2)}
        return joined


def test_a_member_is_let_in_and_commits_as_a_simple_consumer():
    bench = Host()
    connection = bench.connect()
    joined = bench.member(connection)
    assert joined.leader == joined.member_id
    heartbeat = bench.heartbeat(connection, joined.member_id, joined.generation_id)
    assert bench.answers[heartbeat].error_code == ErrorCode.NONE

    commit = bench.commit(connection, joined.member_id, joined.generation_id, instance_id=None)
    sent = bench.waiting(ApiKey.OFFSET_COMMIT).message
    assert (sent.member_id, sent.generation_id_or_member_epoch, sent.group_instance_id) == ("", -1, None)
    bench.reply(commit_answer())
    assert commit_error(bench, commit) == ErrorCode.NONE
    assert bench.forwarded == []


def test_a_bug_in_a_group_is_counted_and_its_members_are_told_to_join_anew(monkeypatch):
    bench = Host()
    counted = []
    bench.translator.on_router_failure(lambda: counted.append(1))
    connection = bench.connect()
    joined = bench.member(connection)
    rules = bench.room.groups.groups[GROUP].rules
    monkeypatch.setattr(rules, "move", lambda *_, **__: 1 // 0)
    heartbeat = bench.heartbeat(connection, joined.member_id, joined.generation_id)
    assert bench.answers[heartbeat].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert counted == [1]
    assert bench.translator.has_routed_group(bench.now, GROUP), "until its members' sessions are over"
    bench.advance(46.0)
    assert not bench.translator.has_routed_group(bench.now, GROUP)


def test_a_commit_of_another_generation_or_member_does_not_reach_the_broker():
    bench = Host()
    connection = bench.connect()
    joined = bench.member(connection)
    commit = bench.commit(connection, joined.member_id, joined.generation_id + 1)
    assert commit_error(bench, commit) == ErrorCode.ILLEGAL_GENERATION
    fenced = bench.commit(connection, joined.member_id, joined.generation_id - 1)
    assert commit_error(bench, fenced) == ErrorCode.ILLEGAL_GENERATION
    assert bench.calls == []


@pytest.mark.parametrize(
    "described",
    [
        (WITH_MEMBERS,),
        (EMPTY, "a-native-member"),
        (DescribedGroup(group_id=GROUP, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE),),
        (DescribedGroup(group_id=GROUP, group_state="PreparingRebalance"),),
    ],
    ids=["classic members", "native members", "not described", "a state that is not empty"],
)
def test_nobody_is_let_in_while_the_broker_may_have_members(described):
    bench = Host()
    connection = bench.connect()
    request = bench.join(connection, "")
    bench.describe(*described)
    bench.advance(1.0)
    bench.describe(*described)
    assert bench.answers[request].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert not bench.room.has_members(GROUP)
    assert bench.forwarded == []


@pytest.mark.parametrize(
    ("no_such", "lets_in"),
    [(ErrorCode.UNSUPPORTED_VERSION, True), (ErrorCode.COORDINATOR_NOT_AVAILABLE, False)],
)
def test_a_broker_that_has_no_groups_of_the_new_protocol_has_no_members_of_them(no_such, lets_in):
    bench = Host()
    bench.join(bench.connect(), "")
    bench.describe(no_such=no_such)
    assert bench.room.has_members(GROUP) == lets_in


def test_the_way_in():
    bench = Host(Mode.OBSERVE)
    connection = bench.connect()
    assert bench.heartbeat(connection, OF_THE_BROKER, 3) in bench.forwarded
    bench.set_mode(Mode.HOST)

    heartbeat = bench.heartbeat(connection, OF_THE_BROKER, 3)
    bench.reply(HeartbeatResponse())  # it keeps the member alive there
    assert bench.answers[heartbeat].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    rejoin = bench.join(connection, OF_THE_BROKER, claims=(0, 1))
    assert bench.answers[rejoin].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.calls == []  # its membership guards its partitions until it has given them up

    anew = bench.join(connection, "")
    left = bench.waiting(ApiKey.LEAVE_GROUP).message
    assert [one.member_id for one in left.members] == [OF_THE_BROKER]
    bench.reply(LeaveGroupResponse())
    bench.describe()
    bench.advance(3.0)
    assert bench.answers[anew].error_code == ErrorCode.NONE
    assert bench.room.is_member(GROUP, bench.answers[anew].member_id)


def test_the_way_back():
    bench = Host()
    connection, other = bench.connect(), bench.connect()
    joined = bench.member(connection)
    bench.set_mode(Mode.OBSERVE)

    waits = bench.join(other, "")
    bench.advance(1.0)
    assert bench.answers[waits].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    native = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="native", member_epoch=0)
    refused = bench.send(other, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, native)
    assert bench.answers[refused].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    heartbeat = bench.heartbeat(connection, joined.member_id, joined.generation_id)
    assert bench.answers[heartbeat].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    rejoin = bench.join(connection, joined.member_id, claims=(0, 1, 2))
    assert bench.answers[rejoin].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.room.has_members(GROUP)  # until it comes back with nothing
    assert bench.forwarded == []
    anew = bench.join(connection, "")
    assert not bench.room.has_members(GROUP)
    assert bench.forwarded == [anew]
    assert bench.join(other, "") in bench.forwarded


def test_a_member_that_does_not_come_back_goes_with_its_session():
    bench = Host()
    connection, other = bench.connect(), bench.connect()
    joined = bench.member(connection)
    bench.set_mode(Mode.OBSERVE)
    bench.join(connection, joined.member_id)
    bench.upstream_lost(connection)
    bench.advance(9.0)
    assert bench.room.has_members(GROUP)
    bench.advance(2.0)  # the session timeout is 10 s
    assert not bench.room.has_members(GROUP)
    assert bench.join(other, "") in bench.forwarded


CALLS = {
    "JoinGroup": lambda bench, by, member: bench.join(by, member.member_id),
    "JoinGroup of somebody new": lambda bench, by, _: bench.join(by, ""),
    "SyncGroup": lambda bench, by, member: bench.sync(by, member.member_id, member.generation_id),
    "Heartbeat": lambda bench, by, member: bench.heartbeat(by, member.member_id, member.generation_id),
    "LeaveGroup": lambda bench, by, member: bench.leave(by, member.member_id),
    "OffsetCommit": lambda bench, by, member: bench.commit(by, member.member_id, member.generation_id),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("mode", [Mode.HOST, Mode.OBSERVE], ids=str)
def test_a_call_of_whom_the_broker_does_not_let_in_changes_nothing(call, mode):
    bench = Host()
    joined = bench.member(bench.connect())
    bench.set_mode(mode)
    before, stranger = _state(bench), bench.connect()
    bench._lets_in = False
    bench.advance(1.0)
    request = CALLS[call](bench, stranger, joined)
    assert request not in bench.answers
    assert _state(bench) == before, "it counted before the broker was asked"
    (question,) = bench.calls
    bench.reply(REFUSED, question)
    assert "GROUP_AUTHORIZATION_FAILED" in str(codes(bench.answers[request]))
    assert bench.forwarded == []  # a moment later the broker might let it through
    assert _state(bench) == before
    assert bench.calls == []


@pytest.mark.parametrize(("call", "counts"), [("JoinGroup", False), ("LeaveGroup", True)])
def test_only_what_clients_send_before_they_close_counts_once_they_have_gone(call, counts):
    bench = Host()
    joined = bench.member(bench.connect())
    other = bench.connect()
    before = _state(bench)
    bench._lets_in = False
    CALLS[call](bench, other, joined)
    (question,) = bench.calls
    bench.client_disconnected(other)
    bench.reply(ACCEPTED, question)
    assert (not bench.room.has_members(GROUP)) == counts
    assert counts or _state(bench) == before


def test_a_member_of_the_broker_gets_no_assignment_there_any_more():
    """Its JoinGroup may have reached the broker after the first hosted member was let in."""
    bench = Host()
    connection = bench.connect()
    bench.member(bench.connect())
    sync = bench.sync(connection, OF_THE_BROKER, 3)
    bench.reply(SyncGroupResponse(assignment=b"partitions"), bench.waiting(ApiKey.SYNC_GROUP))
    assert bench.answers[sync] == SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


@pytest.mark.parametrize(("member_id", "generation"), [("", -1), (OF_THE_BROKER, -1), (OF_THE_BROKER, 3)])
def test_nobody_else_commits_while_there_are_members(member_id, generation):
    """For the broker the group is empty, so it would take such commits."""
    bench = Host()
    bench.member(bench.connect())
    other = bench.connect()
    commit = bench.commit(other, member_id, generation)
    assert commit_error(bench, commit) == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.forwarded == []
    assert bench.calls == []


def test_a_group_without_members_takes_simple_commits():
    bench = Host()
    assert bench.commit(bench.connect(), "", -1) in bench.forwarded


JOINS_OF_NEW_PROTOCOLS = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ConsumerGroupHeartbeatRequest,
    ApiKey.SHARE_GROUP_HEARTBEAT: ShareGroupHeartbeatRequest,
    ApiKey.STREAMS_GROUP_HEARTBEAT: StreamsGroupHeartbeatRequest,
}


@pytest.mark.parametrize("api_key", JOINS_OF_NEW_PROTOCOLS, ids=lambda key: key.name)
def test_on_the_way_back_no_protocol_has_members_before_the_last_hosted_one_has_gone(api_key):
    bench = Host()
    connection = bench.connect()
    joined = bench.member(connection)
    bench.set_mode(Mode.OBSERVE)
    request = JOINS_OF_NEW_PROTOCOLS[api_key](group_id=GROUP, member_id="native", member_epoch=0)
    refused = bench.send(bench.connect(), api_key, 1, request)
    assert bench.answers[refused].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert bench.translator.has_routed_group(bench.now, GROUP)
    bench.leave(connection, joined.member_id)
    assert not bench.translator.has_routed_group(bench.now, GROUP)
    assert bench.send(bench.connect(), api_key, 1, request) in bench.forwarded


SHARE_AND_STREAMS = {
    **VERSIONS,
    ApiKey.SHARE_GROUP_DESCRIBE: (1, 1),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (0, 1),
    ApiKey.LIST_GROUPS: (0, 5),
}


@pytest.mark.parametrize(
    ("share", "streams", "lets_in"),
    [
        (ErrorCode.GROUP_ID_NOT_FOUND, (), True),
        (ErrorCode.NONE, (), False),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, (), False),
        (ErrorCode.GROUP_ID_NOT_FOUND, ("another", GROUP), False),
        (ErrorCode.GROUP_ID_NOT_FOUND, ("another",), True),
    ],
)
def test_nobody_is_let_in_while_it_is_a_share_or_a_streams_group(share, streams, lets_in):
    """DescribeGroups calls a streams group dead, however many members it has."""
    bench = Host()
    bench.versions = SHARE_AND_STREAMS
    bench.join(bench.connect(), "")
    bench.describe()
    described = ShareGroupDescribeResponseDescribedGroup(group_id=GROUP, error_code=share)
    bench.reply(ShareGroupDescribeResponse(groups=(described,)))
    if share == ErrorCode.GROUP_ID_NOT_FOUND:
        asked = bench.waiting(ApiKey.LIST_GROUPS)
        assert asked.message.types_filter == ("streams",)
        bench.reply(ListGroupsResponse(groups=tuple(ListedGroup(group_id=one) for one in streams)))
    assert bench.room.has_members(GROUP) == lets_in


def test_a_broker_that_describes_nothing_may_have_members():
    bench = Host()
    bench.join(bench.connect(), "")
    bench.reply(DescribeGroupsResponse(groups=(EMPTY,)), bench.waiting(ApiKey.DESCRIBE_GROUPS))
    bench.reply(ConsumerGroupDescribeResponse())
    assert not bench.room.has_members(GROUP)


def test_a_member_id_that_no_broker_gives_out_is_not_remembered():
    """A client could have as much kept as it likes."""
    bench = Host()
    connection = bench.connect()
    answer = bench.join(connection, "x" * 30_000)
    assert bench.answers[answer].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.translator._context.router.hosting.take_told(connection.id, GROUP) is None


def test_a_translated_member_that_is_about_to_join_counts():
    bench = Host(Mode.TRANSLATE)
    bench._new_group = True
    bench.join(bench.connect(), "epochgate-a")
    assert bench.heartbeat_call().message.member_epoch == 0
    bench.set_mode(Mode.HOST)
    bench._new_group = False
    bench.join(bench.connect(), "")
    bench.advance(1.0)
    assert not bench.room.has_members(GROUP)
    assert not any(call.api_key == ApiKey.DESCRIBE_GROUPS for call in bench.calls)


def test_without_a_room_such_groups_are_observed():
    bench = Bench(_policy(Mode.HOST), versions=VERSIONS, new_group=False)
    assert bench.join(bench.connect(), "") in bench.forwarded


def _state(bench: Host):
    group = bench.room.groups.groups[GROUP]
    members = {
        one.member_id: (
            one.generation,
            one.session_deadline_ms,
            one.join,
            one.told_to_rejoin,
            one.subscriptions,
        )
        for one in group.members.values()
    }
    return members, bench.room.next_deadline(), dict(bench.translator._context.router.hosting._told)


def codes(answer) -> set[str]:
    if hasattr(answer, "topics"):
        return {
            ErrorCode(partition.error_code).name for topic in answer.topics for partition in topic.partitions
        }
    return {ErrorCode(answer.error_code).name}


# -- workers of Kafka Connect ------------------------------------------------------------------------------------------


def _worker_joins(bench: Host, connection, *names: str, member_id: str = ""):
    """A worker's JoinGroup, with these protocols."""
    metadata = encode_metadata(ConnectProtocolMetadata(url="http://w:1/", config_offset=1), 1)
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="connect",
        protocols=tuple(JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names),
    )
    return bench.send(connection, ApiKey.JOIN_GROUP, 9, request)


def test_workers_that_go_on_while_their_group_rebalances_are_hosted():
    bench = Host()
    connection = bench.connect()
    request = _worker_joins(bench, connection, "sessioned", "compatible", "default")
    bench.describe()
    bench.advance(10.0)
    joined = bench.answers[request]
    assert (joined.protocol_type, joined.protocol_name) == ("connect", "sessioned")
    assert joined.leader == joined.member_id
    assert bench.forwarded == []


def test_workers_that_stop_for_each_rebalance_are_left_to_the_broker():
    bench = Host()
    connection = bench.connect()
    request = _worker_joins(bench, connection, "default")
    assert bench.forwarded == [request]
    heartbeat = bench.heartbeat(connection, OF_THE_BROKER, 1)
    again = _worker_joins(bench, connection, "sessioned", "compatible", "default", member_id=OF_THE_BROKER)
    assert bench.forwarded == [request, heartbeat, again]


def test_a_worker_that_stops_for_each_rebalance_cannot_join_a_hosted_group():
    bench = Host()
    connection, other = bench.connect(), bench.connect()
    _worker_joins(bench, connection, "sessioned", "compatible", "default")
    bench.describe()
    bench.advance(10.0)
    refused = _worker_joins(bench, other, "default")
    bench.describe()
    assert bench.answers[refused].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.forwarded == []


def _returned(bench: Host, *connections):
    """Workers that were hosted have come back: the broker has the JoinGroup of each."""
    for connection in connections:
        _worker_joins(bench, connection, "sessioned")
        bench.describe()
    members = list(bench.room.groups.groups[GROUP].members)
    bench.set_mode(Mode.OBSERVE)
    for connection, member_id in zip(connections, members, strict=True):
        told = _worker_joins(bench, connection, "sessioned", member_id=member_id)
        assert bench.answers[told].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    for connection in connections:
        _worker_joins(bench, connection, "sessioned")
        bench.advance(1.0)
    again = [_worker_joins(bench, one, "sessioned") for one in connections]
    assert bench.forwarded[-len(again) :] == again


def _leader_assigns(bench: Host, connection, *members: str):
    """The SyncGroup of a leader at the broker."""
    request = SyncGroupRequest(
        group_id=GROUP,
        generation_id=7,
        member_id=OF_THE_BROKER,
        assignments=tuple(SyncGroupRequestAssignment(member_id=one, assignment=b"") for one in members),
    )
    return bench.send(connection, ApiKey.SYNC_GROUP, 5, request)


def test_on_the_way_back_a_leader_that_does_not_know_all_workers_assigns_nothing():
    bench = Host()
    connection, other = bench.connect(), bench.connect()
    _returned(bench, connection, other)
    forwarded = len(bench.forwarded)
    alone = _leader_assigns(bench, connection, "w1")
    assert alone not in bench.answers, "it joins at once when it is told"
    bench.advance(0.5)
    assert bench.answers[alone].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert len(bench.forwarded) == forwarded
    assert not bench.calls

    refused = _leader_assigns(bench, connection, "w1", "w2")
    bench.reply(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert bench.answers[refused].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    still = _leader_assigns(bench, connection, "w1")
    bench.advance(0.5)
    assert bench.answers[still].error_code == ErrorCode.REBALANCE_IN_PROGRESS

    both = _leader_assigns(bench, connection, "w1", "w2")
    bench.reply(SyncGroupResponse(assignment=b"mine"))
    assert bench.answers[both].assignment == b"mine"
    later = _leader_assigns(bench, connection, "w1")
    assert later in bench.forwarded, "one may have left since"


def test_a_leader_assigns_without_a_worker_that_has_not_joined_for_a_session():
    bench = Host()
    connection, other = bench.connect(), bench.connect()
    _returned(bench, connection, other)
    early = _leader_assigns(bench, connection, "w1")
    bench.advance(8.5)
    assert bench.answers[early].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    bench.advance(0.5)
    assert _leader_assigns(bench, connection, "w1") in bench.forwarded


def test_on_the_way_back_an_assignment_of_whom_the_broker_does_not_let_in_is_refused_by_the_broker():
    bench = Host()
    _returned(bench, bench.connect(), bench.connect())
    stranger, events = bench.connect(), len(bench.events)
    bench._lets_in = False
    request = _leader_assigns(bench, stranger, "w1")
    (question,) = bench.calls
    bench.reply(REFUSED, question)
    assert bench.answers[request].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert len(bench.events) == events
