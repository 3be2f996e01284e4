"""Elements are counted before anything is made of them: bytes from a peer that put millions of them into a message."""

import tracemalloc

import pytest
from codec_values import CASES, case_id, full
from hypothesis import given
from hypothesis import strategies as st

from protocol_codecs import (
    MalformedMessage,
    TooManyElements,
    decode_bounded,
    decode_prefix,
    encode,
    reference,
)
from protocol_codecs.all_messages import HeartbeatRequest, JoinGroupRequest, OffsetFetchRequest
from protocol_codecs.compiler.runtime import REFERENCE_SLOWNESS
from protocol_codecs.message import Message
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from protocol_codecs.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopic

every_case = pytest.mark.parametrize(("message_type", "version"), CASES, ids=map(case_id, CASES))
ANY = 2**31 - 1


def elements(value: object) -> int:
    """How many elements all arrays in a value have."""
    if isinstance(value, Message):
        return sum(elements(getattr(value, field.name)) for field in value.__schema__.fields)
    return len(value) + sum(map(elements, value)) if isinstance(value, tuple) else 0


def least_bound(message_type: type[Message], version: int, data: bytes, decoder) -> int:
    """The smallest bound with which a decoder takes the message."""
    bound = 0
    while True:
        try:
            decoder(message_type, version, data, 0, bound)
        except TooManyElements:
            bound += 1
        else:
            return bound


@every_case
def test_a_bound_changes_nothing_below_it(message_type: type[Message], version: int):
    data = encode(full(message_type, version), version)
    assert decode_bounded(message_type, version, data, 0, ANY) == decode_prefix(message_type, version, data)
    assert decode_bounded(message_type, version, data, 0, len(data)) == decode_prefix(
        message_type, version, data
    )


@every_case
def test_compiled_code_and_reference_count_alike(message_type: type[Message], version: int):
    message = full(message_type, version)
    data = encode(message, version)
    count = least_bound(message_type, version, data, reference.decode_prefix)
    assert count >= elements(decode_prefix(message_type, version, data)[0]), "tagged fields come on top"
    if count > len(data) // REFERENCE_SLOWNESS:  # else the bound is not needed
        assert (
            decode_bounded(message_type, version, data, 0, count)[0]
            == decode_prefix(message_type, version, data)[0]
        )
    if 0 < count - 1 < len(data) * REFERENCE_SLOWNESS and len(data) > (count - 1) // REFERENCE_SLOWNESS:
        with pytest.raises(TooManyElements, match=message_type.__name__):
            decode_bounded(message_type, version, data, 0, count - 1)


@pytest.mark.parametrize("version", [7, 8])
def test_a_huge_count_costs_no_memory(version: int):
    topics = tuple(OffsetFetchRequestTopic(name="a") for _ in range(300_000))
    message = (
        OffsetFetchRequest(group_id="g", topics=topics)
        if version == 7
        else OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=topics),))
    )
    data = encode(message, version)
    with pytest.raises(TooManyElements):
        decode_bounded(OffsetFetchRequest, version, data, 0, 20_000)
    tracemalloc.start()
    try:
        with pytest.raises(TooManyElements):
            decode_bounded(OffsetFetchRequest, version, data, 0, 20_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000


def test_unknown_tagged_fields_count_as_elements():
    data = encode(HeartbeatRequest(group_id="g"), 4)
    assert data.endswith(b"\0")
    tags = b"".join(b"\x07\x00" for _ in range(1000))
    data = data[:-1] + b"\xe8\x07" + tags  # 1000 of them
    assert decode_bounded(HeartbeatRequest, 4, data, 0, 1000)[0].group_id == "g"
    with pytest.raises(TooManyElements):
        decode_bounded(HeartbeatRequest, 4, data, 0, 999)


def test_what_only_the_reference_can_judge_may_have_fewer_elements():
    """It is slower by that factor."""
    topics = tuple(OffsetFetchRequestTopic(name="a") for _ in range(2000))
    data = encode(OffsetFetchRequest(group_id="g", topics=topics), 7)
    cut = data[:-1]
    with pytest.raises(MalformedMessage):
        decode_bounded(OffsetFetchRequest, 7, cut, 0, 2000 * REFERENCE_SLOWNESS + REFERENCE_SLOWNESS)
    with pytest.raises(TooManyElements):
        decode_bounded(OffsetFetchRequest, 7, cut, 0, 2000)


@given(st.binary(max_size=300), st.integers(0, 30))
def test_random_bytes_are_refused_or_read_as_ever(data: bytes, most: int):
    try:
        plain: object = decode_prefix(JoinGroupRequest, 9, data)
    except MalformedMessage as error:
        plain = str(error)
    try:
        bounded: object = decode_bounded(JoinGroupRequest, 9, data, 0, most)
    except TooManyElements:
        return
    except MalformedMessage as error:
        bounded = str(error)
    assert bounded == plain


def test_embedded_messages_are_bounded_too():
    partitions = (ConsumerProtocolTopicPartition(topic="t", partitions=tuple(range(1000))),)
    subscription = ConsumerProtocolSubscription(topics=("t",), owned_partitions=partitions)
    embedded = encode_subscription(subscription, 3)
    assert decode_subscription(embedded, 1002) == (3, subscription)
    with pytest.raises(TooManyElements):
        decode_subscription(embedded, 1001)
    assignment = ConsumerProtocolAssignment(assigned_partitions=partitions)
    assert decode_assignment(encode_assignment(assignment, 1), 1001) == (1, assignment)
    with pytest.raises(TooManyElements):
        decode_assignment(encode_assignment(assignment, 1), 1000)
