"""Brokers that answer anything: each is unknown with a reason, in bounded time, and nothing raises."""

from collections.abc import Callable
from contextlib import suppress

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol_codecs import ApiKey
from protocol_codecs.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
)
from protocol_codecs.messages.metadata import MetadataResponse, MetadataResponseBroker
from proxy.config.schema import Address
from proxy.preflight.ask_brokers import BrokerAddress, ask_apis, believable, find_brokers
from proxy.preflight.facts import Apis, Unknown
from proxy.transport.dialer import Open
from proxy.transport.tcp_stream import open_tcp
from proxy.wire.framing import response_frame, response_of_body
from tests.proxy.fakes import messages
from tests.proxy.fakes.broker import a_cluster

TIMEOUT_S = 10.0
BROKER = BrokerAddress(1, Address("broker", 9092))
GOOD = response_frame(ApiKey.API_VERSIONS, 3, 1, messages.api_versions_response())
METADATA = response_frame(
    ApiKey.METADATA,
    2,
    2,
    MetadataResponse(brokers=(MetadataResponseBroker(node_id=1, host="broker", port=9092),)),
)


class Scripted(trio.abc.Stream):
    """A connection to a broker that answers each request with the next of these, whatever was asked, and closes it."""

    def __init__(self, answers: tuple[bytes, ...]) -> None:
        self._answers = iter(answers)
        self._sent: list[bytes] = []

    async def send_all(self, data) -> None:
        await trio.lowlevel.checkpoint()
        self._sent = [next(self._answers, b"")]

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        return self._sent.pop() if self._sent else b""

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def saying(*answers: bytes) -> Open:
    """Opens such connections."""

    async def open_(_host: str, _port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return Scripted(answers)

    return open_


async def ask(*answers: bytes) -> Apis | Unknown:
    return (await ask_apis([BROKER], saying(*answers), TIMEOUT_S))[1]


async def find(*answers: bytes) -> tuple[BrokerAddress, ...] | Unknown:
    return (await find_brokers([BROKER.address], saying(*answers), TIMEOUT_S)).brokers


async def test_an_honest_broker_is_understood():
    assert isinstance(await ask(GOOD), Apis)
    assert await find(GOOD, METADATA) == (BROKER,)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "closed the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP on a Kafka port"),
        (GOOD[:-1], "closed the connection"),
        (GOOD[:3], "closed the connection"),
        ((0).to_bytes(4), "the frame ends before it"),
        ((-1).to_bytes(4, signed=True), "-1"),
        (response_frame(ApiKey.API_VERSIONS, 3, 7, messages.api_versions_response()), "correlation id 7"),
        (
            response_of_body(ApiKey.API_VERSIONS, 3, 1, b"\0\0" + b"\xff\xff\xff\xff\x0f"),
            "ApiVersionsResponse",
        ),
        (response_of_body(ApiKey.API_VERSIONS, 0, 1, b"\0\0" + b"\x7f\xff\xff\xff"), "ApiVersionsResponse"),
        (response_of_body(ApiKey.API_VERSIONS, 3, 1, b"\x01" * 900_000), "ApiVersionsResponse"),
        (response_of_body(ApiKey.API_VERSIONS, 3, 1, GOOD[8:] + b"\0\0"), "2 bytes are left"),
        (response_frame(ApiKey.API_VERSIONS, 3, 1, ApiVersionsResponse(error_code=-1)), "the error -1"),
    ],
)
async def test_what_is_no_answer_is_unknown_with_a_reason(answer, why):
    told = await ask(answer)
    assert isinstance(told, Unknown)
    assert "broker:9092" in told.why
    assert why in told.why
    assert len(told.why) < 400


async def test_an_answer_of_many_small_elements_is_not_taken():
    many = tuple(ApiVersion(api_key=1, min_version=0, max_version=0) for _ in range(30_000))
    told = await ask(response_frame(ApiKey.API_VERSIONS, 3, 1, ApiVersionsResponse(api_keys=many)))
    assert isinstance(told, Unknown)
    assert "more elements" in told.why


async def test_a_broker_that_sends_a_byte_now_and_then_is_given_up(autojump_clock):
    near, far = trio.testing.memory_stream_pair()

    async def open_(_host: str, _port: int) -> trio.abc.Stream:
        return near

    async def drip() -> None:
        with suppress(trio.BrokenResourceError):
            for byte in GOOD:
                await far.send_all(bytes([byte]))
                await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(drip)
        told = await ask_apis([BROKER], open_, TIMEOUT_S)
        assert trio.current_time() == TIMEOUT_S
        nursery.cancel_scope.cancel()
    assert told[1] == Unknown("broker:9092: no answer within 10 s", told[1].do)


def metadata(*brokers: tuple[int, str, int]) -> bytes:
    named = tuple(
        MetadataResponseBroker(node_id=node_id, host=host, port=port) for node_id, host, port in brokers
    )
    return response_frame(ApiKey.METADATA, 2, 2, MetadataResponse(brokers=named))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (metadata(), "has no brokers"),
        (metadata((1, "a", 1), (2, "b", 2), (1, "c", 3)), "names broker 1 2 times"),
        (metadata((-1, "a", 1)), "broker -1"),
    ],
)
async def test_a_list_that_no_cluster_has_is_unknown(answer, why):
    told = await find(GOOD, answer)
    assert isinstance(told, Unknown)
    assert why in told.why


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "authenticated clients only"),  # what a broker does that wants SASL first
        (METADATA[:-1], "authenticated clients only"),
        (GOOD, "correlation id 1"),
        (response_of_body(ApiKey.METADATA, 2, 2, b""), "MetadataResponse"),
        (response_of_body(ApiKey.METADATA, 2, 2, b"\x7f\xff\xff\xff"), "MetadataResponse"),
    ],
)
async def test_a_list_that_can_not_be_read_is_unknown_and_the_versions_are_kept(answer, why):
    found = await find_brokers([BROKER.address], saying(GOOD, answer), TIMEOUT_S)
    assert isinstance(found.brokers, Unknown)
    assert why in found.brokers.why
    assert list(found.answered) == ["broker:9092"]


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("broker", 0),
        ("broker", -1),
        ("broker", 65_536),
        ("broker", 2**31 - 1),
        ("", 9092),
        ("a b", 9092),
        ("http://broker", 9092),
        ("broker\0", 9092),
        ("broker\r\nhost: x", 9092),
        ("a..b", 9092),
        ("x" * 300, 9092),
        ("x" * 30_000, 9092),
        ("fe80::1%eth0 ; rm", 9092),
    ],
)
async def test_an_address_that_is_none_is_unknown_and_nobody_connects(host, port):
    async def open_(_host: str, _port: int) -> trio.abc.Stream:
        raise AssertionError("somebody connects")

    told = (await ask_apis([BrokerAddress(3, Address(host, port))], open_, TIMEOUT_S))[3]
    assert isinstance(told, Unknown)
    assert "no address" in told.why
    assert "advertised.listeners" in told.do
    assert len(told.why) < 400


async def test_a_broker_with_a_bad_address_does_not_hide_the_others():
    async with a_cluster(1) as brokers:
        known = [
            BrokerAddress(1, Address(*brokers[1].nodes[1])),
            BrokerAddress(2, Address("", 70_000)),
        ]
        assert believable(known) == tuple(known)
        told = await ask_apis(known, open_tcp, TIMEOUT_S)
    assert isinstance(told[1], Apis)
    assert isinstance(told[2], Unknown)


def mutated(frame: bytes) -> st.SearchStrategy[bytes]:
    """A frame cut off, lengthened, or with bytes changed; its size may be right or wrong."""

    def change(drawn: tuple[int, list[tuple[int, int]], bytes, bool]) -> bytes:
        length, changes, more, fits = drawn
        body = bytearray(frame[4:length])
        for at, value in changes:
            if body:
                body[at % len(body)] = value
        body += more
        size = len(body) if fits else int.from_bytes(frame[:4])
        return size.to_bytes(4) + bytes(body)

    byte = st.integers(0, 255)
    changes = st.lists(st.tuples(st.integers(0, len(frame)), byte), max_size=6)
    return st.tuples(st.integers(4, len(frame)), changes, st.binary(max_size=20), st.booleans()).map(change)


def _run(ask_: Callable[[], object]) -> object:
    async def bounded() -> object:
        with trio.fail_after(5):
            return await ask_()

    return trio.run(bounded)


@given(st.one_of(st.binary(max_size=300), mutated(GOOD)))
@settings(max_examples=300, deadline=None)
def test_any_bytes_for_api_versions_are_an_answer_or_unknown(answer):
    told = _run(lambda: ask(answer))
    assert isinstance(told, Apis | Unknown)


@given(st.one_of(st.binary(max_size=300), mutated(METADATA)))
@settings(max_examples=300, deadline=None)
def test_any_bytes_for_metadata_are_brokers_or_unknown(answer):
    told = _run(lambda: find(GOOD, answer))
    assert isinstance(told, tuple | Unknown)
    if isinstance(told, tuple):
        assert told
        assert all(isinstance(one.address.port, int) for one in told)
