"""A scripted broker that wants SASL, makes delegation tokens, and closes connections of whom it does not know."""

import base64
import math
import secrets
import time

import trio

from protocol_codecs import ApiKey, ErrorCode, decode
from protocol_codecs.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from protocol_codecs.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from protocol_codecs.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol_codecs.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from proxy.wire.request_header import body_offset, read_header
from tests.proxy.fakes import wire
from tests.proxy.fakes.broker import FakeBroker
from tests.proxy.fakes.scram import ScramServer

OPEN_APIS = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


class Tokens:
    """What the brokers of one cluster know together."""

    def __init__(self) -> None:
        self.users = {"gate": "gate-secret"}
        self.may_speak_for = lambda owner: owner != "CN=admin"
        self.made: dict[str, tuple[str, bytes]] = {}
        """Owner and HMAC by token id."""
        self.renewers: list[str] = []
        self.expired: list[bytes] = []
        self.expired_by: list[str | None] = []
        self.unknown_for = 0
        """How many authentications by token still fail, as right after creation."""
        self.session_lifetime_ms = 0
        self.closed_for: list[int] = []
        """Requests in the middle of an authentication, or after a session's end."""
        self.error = ErrorCode.NONE
        """What every creation is answered instead."""

    def password_of(self, user: str, *, by_token: bool) -> str | None:
        if not by_token:
            return self.users.get(user)
        if self.unknown_for:
            self.unknown_for -= 1
            return None
        known = self.made.get(user)
        return None if known is None else base64.b64encode(known[1]).decode()


class SecuredBroker(FakeBroker):
    """See the module."""

    def __init__(self, node_id: int, nodes: dict, tokens: Tokens) -> None:
        super().__init__(node_id, nodes)
        self.tokens = tokens
        self.principals: list[str] = []
        """Whom each authentication was for."""
        self.ordinary: list[tuple[str, bytes]] = []
        """Requests of those who had authenticated, with their principals."""

    async def serve(self, stream: trio.abc.Stream) -> None:
        self.connections += 1
        reader = wire.FrameReader(stream)
        connection = _Connection(self)
        async with stream:
            while not connection.is_over and (request := await reader.frame()) is not None:
                self.requests.append(request)
                self._arrived.set()
                self._arrived = trio.Event()
                answer = connection.answer(request)
                if answer is None:
                    return
                if self.holds_back is not None:
                    await self.holds_back.wait()
                await stream.send_all(answer)

    def created(self, asked: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
        tokens, owner = self.tokens, asked.owner_principal_name
        assert owner is not None
        if tokens.error or not tokens.may_speak_for(owner):
            code = tokens.error or ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
            return CreateDelegationTokenResponse(error_code=code)
        token_id, hmac = secrets.token_urlsafe(12), secrets.token_bytes(32)
        tokens.made[token_id] = owner, hmac
        tokens.renewers += [f"{one.principal_type}:{one.principal_name}" for one in asked.renewers]
        now = int(time.time() * 1000)
        return CreateDelegationTokenResponse(
            principal_type="User",
            principal_name=owner,
            issue_timestamp_ms=now,
            expiry_timestamp_ms=now + asked.max_lifetime_ms,
            max_timestamp_ms=now + asked.max_lifetime_ms,
            token_id=token_id,
            hmac=hmac,
        )


class _Connection:
    """One connection: who has authenticated on it, and until when."""

    def __init__(self, broker: SecuredBroker) -> None:
        self._broker = broker
        self._tokens = broker.tokens
        self._scram: ScramServer | None = None
        self._principal: str | None = None
        self._is_authenticating = False
        self._ends_at = math.inf
        self.is_over = False

    def answer(self, request: bytes) -> bytes | None:
        header = read_header(request)
        key, version, number = header.api_key, header.version, header.correlation_id
        foreign = self._is_authenticating and key != ApiKey.SASL_AUTHENTICATE
        if foreign or (time.monotonic() > self._ends_at and key not in OPEN_APIS):
            self._tokens.closed_for.append(key)
            return None
        if self._principal is None and key not in OPEN_APIS:
            return None
        if key not in _OWN:
            if self._principal is not None:
                self._broker.ordinary.append((self._principal, request))
            return self._broker.answer(request)
        message_type, handle = _OWN[key]
        message = decode(message_type, version, request, body_offset(request, header))
        return wire.response(key, version, number, handle(self, message))

    def _handshake(self, _message: SaslHandshakeRequest) -> SaslHandshakeResponse:
        self._scram = ScramServer(self._tokens.password_of)
        self._is_authenticating = True
        return SaslHandshakeResponse(mechanisms=("SCRAM-SHA-256",))

    def _authenticate(self, message: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        assert self._scram is not None
        token = self._scram.answer(message.auth_bytes)
        if token is None:
            self.is_over = True
            return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED)
        lifetime_ms = self._tokens.session_lifetime_ms
        if token.startswith(b"v="):
            user = self._scram.user
            self._principal = self._tokens.made[user][0] if self._scram.by_token else user
            self._broker.principals.append(self._principal)
            self._is_authenticating = False
            if lifetime_ms:
                self._ends_at = time.monotonic() + lifetime_ms / 1000
        return SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime_ms)

    def _create(self, message: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
        return self._broker.created(message)

    def _expire(self, message: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
        self._tokens.expired.append(message.hmac)
        self._tokens.expired_by.append(self._principal)
        kept = {one: known for one, known in self._tokens.made.items() if known[1] != message.hmac}
        self._tokens.made = kept
        return ExpireDelegationTokenResponse()


_OWN = {
    ApiKey.SASL_HANDSHAKE: (SaslHandshakeRequest, _Connection._handshake),
    ApiKey.SASL_AUTHENTICATE: (SaslAuthenticateRequest, _Connection._authenticate),
    ApiKey.CREATE_DELEGATION_TOKEN: (CreateDelegationTokenRequest, _Connection._create),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (ExpireDelegationTokenRequest, _Connection._expire),
}
