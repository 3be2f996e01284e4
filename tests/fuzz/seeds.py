"""Valid inputs to begin with: a fuzzer that starts from nothing spends its time on finding headers."""

import sys
from collections.abc import Iterator
from pathlib import Path

from protocol_codecs import ApiKey, encode, messages
from protocol_codecs.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol_codecs.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.fuzz.targets import DECLARED

sys.path[:0] = [str(Path(__file__).parents[1] / "protocol_codecs"), str(Path(__file__).parents[1] / "proxy")]
from codec_values import full  # noqa: E402 - the tests of that folder are no package

from tests.proxy.fakes import messages as said  # noqa: E402
from tests.proxy.fakes import share, wire  # noqa: E402


def seeds(target: str) -> Iterator[bytes]:
    """Inputs for a target; none for some."""
    if target == "messages":
        for number, (message_type, version) in enumerate(DECLARED):
            yield number.to_bytes(2) + encode(full(message_type, version), version)
    elif target == "addresses":
        for number, (name, newest) in enumerate(
            (("MetadataResponse", 13), ("FindCoordinatorResponse", 6), ("DescribeClusterResponse", 2))
        ):
            message_type = getattr(messages, name)
            for version in message_type.__schema__.versions:
                if version <= newest:
                    yield bytes((number, version)) + encode(full(message_type, version), version)
    elif target == "node_endpoints":
        yield from _with_node_endpoints((1, "ProduceResponse", 10, 13), (0, "FetchResponse", 16, 18))
    elif target == "share_node_endpoints":
        yield from _with_node_endpoints(
            (1, "ShareAcknowledgeResponse", 1, 2), (0, "ShareFetchResponse", 1, 2)
        )
    elif target == "connection":
        yield from _conversations()


def _with_node_endpoints(*apis: tuple[int, str, int, int]) -> Iterator[bytes]:
    for odd, name, low, high in apis:
        for version in range(low, high + 1):
            message = full(getattr(messages, name), version)
            yield bytes((odd, version - low, 1, 5, 9, 30)) + bytes(7) + encode(message, version)


def _conversations() -> Iterator[bytes]:
    versions = wire.response(ApiKey.API_VERSIONS, 3, 0, said.api_versions_response())
    asked = (0, said.ask_versions(0)), (1, versions)
    yield _stream(*asked, (0, said.metadata(1)), (0, said.heartbeat(2)), (0, said.produce(3, acks=0)))
    yield _stream(
        *asked, (0, said.produce(1, 1, size=150_000)), (1, wire.response(ApiKey.PRODUCE, 9, 1, bytes(40)))
    )
    shake = wire.request(ApiKey.SASL_HANDSHAKE, 1, 1, SaslHandshakeRequest(mechanism="PLAIN"))
    shaken = wire.response(ApiKey.SASL_HANDSHAKE, 1, 1, SaslHandshakeResponse())
    token = wire.request(ApiKey.SASL_AUTHENTICATE, 2, 2, SaslAuthenticateRequest(auth_bytes=b"t"))
    done = wire.response(ApiKey.SASL_AUTHENTICATE, 2, 2, SaslAuthenticateResponse(session_lifetime_ms=9))
    yield _stream(*asked, (0, shake), (1, shaken), (0, token), (1, done), (0, said.heartbeat(3)))
    bare = wire.request(ApiKey.SASL_HANDSHAKE, 0, 1, SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
    answered = wire.response(ApiKey.SASL_HANDSHAKE, 0, 1, SaslHandshakeResponse())
    yield _stream((0, bare), (1, answered), (0, wire.framed(b"n,,n=a,r=b")), (1, wire.framed(b"r=b,s=c,i=1")))
    yield _share_consumer()
    yield _stream((0, wire.framed(b"\x60token")), (1, wire.framed(b"\x60answer")), (0, said.metadata(1)))


def _share_consumer() -> bytes:
    """A share session is opened, gets records and acknowledges them; the last answer comes in pieces."""
    versions = wire.response(ApiKey.API_VERSIONS, 3, 0, said.api_versions_response(share.VERSIONS))
    return _stream(
        (0, said.ask_versions(0)),
        (1, versions),
        (0, share.fetch(1, 0)),
        (1, share.fetched(1, range(10))),
        (0, share.acknowledge(2, 1, range(10), (share.RENEW,))),
        (1, share.acknowledged(2)),
        (0, share.fetch(3, 2, range(10))),
        (1, share.fetched(3, range(10, 20), size=150_000)),
    )


def _stream(*chunks: tuple[int, bytes]) -> bytes:
    """Chunks as ``targets.fuzz_connection`` takes them; large ones are cut."""
    parts = [
        bytes((side,)) + data[at : at + 60_000] for side, data in chunks for at in range(0, len(data), 60_000)
    ]
    return b"".join(len(part).to_bytes(2) + part for part in parts)
