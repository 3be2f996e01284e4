"""A classic consumer that joins with the id of a share group is told by the broker that this can't be (KIP-932)."""

import uuid

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.share_group_heartbeat.v1.request import ShareGroupHeartbeatRequest
from support import raw
from support.clients import CONFLUENT
from support.raw_member import RawMember
from support.raw_new_member import LOADING
from support.share import skip_without_share_groups
from support.story import Case
from support.waiting import eventually

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.parametrize(
        "case", [Case(mode, CONFLUENT, "range") for mode in ("direct", "translate")], ids=str, scope="module"
    ),
]


@pytest.fixture
def share_group(kafka, entry, case):
    """The id of a share group with a member, and its topic; named so that the proxy's policy translates it."""
    skip_without_share_groups(kafka.version)
    group, topic = entry.new_group(), kafka.new_topic(partitions=2)
    member_id = str(uuid.uuid4())

    def beat(connection: raw.RawConnection, epoch: int) -> int:
        answer = connection.call(
            ShareGroupHeartbeatRequest(
                group_id=group, member_id=member_id, member_epoch=epoch, subscribed_topic_names=(topic,)
            )
        )
        return answer.error_code

    with raw.to_coordinator(kafka.bootstrap, group) as connection:
        code = eventually(
            lambda: beat(connection, 0), lambda code: code != LOADING, what="the coordinator has loaded"
        )
        assert code == ErrorCode.none
        yield group, topic
        assert beat(connection, -1) == ErrorCode.none, "the share group was disturbed"


def test_a_classic_join_is_refused_with_inconsistent_group_protocol(entry, share_group):
    group, topic = share_group
    with RawMember(entry.bootstrap, group, topic) as classic:
        with pytest.raises(AssertionError, match="inconsistent_group_protocol"):
            classic.join()
        assert classic.generation == -1


def test_a_classic_join_is_refused_again_when_it_is_tried_again(entry, share_group):
    """The proxy passes the group through from then on: the broker says it itself."""
    group, topic = share_group
    for _ in range(2):
        with (
            RawMember(entry.bootstrap, group, topic) as classic,
            pytest.raises(AssertionError, match="inconsistent_group_protocol"),
        ):
            classic.join()
