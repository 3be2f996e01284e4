"""The experiment's calls of Connect workers (private keys) reach no broker through the proxy, whatever anybody says."""

import pytest

from protocol_codecs import ApiKey
from protocol_codecs.connect_group_keys import ConnectApiKey
from proxy.session.errors import ClientError
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.talk import client_sends, negotiated, session

BOTH = pytest.mark.parametrize("allow_unknown_apis", [False, True])


@BOTH
@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("api_key", ConnectApiKey)
def test_they_reach_no_broker_even_one_that_says_it_has_them(api_key, asked, allow_unknown_apis):
    talk = session(allow_unknown_apis=allow_unknown_apis)
    if asked:
        negotiated(talk, {**messages.BROKER_VERSIONS, api_key: (0, 0)})
    header = int(api_key).to_bytes(2, "big") + b"\0\0" + b"\0\0\0\x01" + b"\xff\xff" + b"\0"

    with pytest.raises(ClientError) as caught:
        client_sends(talk, wire.framed(header + b"\x02g\x02m\0\0\0\x01\0"))

    assert caught.value.kind == "not_offered"


@BOTH
def test_other_unknown_calls_pass_where_the_configuration_allows_it(allow_unknown_apis):
    """So the test before this one can fail."""
    talk = session(allow_unknown_apis=allow_unknown_apis)
    unknown = max(ApiKey) + 1_000
    negotiated(talk, {**messages.BROKER_VERSIONS, unknown: (0, 0)})
    frame = wire.framed(unknown.to_bytes(2, "big") + b"\0\0" + b"\0\0\0\x01" + b"\xff\xff" + b"\0")

    if allow_unknown_apis:
        assert client_sends(talk, frame) == frame
    else:
        with pytest.raises(ClientError):
            client_sends(talk, frame)
