"""What brokers really do with share sessions and the connections that they were opened on (KIP-932)."""

import pytest
from support.raw import RawConnection
from support.raw_new_member import LOADING
from support.raw_share_member import OPENS, RawShareMember
from support.share import configure_group, skip_without_share_groups
from support.waiting import eventually

pytestmark = pytest.mark.kafka

LOCK_MS = 60_000
"""The most that a broker allows by default: no lock here ends by itself."""


@pytest.fixture
def topic(kafka) -> str:
    """With records in both of its partitions."""
    skip_without_share_groups(kafka.version, preview=False)
    topic = kafka.new_topic(partitions=2)
    kafka.produce(topic, 20)
    return topic


@pytest.fixture
def members(kafka, group, topic):
    """Makes members whose partitions can be fetched."""
    configure_group(kafka, group, LOCK_MS)

    def make(connection: RawConnection) -> RawShareMember:
        member = RawShareMember(kafka, connection, group, topic)
        eventually(
            member.join,
            lambda said: (
                said.error_code != LOADING
                and said.assignment
                and sum(len(one.partitions) for one in said.assignment.topic_partitions) > 0
            ),
            what="the member has partitions",
        )
        return member

    return make


def acquired(member: RawShareMember, partition: int) -> tuple[int, dict[int, list[tuple[int, int, int]]]]:
    """Open a session and fetch until something of a partition is acquired; return the next epoch, and what it was."""
    epoch = OPENS
    found = member.fetch(epoch, [partition])
    while not found:
        epoch += 1
        found = member.fetch(epoch, [partition])
    return epoch + 1, found


def test_a_connection_releases_the_session_that_was_opened_last_on_it(kafka, members):
    with RawConnection(kafka.bootstrap) as heir_at:
        with RawConnection(kafka.bootstrap) as shared:
            first, last = members(shared), members(shared)
            acquired(first, 0)
            acquired(last, 1)
        heir = members(heir_at)
        _, released = acquired(heir, 1)
        assert {count for _, _, count in released[1]} == {2}
        heir_of_first = members(heir_at)
        assert heir_of_first.fetch(OPENS, [0]) == {}, "the session before it was released as well"


def test_a_member_that_opens_its_session_anew_keeps_its_locks(kafka, members):
    with RawConnection(kafka.bootstrap) as connection:
        member = members(connection)
        _, found = acquired(member, 0)
        first, last = found[0][0][0], found[0][-1][1]
        assert member.fetch(OPENS, [0]) == {}, "they were released and acquired once more"
        assert member.accept(1, {0: (first, last)}) == []
