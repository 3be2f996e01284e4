"""What the member ids of all clients look like, straight at the broker: the translation tells native members by it."""

import pytest
from support.clients import ALL, CONFLUENT
from support.native_group import NATIVES
from support.other_clients import OTHERS

from translation.members.member_ids import may_be_translated

pytestmark = pytest.mark.kafka

PARTITIONS = 2


@pytest.mark.parametrize("instance_id", [None, "static"])
@pytest.mark.parametrize("client", NATIVES, ids=str)
def test_the_id_of_a_native_member_is_no_classic_one(client, instance_id, kafka, consumers, group):
    topic = kafka.new_topic(partitions=PARTITIONS)
    member = consumers.start(
        client, kafka.bootstrap, group, topic, group_protocol="consumer", instance_id=instance_id
    )
    member.wait_until(lambda: len(member.owned()) == PARTITIONS, "it has joined")
    (described,) = kafka.describe(group).members
    assert not may_be_translated(described.member_id)


@pytest.mark.parametrize("client", [*ALL, *OTHERS], ids=str)
def test_a_classic_group_gives_ids_that_end_in_a_uuid(client, kafka, consumers, group):
    topic = kafka.new_topic(partitions=PARTITIONS)
    member = consumers.start(client, kafka.bootstrap, group, topic, client.assignors[0])
    member.wait_until(lambda: len(member.owned()) == PARTITIONS, "it has joined")
    (described,) = kafka.describe_classic(group).members
    assert may_be_translated(described.member_id)


@pytest.mark.parametrize("client", ALL, ids=str)
def test_a_classic_member_beside_a_native_one_has_an_id_as_native_ones_have(client, kafka, consumers, group):
    topic = kafka.new_topic(partitions=PARTITIONS)
    native = consumers.start(CONFLUENT, kafka.bootstrap, group, topic, group_protocol="consumer")
    native.wait_until(lambda: len(native.owned()) == PARTITIONS, "the native one has joined")
    classic = consumers.start(client, kafka.bootstrap, group, topic, client.assignors[0], name="classic")
    classic.wait_until(classic.owned, "the classic one has joined")
    ids = {member.client_id: member.member_id for member in kafka.describe(group).members}
    assert not may_be_translated(ids["classic"])
