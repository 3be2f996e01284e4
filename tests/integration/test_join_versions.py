"""JoinGroup and SyncGroup in every version, with every version of the embedded subscription, on the wire by hand."""

import datetime as dt
import importlib
import io
from typing import Any

import pytest
from kio.schema.heartbeat.v0.request import HeartbeatRequest
from kio.serial import entity_reader, entity_writer
from support import raw

NONE, MEMBER_ID_REQUIRED = 0, 79
NEWEST_JOIN, NEWEST_SYNC, NEWEST_EMBEDDED = 9, 5, 3
PARTITIONS = 2
CASES = [(version, version % (NEWEST_EMBEDDED + 1)) for version in range(NEWEST_JOIN + 1)]

pytestmark = pytest.mark.kafka


def schema(api: str, version: int, part: str = "request") -> Any:
    """kio's module of one version."""
    return importlib.import_module(f"kio.schema.{api}.v{version}.{part}")


def subscription(topic: str, version: int) -> bytes:
    """What a client that holds nothing writes into its JoinGroup."""
    embedded = schema("consumer_protocol_subscription", version, "data").ConsumerProtocolSubscription
    owned = {"owned_partitions": ()} if version else {}
    buffer = io.BytesIO()
    buffer.write(version.to_bytes(2))
    entity_writer(embedded)(buffer, embedded(topics=(topic,), user_data=None, **owned))
    return buffer.getvalue()


def join(connection: raw.RawConnection, version: int, group: str, metadata: bytes) -> Any:
    """JoinGroup, with the id that is given out if there is one; the answer that has a generation."""
    module = schema("join_group", version)
    later = {} if version == 0 else {"rebalance_timeout": dt.timedelta(seconds=30)}
    protocols = (module.JoinGroupRequestProtocol(name="range", metadata=metadata),)

    def ask(member_id: str) -> Any:
        return connection.call(
            module.JoinGroupRequest(
                group_id=group,
                session_timeout=dt.timedelta(seconds=10),
                member_id=member_id,
                protocol_type="consumer",
                protocols=protocols,
                **later,
            )
        )

    answer = ask("")
    assert (answer.error_code == MEMBER_ID_REQUIRED) == (version >= 4)
    return ask(answer.member_id) if version >= 4 else answer


@pytest.mark.parametrize(("version", "embedded"), CASES)
def test_a_client_of_every_version_becomes_a_member_of_the_new_protocol(kafka, entries, version, embedded):
    entry, topic = entries["translate"], kafka.new_topic(partitions=PARTITIONS)
    group = entry.new_group()
    with raw.to_coordinator(entry.bootstrap, group) as connection:
        joined = join(connection, version, group, subscription(topic, embedded))
        assert (joined.error_code, joined.leader, joined.members) == (NONE, "", ())
        assert joined.protocol_name == "range"
        who = {
            "group_id": group,
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
        }
        sync = schema("sync_group", min(version, NEWEST_SYNC))
        synced = connection.call(sync.SyncGroupRequest(**who, assignments=()))
        assert synced.error_code == NONE
        assert int.from_bytes(synced.assignment[:2]) == embedded
        data = schema("consumer_protocol_assignment", embedded, "data").ConsumerProtocolAssignment
        assignment, _ = entity_reader(data)(synced.assignment, 2)
        assert {at.topic: set(at.partitions) for at in assignment.assigned_partitions} == {
            topic: set(range(PARTITIONS))
        }
        assert connection.call(HeartbeatRequest(**who)).error_code == NONE
        (member,) = kafka.describe(group).members
        assert (member.member_type, member.member_id) == ("consumer", joined.member_id)
