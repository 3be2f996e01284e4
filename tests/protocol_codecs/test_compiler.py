"""The printed source, and declarations that cannot be right."""

import pytest

from protocol_codecs import decode, encode
from protocol_codecs.all_messages import HeartbeatRequest
from protocol_codecs.compiler.__main__ import main
from protocol_codecs.compiler.source import wrapped
from protocol_codecs.fields import array, int32, string
from protocol_codecs.message import Message


def test_the_source_of_a_message_is_printed(capsys: pytest.CaptureFixture[str]):
    assert main(["HeartbeatResponse", "1"]) == 0
    printed = capsys.readouterr().out
    assert "def encode(message):" in printed
    assert "return join((pack_ih(message.throttle_time_ms, message.error_code),))" in printed
    assert "throttle_time_ms, error_code = read_ih(buffer, at)" in printed
    assert "return HeartbeatResponse(throttle_time_ms, error_code)" in printed
    compile(printed, "printed", "exec")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "usage: "),
        (["HeartbeatRequest", "newest"], "usage: "),
        (["HeartbeatRequest", "9"], "HeartbeatRequest has versions 0-4"),
        (["Nonsense", "0"], "no message is called Nonsense"),
    ],
)
def test_a_wrong_question_is_answered_with_what_would_be_right(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
):
    assert main(arguments) == 2
    assert complaint in capsys.readouterr().err


def test_long_lines_are_broken_inside_their_brackets():
    assert wrapped("parts += (first, second(a, b), third)", 20) == [
        "parts += (",
        "    first,",
        "    second(a, b),",
        "    third",
        ")",
    ]
    assert wrapped("short(line)", 20) == ["short(line)"]


def test_messages_are_immutable_and_can_be_keys():
    request = HeartbeatRequest(group_id="g")
    with pytest.raises(AttributeError, match="immutable"):
        request.group_id = "other"  # type: ignore[misc]
    assert {request: 1}[HeartbeatRequest(group_id="g")] == 1


class Inner(Message):
    """Part of a message that only this test has."""

    name: str = string()


class Outer(Message, versions="0-1", flexible="1+"):
    """A message that only this test has."""

    inners: tuple[Inner, ...] = array(Inner)
    inner_name: str = string()
    number: int = int32("1+", default=-1)


def test_two_fields_that_would_share_a_variable_are_noticed():
    with pytest.raises(ValueError, match=r"inner_name would be Outer\.inner_name and .*Inner"):
        encode(Outer(), 1)


class Other(Message, versions="0-1", flexible="1+"):
    """A message that only this test has."""

    inners: tuple[Inner, ...] = array(Inner)
    number: int = int32("1+", default=-1)


def test_a_new_declaration_needs_nothing_else():
    message = Other(inners=(Inner(name="a"), Inner(name="b")), number=3)
    assert encode(message, 1) == b"\x03" + b"\x02a\x00" + b"\x02b\x00" + b"\0\0\0\x03" + b"\x00"
    assert decode(Other, 1, encode(message, 1)) == message
