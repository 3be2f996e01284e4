"""Whatever brokers answer to the proxy's own calls: one exception, never another call's answer, bounded memory."""

import pytest
import trio
import trio.testing

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.api_versions import ApiVersionsResponse
from protocol_codecs.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from proxy.transport.broker_calls import BrokerCalls, ConnectionClosedError, NoAnswerError, WrongRouteError
from proxy.transport.node_table import NodeIdentity
from proxy.transport.tls_errors import TlsError
from proxy.wire.framing import response_frame, response_of_body

MOST_BYTES, MOST_ELEMENTS = 1_000, 10
BROKER = MetadataResponseBroker(node_id=1, host="broker", port=9092)


def metadata(brokers: int = 1, correlation_id: int = 1) -> bytes:
    return response_frame(ApiKey.METADATA, 1, correlation_id, MetadataResponse(brokers=(BROKER,) * brokers))


class Reads(trio.abc.ReceiveStream):
    """What is read from a peer that has closed its side after these."""

    def __init__(self, *reads: bytes) -> None:
        self._left = list(reads)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        return self._left.pop(0) if self._left else b""

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def calls_of(*reads: bytes) -> BrokerCalls:
    """Calls on a connection on which each of these arrives by itself."""
    stream = trio.StapledStream(trio.testing.MemorySendStream(), Reads(*reads))
    return BrokerCalls(stream, "test", MOST_BYTES, MOST_ELEMENTS)


async def ask(calls: BrokerCalls) -> MetadataResponse:
    return await calls.call(ApiKey.METADATA, 1, MetadataRequest(topics=()), MetadataResponse)


async def test_answers_are_read_however_they_are_cut():
    frames = metadata() + metadata(2, correlation_id=2)
    cut = calls_of(frames[:3], frames[3:20], frames[20:-1], frames[-1:])
    assert (await ask(cut)).brokers == (BROKER,)
    assert (await ask(cut)).brokers == (BROKER, BROKER)


HOSTILE = {
    "another request's answer": metadata(correlation_id=7),
    "bytes are left": metadata()[:3] + bytes([metadata()[3] + 1]) + metadata()[4:] + b"\0",
    "elements": metadata(MOST_ELEMENTS + 1),
    "bytes": metadata(60),
    "a negative size": b"\xff\xff\xff\xff" + metadata()[4:],
    "too short for a correlation id": b"\0\0\0\2\0\0",
    "a body that ends early": response_of_body(ApiKey.METADATA, 1, 1, b"\0\0"),
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_what_is_wrong_with_an_answer_is_one_exception(what: str):
    with pytest.raises(NoAnswerError) as caught:
        await ask(calls_of(HOSTILE[what]))
    assert not isinstance(caught.value, ConnectionClosedError)


@pytest.mark.parametrize("read", [b"", metadata()[:-1]], ids=["nothing", "cut short"])
async def test_a_closed_connection_is_known_from_a_wrong_answer(read: bytes):
    with pytest.raises(ConnectionClosedError):
        await ask(calls_of(*filter(None, [read])))


async def test_why_tls_ended_a_connection_is_said_as_tls_says_it():
    """Its own text names what to do; the alert behind it is OpenSSL's."""

    class Refused(Reads):
        async def receive_some(self, max_bytes: int | None = None) -> bytes:
            raise TlsError("certificate", "the peer refuses our certificate") from OSError(1, "ALERT")

    stream = trio.StapledStream(trio.testing.MemorySendStream(), Refused())
    with pytest.raises(ConnectionClosedError, match="the peer refuses our certificate"):
        await ask(BrokerCalls(stream, "test"))


async def test_an_old_broker_answers_api_versions_in_version_0():
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    answer = response_frame(ApiKey.API_VERSIONS, 0, 1, response)
    assert (await calls_of(answer).api_versions("test")).error_code == ErrorCode.UNSUPPORTED_VERSION


MEANT = NodeIdentity("the-cluster", 7)


async def test_a_wrong_route_names_the_broker_and_the_cluster_that_were_meant():
    refused = ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    answer = response_frame(ApiKey.API_VERSIONS, 5, 1, refused)
    with pytest.raises(WrongRouteError, match="not broker 7 of the cluster the-cluster"):
        await calls_of(answer).api_versions("test", MEANT)


async def test_an_older_broker_that_is_to_check_the_route_answers_in_version_0():
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    answer = response_frame(ApiKey.API_VERSIONS, 0, 1, response)
    assert (await calls_of(answer).api_versions("test", MEANT)).error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_api_versions_with_another_error_is_no_answer():
    answer = response_frame(
        ApiKey.API_VERSIONS, 3, 1, ApiVersionsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    )
    with pytest.raises(NoAnswerError):
        await calls_of(answer).api_versions("test")
