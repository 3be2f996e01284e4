"""Request and response headers, which precede every body.

The header version follows from API key and version: see :func:`protocol_codecs.registry.request_header_version` and
:func:`protocol_codecs.registry.response_header_version`.

- Request header v0 has no client id; only ControlledShutdown v0 ever used it.
- v1: the client id, with an int16 length.
- v2: flexible, but the client id keeps its form, so that a broker can read any ApiVersions request.
- Response header v1: flexible.
"""

from protocol_codecs.fields import int16, int32, string
from protocol_codecs.message import Message


class RequestHeader(Message, versions="0-2", flexible="2+"):
    """Precedes the body of every request."""

    request_api_key: int = int16()
    request_api_version: int = int16()
    correlation_id: int = int32()
    client_id: str | None = string("1+", nullable="1+", legacy_form=True)


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    """Precedes the body of every response."""

    correlation_id: int = int32()
