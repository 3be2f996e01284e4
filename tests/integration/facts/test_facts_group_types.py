"""What brokers really do when a member joins with the id of a group of another type: see docs/evidence/facts.md."""

import pytest
from kio.schema.errors import ErrorCode
from support import joins, raw
from support.raw_member import RawMember
from support.raw_new_member import LOADING
from support.waiting import eventually

from tests.skips import not_here

pytestmark = pytest.mark.kafka


@pytest.fixture
def left(kafka, group, topic, request):
    """The id of a group of the type that the test names, whose only member has left."""
    if kafka.version < "4.2":
        not_here(f"Kafka {kafka.version} has share and streams groups as a preview only, switched off")
    member = joins.OF_TYPE[request.param](group, topic)
    with raw.to_coordinator(kafka.bootstrap, group) as connection:
        eventually(
            lambda: connection.call(member).error_code,
            lambda code: code != LOADING,
            what="the coordinator has loaded its groups",
        )
        assert connection.call(joins.leaving(member)).error_code == ErrorCode.none
    assert kafka.type_of(group) == request.param
    return group


def told(kafka, join, group, topic):
    with raw.to_coordinator(kafka.bootstrap, group) as connection:
        return connection.call(join(group, topic)).error_code


@pytest.mark.parametrize("left", ["streams"], indirect=True)
def test_a_classic_consumer_deletes_a_streams_group_that_is_empty(kafka, left, topic):
    with RawMember(kafka.bootstrap, left, topic) as stray:
        stray.join()
        assert kafka.type_of(left) == "classic"
        assert told(kafka, joins.streams_heartbeat, left, topic) == ErrorCode.group_id_not_found


@pytest.mark.parametrize("left", ["share", "streams"], indirect=True)
def test_a_native_consumer_may_not_join_a_group_of_another_type_although_it_is_empty(kafka, left, topic):
    assert told(kafka, joins.consumer_group_heartbeat, left, topic) == ErrorCode.group_id_not_found


@pytest.mark.parametrize("left", ["consumer", "streams"], indirect=True)
def test_a_share_consumer_may_not_join_a_group_of_another_type_although_it_is_empty(kafka, left, topic):
    assert told(kafka, joins.share_group_heartbeat, left, topic) == ErrorCode.group_id_not_found


@pytest.mark.parametrize("left", ["share"], indirect=True)
def test_a_classic_consumer_may_not_join_a_share_group_although_it_is_empty(kafka, left, topic):
    assert told(kafka, joins.join_group, left, topic) == ErrorCode.inconsistent_group_protocol
