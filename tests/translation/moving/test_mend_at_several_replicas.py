"""Of several replicas one mends a group: whose record in the member log counts, and when the next may try."""

import pytest
from msgspec.structs import replace

from protocol_codecs import ApiKey
from protocol_codecs.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from tests.translation.bench import GROUP
from tests.translation.live_groups import A, B
from tests.translation.member_log.bench import Replica, SharedLog
from tests.translation.moving.test_mend import group, member, sizes
from tests.translation.moving.test_mending_classic_groups import WHOEVER_MOVED_IT, WITH_A_GAP
from tests.translation.moving.test_mending_classic_groups import sizes as sizes_of_three
from translation.actions import Call, Connection, EventKind
from translation.member_log.group_log import RENEW_MS
from translation.member_log.group_records import MEND, MOST_MENDS, MOVE, Mend, Move, group_key
from translation.member_log.records import Writer
from translation.mending.suspicion import FIRST_BACKOFF_MS

DESCRIBED = group(member((0,)), member((1,), member_id="epochgate-b"))
"""Each replica has a member, and nobody has partition 2."""


SESSION_MS = 1_800_000
"""So long that nobody has to heartbeat."""


class Site:
    def __init__(self) -> None:
        self.log = SharedLog()
        self.replicas = [self.log.replica(new_group=True) for _ in range(2)]
        self.at: dict[Replica, Connection] = {}
        for replica, (member_id, partition) in zip(
            self.replicas, (("epochgate-a", 0), ("epochgate-b", 1)), strict=True
        ):
            connection = self.at[replica] = replica.connect()
            replica.stable_member(
                connection, (partition,), member_id=member_id, session_timeout_ms=SESSION_MS
            )

    def look(self, *, later_s: float = 30.0) -> None:
        """Every replica looks, and knows how large the topic is."""
        self.log.advance(later_s)
        for replica in self.replicas:
            replica._do(
                replica.translator.handle_description(self.log.now, self.at[replica].id, GROUP, DESCRIBED)
            )
            for call in replica.calls[:]:
                if call.api_key == ApiKey.METADATA:
                    replica.reply(sizes(3), call)

    def keep_alive(self) -> None:
        """The members' clients heartbeat, so that no session ends."""
        for replica, member_id in zip(self.replicas, ("epochgate-a", "epochgate-b"), strict=True):
            replica.heartbeat(self.at[replica], member_id, 1)
            for beat in replica.heartbeats():
                replica.reply(replica.heartbeat_answer(1), beat)

    def suspects(self) -> None:
        self.look()
        self.look()
        self.look()

    @property
    def mending(self) -> list[tuple[Replica, Call]]:
        """Who asks the broker once more before it does something."""
        return [
            (replica, call)
            for replica in self.replicas
            for call in replica.calls
            if call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE
        ]


def finish(replica: Replica, call: Call) -> None:
    """The broker answers all that it is asked to the end: the member without topics joins and leaves."""
    replica.reply(ConsumerGroupDescribeResponse(groups=(DESCRIBED,)), call)
    replica.reply(sizes(3), next(one for one in replica.calls if one.api_key == ApiKey.METADATA))
    for epoch in (1, -1):
        (beat,) = [one for one in replica.heartbeats() if one.message.member_id.startswith("mending-")]
        replica.reply(replica.heartbeat_answer(epoch), beat)


def test_two_replicas_that_write_at_once_do_it_once() -> None:
    site = Site()
    site.look()
    site.look()
    site.log.advance(30.0)
    site.log.is_held = True
    site.look(later_s=0.0)
    assert len(site.log.on_its_way) >= len(site.replicas)
    assert site.mending == []
    site.log.is_held = False
    site.log.settle()
    ((replica, call),) = site.mending
    finish(replica, call)
    site.look()
    assert site.mending == []
    said = [reason for one in site.replicas for reason in one.reasons(EventKind.MENDING)]
    assert said == ["a member without topics joined and leaves, try 1"]


def test_another_replica_tries_next_when_the_first_has_died_but_not_before_its_time() -> None:
    site = Site()
    site.suspects()
    ((dead, _),) = site.mending
    began = site.log.now
    site.log.replicas.remove(dead)
    site.replicas.remove(dead)
    while not site.mending:
        site.look()
    ((other, call),) = site.mending
    assert FIRST_BACKOFF_MS / 1000 <= site.log.now - began <= FIRST_BACKOFF_MS / 1000 + 60
    finish(other, call)
    assert other.reasons(EventKind.MENDING) == ["a member without topics joined and leaves, try 2"]


@pytest.mark.parametrize("tries", range(MOST_MENDS + 1))
def test_a_forged_record_puts_it_off_for_an_hour_at_most(tries: int) -> None:
    site = Site()
    site.suspects()
    ((replica, call),) = site.mending
    began = site.log.now
    ours = replica.log.groups.of_group(GROUP)[MEND].record
    assert ours.mend is not None
    forged = replace(ours, version=len(site.log.records), first=False, mend=replace(ours.mend, tries=tries))
    replica.reply(ConsumerGroupDescribeResponse(), call)
    site.log.records.append((group_key(GROUP, MEND), Writer(b"somebody"), forged))
    while not site.mending:
        site.look()
        site.keep_alive()
        assert site.log.now - began <= 3_600 + 2 * 60
    assert [group.tries for group in said(site)] == [tries % MOST_MENDS + 1] * 2


def said(site: Site) -> list[Mend]:
    """What the record says at each replica."""
    found = [replica.log.groups.of_group(GROUP)[MEND].record.mend for replica in site.replicas]
    return [mend for mend in found if mend is not None]


def test_nothing_is_done_while_the_log_is_away() -> None:
    site = Site()
    site.look()
    site.look()
    site.log.go_away()
    for _ in range(3):
        site.look()
        assert site.mending == []
    for replica in site.replicas:
        assert replica.reasons(EventKind.LEFT_UNOWNED) == ["the member log is away"]
    site.log.come_back()
    site.look()
    assert len(site.mending) == 1


def test_when_a_group_was_mended_last_is_not_written_anew() -> None:
    """It would seem to have been mended just now."""
    site = Site()
    site.suspects()
    replica = site.replicas[0]
    groups = replica.log.groups
    groups.write(GROUP, MOVE, site.log.now, move=Move("1, 50%", number=1))
    site.log.settle()
    before = dict(groups.of_group(GROUP))
    groups.use(GROUP, site.log.now)
    site.log.advance(2 * RENEW_MS / 1000)
    after = groups.of_group(GROUP)
    assert after[MEND] == before[MEND]
    assert after[MOVE].appended_ms > before[MOVE].appended_ms


def test_a_classic_group_is_mended_where_its_leader_is() -> None:
    log = SharedLog()
    replicas = [log.replica(policy=WHOEVER_MOVED_IT) for _ in range(2)]
    connections = [replica.connect() for replica in replicas]
    for replica, connection, member_id in zip(replicas, connections, (A, B), strict=True):
        replica.heartbeat(connection, member_id, 4)
        replica.reply(HeartbeatResponse())
    _, of_the_leader = replicas
    of_the_leader.translator._context.unowned.learn_leader(GROUP, leader=B, member_id=B)

    def look(later_s: float = 30.0) -> list[int]:
        log.advance(later_s)
        for replica, connection in zip(replicas, connections, strict=True):
            replica._do(replica.translator.handle_description(log.now, connection.id, GROUP, WITH_A_GAP))
            for call in replica.calls[:]:
                if call.api_key == ApiKey.METADATA:
                    replica.reply(sizes_of_three(), call)
        return [len(replica.calls) for replica in replicas]

    assert [look(), look(), look()] == [[0, 0], [0, 0], [0, 1]]
    assert all(replica.reasons(EventKind.LEFT_UNOWNED) == [] for replica in replicas)
    log.replicas.remove(of_the_leader)
    while not replicas[0].calls:
        look()
    assert replicas[0].calls[0].api_key == ApiKey.DESCRIBE_GROUPS
