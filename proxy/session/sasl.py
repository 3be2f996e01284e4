"""Tracks SASL authentication, which passes through to the broker (mechanisms too), and when a request of the proxy
may go in between. Sans-IO; the tokens are never read.

Theory of operation. The client authenticates to the broker through the proxy, which knows no secret. But the proxy
injects requests of its own, and a broker closes a connection on which another request arrives during authentication, or
any request but SaslHandshake after the session's lifetime (KIP-368). So this class answers two questions: may the proxy
inject a request now, and is the client's next frame a request or a token without a header.

- Authentication begins with SaslHandshake. From v1 on tokens travel in SaslAuthenticate. If its response gives the
  session a positive lifetime, authentication is complete. Without a lifetime it is complete at the client's next
  ordinary request, since a client sends none before.
- After SaslHandshake v0, tokens are frames without headers in both directions, and no message marks the end. For PLAIN
  and SCRAM the number of tokens is known. For others (OAUTHBEARER, GSSAPI) the first frame with the header of a request
  is the end: their tokens begin with ``n,`` or with ASN.1 or RFC 4121 tags, none of which is an API key.
- If the first frame of a connection is a GSSAPI token, its client is older than SaslHandshake (Kafka 0.9).
"""

import math
from collections.abc import Callable

from protocol_codecs import ApiKey
from proxy.wire.request_header import HeaderError, read_header
from proxy.wire.supported_versions import NEWEST_REVIEWED

_TOKENS = {"PLAIN": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2}
"""How many tokens a client sends by each mechanism; the broker answers each with one."""

_GSSAPI_TAG = b"\x60"
_SIZE_BYTES = 4
_LARGEST_MARGIN_S = 1.0
_MARGIN = 0.05
"""The last part of a session's lifetime, in which the proxy injects only what a client waits for: it could be late."""

SASL_APIS = frozenset({int(ApiKey.SASL_HANDSHAKE), int(ApiKey.SASL_AUTHENTICATE)})

BEFORE_AUTHENTICATION = SASL_APIS | {int(ApiKey.API_VERSIONS)}
"""The APIs that brokers answer before a client has authenticated."""


class SaslState:
    """See the module. ``clock`` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._done = False
        self._quiet_from = math.inf
        self._ends = math.inf
        self.headerless = False
        """Whether the client's next frame may be a token without a header (SaslHandshake v0)."""
        self._tokens_left: int | None = 0  # None: not known

    # -- what happens --------------------------------------------------------------------------------------

    def begin(self, version: int, mechanism: str) -> None:
        """The client began to authenticate, by SaslHandshake or by a GSSAPI token."""
        self._done = False
        self.headerless = version == 0
        self._tokens_left = _TOKENS.get(mechanism)

    def token(self) -> bool:
        """Count a token of the client; return whether the broker is sure to answer it with one."""
        if self._tokens_left is None:
            return False
        self._tokens_left -= 1
        if self._tokens_left <= 0:
            self.headerless = False
        return True

    def completed(self, lifetime_s: float | None, asked_at: float) -> None:
        """The session has a lifetime, which began at some time between ``asked_at`` and now; None: it has no end."""
        self._done = True
        if lifetime_s is None:
            self._quiet_from = self._ends = math.inf
            return
        self._quiet_from = asked_at + lifetime_s - min(lifetime_s * _MARGIN, _LARGEST_MARGIN_S)
        self._ends = self._clock() + lifetime_s

    def ordinary_request(self) -> None:
        """The client has sent a request that does not belong to authentication, so it is complete."""
        self._done = True
        self.headerless = False

    # -- what follows from it ------------------------------------------------------------------------------

    def may_inject(self, *, awaited: bool) -> bool:
        """Whether a request of the proxy may be sent now.

        A request that a client's request waits for (``awaited``) may be sent as long as the client's could: the client
        decides when it authenticates again, and most do so in the last tenth of the lifetime.
        """
        until = self._ends if awaited else self._quiet_from
        return self._done and (until == math.inf or self._clock() < until)

    @property
    def expired(self) -> bool:
        """Whether the session's lifetime is over, and the client has not begun to authenticate again."""
        return self._done and self._clock() >= self._ends

    @property
    def expects_uncounted_tokens(self) -> bool:
        """Whether the broker may send a token for which no request is in flight."""
        return self.headerless and self._tokens_left is None

    def is_token(self, frame: bytes) -> bool:
        """Whether a frame of the client is a token without a header. Changes nothing."""
        if not self.headerless:
            return False
        return self._tokens_left is not None or not _is_request(frame)


def begins_with_gssapi(first_frame: bytes) -> bool:
    """Whether a connection begins with a token of GSSAPI instead of a request (Kafka 0.9)."""
    return first_frame[_SIZE_BYTES : _SIZE_BYTES + 1] == _GSSAPI_TAG


def _is_request(frame: bytes) -> bool:
    """Whether a frame can be read as a request that a client may send after authentication."""
    try:
        header = read_header(frame)
    except HeaderError:
        return False
    newest = NEWEST_REVIEWED.get(header.api_key)
    return newest is not None and 0 <= header.version <= newest and header.api_key not in SASL_APIS
