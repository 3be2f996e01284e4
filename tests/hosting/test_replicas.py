"""Hosted groups where two replicas share a member log: one of them is the host of a group, and it alone."""

from functools import partial

import pytest

from hosting import replicas
from hosting.groups.settings import HostedSettings
from hosting.host_log import GONE_MS, HANDOVER_S, LEASE_S, PROBE_S
from hosting.process_room import ProcessRoom
from hosting.router import HostedRouter
from protocol_codecs import ApiKey, ErrorCode
from tests.hosting.test_calls import CALLS, VERSIONS, WITH_MEMBERS, Host, codes
from tests.translation.bench import GROUP
from tests.translation.member_log.bench import Replica, SharedLog
from tests.translation.victim import ACCEPTED, REFUSED
from translation.member_log.group_records import GroupRecord
from translation.policy.policy import Mode, Policy, Rule

SESSION_S = 10.0
GONE_S = GONE_MS / 1000


def _policy(mode: Mode) -> Policy:
    return Policy(rules=(Rule(group=GROUP, mode=mode),))


class HostReplica(Replica):
    """A replica with a room for hosted groups."""

    describe, waiting = Host.describe, Host.waiting

    def __init__(self, shared: SharedLog, mode: Mode = Mode.HOST) -> None:
        self.room = ProcessRoom(HostedSettings(), started=shared.now)
        super().__init__(
            shared,
            policy=_policy(mode),
            probe_s=PROBE_S,
            versions=VERSIONS,
            make_router=partial(HostedRouter, room=self.room),
        )

    def set_mode(self, mode: Mode) -> None:
        """Change the policy."""
        self._do(self.translator.set_policy(self.now, _policy(mode)))

    def comes(self, connection) -> ErrorCode | None:
        """A client joins without a member id: the error that it is answered with; None if it has to wait."""
        request = self.join(connection, "")
        if any(call.api_key == ApiKey.DESCRIBE_GROUPS for call in self.calls):
            self.describe()
        else:
            self.advance(0.6)
        answer = self.answers.get(request)
        return None if answer is None else ErrorCode(answer.error_code)

    def let_in(self, connection):
        """A client joins and becomes a member of the group that this replica hosts."""
        request = self.join(connection, "")
        self.describe()
        self.advance(3.1)
        assert self.answers[request].error_code == ErrorCode.NONE
        return self.answers[request]

    def beats(self, connection, joined) -> ErrorCode:
        """A member's Heartbeat."""
        request = self.heartbeat(connection, joined.member_id, joined.generation_id)
        return ErrorCode(self.answers[request].error_code)


@pytest.fixture
def log():
    return SharedLog()


@pytest.fixture
def two(log):
    """Two replicas that host the group by their policy."""
    return log.start(HostReplica(log)), log.start(HostReplica(log))


def _host(replica: HostReplica, connection):
    """Make a replica the host; return its first member."""
    assert replica.comes(connection) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    replica.advance(HANDOVER_S)
    return replica.let_in(connection)


def test_who_is_asked_first_is_the_host_and_the_other_says_so(two):
    first, second = two
    connection = first.connect()
    joined = _host(first, connection)
    elsewhere = second.connect()
    assert second.comes(elsewhere) is ErrorCode.NOT_COORDINATOR
    assert second.beats(elsewhere, joined) is ErrorCode.NOT_COORDINATOR
    assert first.beats(connection, joined) is ErrorCode.NONE
    assert second.forwarded == []


def test_nobody_is_let_in_before_all_others_must_have_read_who_is_the_host(two):
    first, _ = two
    connection = first.connect()
    assert first.comes(connection) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    first.advance(HANDOVER_S - 2.0)
    assert first.comes(connection) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert first.calls == [], "the broker is not asked for its members before either"


def test_a_replica_without_the_policy_lets_nobody_join_at_the_broker_while_another_is_the_host(log):
    first, second = log.start(HostReplica(log)), log.start(HostReplica(log, Mode.OBSERVE))
    _host(first, first.connect())
    assert second.translator.has_routed_group(second.now, GROUP), "so that its sessions hand over what joins"
    assert second.comes(second.connect()) is ErrorCode.NOT_COORDINATOR
    assert second.forwarded == []


def test_a_replica_that_has_not_read_the_log_lately_lets_nobody_join_at_the_broker(log):
    replica = log.start(HostReplica(log, Mode.OBSERVE))
    log.is_held = True
    replica.advance(LEASE_S + PROBE_S)
    assert replica.comes(replica.connect()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert replica.forwarded == []


def test_a_host_that_has_not_read_the_log_lately_serves_nobody_and_goes_on_where_it_was(two):
    first, _ = two
    connection = first.connect()
    joined = _host(first, connection)
    first.shared.is_held = True
    first.advance(LEASE_S + PROBE_S)
    assert first.beats(connection, joined) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    first.advance(2 * SESSION_S)
    first.shared.come_back()
    assert first.beats(connection, joined) is ErrorCode.NONE, "its session has begun anew"


def test_a_host_that_has_died_is_followed_and_its_members_sessions_are_waited_for(log, two):
    first, second = two
    _host(first, first.connect())
    log.replicas.remove(first)
    second.advance(GONE_S + 2 * PROBE_S)
    connection = second.connect()
    assert second.comes(connection) is ErrorCode.NOT_COORDINATOR
    second.advance(HANDOVER_S)
    request = second.join(connection, "")
    second.describe()
    second.advance(SESSION_S - 5.0)
    assert request not in second.answers
    second.advance(6.0)
    assert second.answers[request].error_code == ErrorCode.NONE


@pytest.mark.parametrize("call", CALLS)
def test_whom_the_broker_does_not_let_in_makes_nobody_follow_a_host_that_has_died(log, two, call):
    first, second = two
    joined = _host(first, first.connect())
    log.replicas.remove(first)
    second.advance(GONE_S + 2 * PROBE_S)
    second._lets_in = False
    written, used = len(_hosts(log)), dict(second.translator._context.router.hosting.used_at)
    request = CALLS[call](second, second.connect(), joined)
    assert request not in second.answers
    second.reply(REFUSED)
    assert "GROUP_AUTHORIZATION_FAILED" in str(codes(second.answers[request]))
    second.advance(1.0)
    assert len(_hosts(log)) == written
    assert second.translator._context.router.hosting.used_at == used
    again = CALLS[call](second, second.connect(), joined)
    second.reply(ACCEPTED)
    assert "NOT_COORDINATOR" in str(codes(second.answers[again]))
    second.advance(1.0)
    assert len(_hosts(log)) == written + 1, "whoever may act there does"


def test_whom_the_broker_does_not_let_in_does_not_use_the_group_of_a_host(two):
    first, _ = two
    connection = first.connect()
    joined = _host(first, connection)
    first.leave(connection, joined.member_id)
    first._lets_in = False
    used = dict(first.translator._context.router.hosting.used_at)
    first.advance(1.0)
    first.join(first.connect(), "")
    first.reply(REFUSED)
    assert first.translator._context.router.hosting.used_at == used


def _hosts(log):
    """The records of hosts that were written."""
    return [record for _, _, record in log.records if isinstance(record, GroupRecord) and record.host]


def test_a_host_that_stood_still_and_was_followed_serves_nobody(log, two):
    first, second = two
    connection = first.connect()
    joined = _host(first, connection)
    log.replicas.remove(first)
    second.advance(GONE_S + 2 * PROBE_S)
    second.comes(second.connect())
    second.advance(HANDOVER_S)
    first.now = log.now
    assert first.beats(connection, joined) is ErrorCode.COORDINATOR_NOT_AVAILABLE, "it has read nothing yet"
    log.replicas.append(first)
    first.read()
    first.advance(6.0)
    assert first.beats(connection, joined) is ErrorCode.NOT_COORDINATOR
    assert first.room.hosted() == []


def test_a_host_without_members_gives_the_group_up_and_another_may_have_it(two):
    first, second = two
    connection = first.connect()
    joined = _host(first, connection)
    first.leave(connection, joined.member_id)
    first.advance(40.0)
    other = second.connect()
    assert second.comes(other) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    second.advance(HANDOVER_S)
    second.let_in(other)
    assert first.comes(connection) is ErrorCode.NOT_COORDINATOR


def test_back_nobody_joins_at_the_broker_before_the_host_has_said_that_it_is_over(two):
    first, second = two
    connection = first.connect()
    joined = _host(first, connection)
    for replica in two:
        replica.set_mode(Mode.OBSERVE)
    assert second.comes(second.connect()) is ErrorCode.NOT_COORDINATOR
    assert first.beats(connection, joined) is ErrorCode.REBALANCE_IN_PROGRESS
    told = first.join(connection, joined.member_id)
    assert first.answers[told].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    request = first.join(connection, "")
    first.advance(1.0)
    assert request in first.forwarded
    other = second.join(second.connect(), "")
    assert other in second.forwarded


def test_a_replica_hosts_so_many_groups_and_claims_no_more(two, monkeypatch):
    first, _ = two
    monkeypatch.setattr(replicas, "MOST_GROUPS", 0)
    assert first.comes(first.connect()) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert not first.translator.has_routed_group(first.now, GROUP)


def test_the_broker_has_members_so_the_host_lets_nobody_in(two):
    first, _ = two
    connection = first.connect()
    first.comes(connection)
    first.advance(HANDOVER_S)
    request = first.join(connection, "")
    first.describe(WITH_MEMBERS)
    first.advance(0.6)
    first.describe(WITH_MEMBERS)
    assert first.answers[request].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
