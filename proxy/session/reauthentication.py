"""Authenticates an upstream connection again that the proxy has authenticated (KIP-368), between a client's requests.

A broker answers the requests of a connection in order, and closes it for any other request between SaslHandshake and
the end of authentication. So no request of the client begins once this is wanted, and a request that is relayed in
pieces is completed. Then the tokens are exchanged, behind whatever the broker still owes (a long poll prolongs it).
What the translation wants to relay or to call for meanwhile goes out afterwards, and so does a request of which the
broker has nothing yet: it is collected, or waits for memory or for a probe.
"""

from collections.abc import Callable

from protocol_codecs import ApiKey, decode
from protocol_codecs.error_code import error_name
from protocol_codecs.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol_codecs.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from proxy.session.core import SessionCore
from proxy.session.errors import UpstreamError
from proxy.session.injected_requests import InjectedRequests
from proxy.session.session_state import RequestState, UpstreamState
from proxy.wire.framing import response_body_offset
from proxy.wire.sasl_login import Login, LoginError

_VERSION = 1
"""Of both APIs: tokens in SaslAuthenticate, and a lifetime in its answer."""


class Reauthentication:
    """One authentication of one session; see :meth:`proxy.session.session.ClientSession.reauthenticate`.

    ``relay_held`` relays what the translation has let pass meanwhile.
    """

    def __init__(
        self,
        core: SessionCore,
        injected: InjectedRequests,
        mechanism: str,
        tokens: Login,
        relay_held: Callable[[], None],
        on_done: Callable[[float | None, float], None],
    ) -> None:
        self._core = core
        self._injected = injected
        self._mechanism = mechanism
        self._tokens = tokens
        self._relay_held = relay_held
        self._on_done = on_done
        self._wanted_at = self._asked_at = core.listener.clock()
        self.is_under_way = False
        """Whether SaslHandshake was sent."""

    def advance(self) -> None:
        """Begin if no request is half relayed."""
        state = self._core.state
        if (
            self.is_under_way
            or state.request is RequestState.RELAYING
            or state.upstream is not UpstreamState.OPEN
        ):
            return
        self.is_under_way = True
        self._asked_at = self._core.listener.clock()
        self._core.sasl.begin(_VERSION, self._mechanism)
        handshake = SaslHandshakeRequest(mechanism=self._mechanism)
        self._injected.authentication(ApiKey.SASL_HANDSHAKE, _VERSION, handshake, self._agreed)

    def _agreed(self, frame: bytes) -> None:
        self._core.authentication_answers += 1
        offset = response_body_offset(ApiKey.SASL_HANDSHAKE, _VERSION, frame)
        answer = decode(SaslHandshakeResponse, _VERSION, frame, offset)
        if answer.error_code:
            raise _refused(answer.error_code)
        self._send(next(self._tokens))

    def _send(self, token: bytes) -> None:
        request = SaslAuthenticateRequest(auth_bytes=token)
        self._injected.authentication(ApiKey.SASL_AUTHENTICATE, _VERSION, request, self._answered)

    def _answered(self, frame: bytes) -> None:
        self._core.authentication_answers += 1
        offset = response_body_offset(ApiKey.SASL_AUTHENTICATE, _VERSION, frame)
        answer = decode(SaslAuthenticateResponse, _VERSION, frame, offset)
        if answer.error_code:
            raise _refused(answer.error_code)
        try:
            token = self._tokens.send(answer.auth_bytes)
        except StopIteration:
            self._done(answer.session_lifetime_ms / 1000 if answer.session_lifetime_ms > 0 else None)
        except LoginError as error:
            raise UpstreamError("authentication", str(error)) from None
        else:
            self._send(token)

    def _done(self, lifetime_s: float | None) -> None:
        core = self._core
        core.reauthentication = None
        core.sasl.completed(lifetime_s, self._asked_at)
        self._relay_held()
        self._injected.send_next()
        self._on_done(lifetime_s, core.listener.clock() - self._wanted_at)


def _refused(code: int) -> UpstreamError:
    return UpstreamError("authentication", f"the broker refuses to authenticate again: {error_name(code)}")
