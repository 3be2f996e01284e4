"""A member at rest at a broker that lets nobody else act in its group."""

from typing import Any

from protocol_codecs import ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from tests.translation.bench import Bench
from translation.actions import Connection
from translation.settings import TranslatorSettings

VICTIM = "epochgate-victim"
INSTANCE = "instance-1"
REFUSED = HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
ACCEPTED = HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)


def a_victim(**settings: Any) -> tuple[Bench, Connection]:
    """A static member at rest, served on its own connection, at a broker that lets nobody else act."""
    bench = Bench(settings=TranslatorSettings(**settings))
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id=VICTIM, instance_id=INSTANCE)
    bench._lets_in = False
    bench._new_group = False
    return bench, connection


def heartbeat_succeeds(bench: Bench, connection: Connection) -> None:
    heartbeat = bench.heartbeat(connection, VICTIM, 1, instance_id=INSTANCE)
    bench.beat(1)
    assert bench.error(heartbeat) == ErrorCode.NONE
