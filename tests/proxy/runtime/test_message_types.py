"""What a child of the proxy may send: nothing that its types do not name, so that no decoder recurses to skip it."""

from typing import Any

import msgspec
import pytest

from protocol_codecs.foreign import MsgpackDecoder, Undecodable
from proxy.journal import journal_messages
from proxy.member_log import log_messages
from proxy.member_log.log_events import Message
from proxy.proof import journal_messages as proof_messages

NESTED = [[[]]]


@pytest.mark.parametrize(
    ("decoder", "message"),
    [
        (log_messages.REPORTS, [["EndReached", 0, 1]]),
        (journal_messages.ANSWERS, [journal_messages.NotWritten.__name__, "why", False]),
        (proof_messages.ANSWERS, [proof_messages.Unreadable.__name__, "why"]),
    ],
)
def test_a_field_that_nobody_knows_is_refused_and_not_skipped(
    decoder: MsgpackDecoder[Any], message: list[Any]
) -> None:
    decoder.decode(msgspec.msgpack.encode(message))
    last = message[0] if isinstance(message[0], list) else message
    last.append(NESTED)
    with pytest.raises(Undecodable):
        decoder.decode(msgspec.msgpack.encode(message))


def test_every_message_of_the_member_log_s_client_forbids_what_it_does_not_know() -> None:
    assert all(one.__struct_config__.forbid_unknown_fields for one in Message.__subclasses__())
