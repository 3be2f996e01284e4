"""A first JoinGroup through a real proxy to an embedded coordinator, traced until its answer is there."""

import sys
from typing import Any

import trio

from benchmarks.lib.in_process import serve
from benchmarks.lib.wire import ClassicMember, Line, join_frame_message
from protocol_codecs import ApiKey, decode
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.registry import APIS
from proxy.wire.framing import response_body_offset
from tools.first_join.trace import Tracer

_VERSION = 7
_GROUP = "translated-first-join"
_TOPIC = "way"


def traced() -> Tracer:
    """Trace a client that nobody knows: it is refused for want of a member id, and let in under the id that it got."""
    tracer = Tracer(_GROUP.encode())
    serve(lambda address: _client(address, tracer))
    return tracer


def _client(address: str, tracer: Tracer) -> None:
    # Another group's member first: codecs are compiled at their first use, and topics are looked up once.
    with Line(address) as line:
        warm = ClassicMember(line, "translated-warm-up", _TOPIC)
        warm.join()
        warm.settle()
        warm.leave()
    with Line(address) as line:
        refused = _join(line, "", tracer)
        if refused.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            raise RuntimeError(f"JoinGroup without an id: error {refused.error_code}")
        tracer.begin(refused.member_id.encode())
        joined = _join(line, refused.member_id, tracer)
        if joined.error_code:
            raise RuntimeError(f"JoinGroup: error {joined.error_code}")


def _join(line: Line, member_id: str, tracer: Tracer) -> Any:
    frame = line.frame(ApiKey.JOIN_GROUP, _VERSION, join_frame_message(_GROUP, _TOPIC, member_id, 45_000))
    trio.from_thread.run_sync(sys.settrace, tracer)
    try:
        answer = line.exchange(frame)
    finally:
        trio.from_thread.run_sync(sys.settrace, None)
    offset = response_body_offset(ApiKey.JOIN_GROUP, _VERSION, answer)
    return decode(APIS[ApiKey.JOIN_GROUP].response, _VERSION, answer, offset)
