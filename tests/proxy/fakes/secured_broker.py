"""A scripted broker that wants SASL, makes delegation tokens, and closes connections of whom it does not know."""

import base64
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
from protocol_codecs.messages.sasl_handshake import SaslHandshakeResponse
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
        self.unknown_for = 0
        """How many authentications by token still fail, as right after creation."""
        self.session_lifetime_ms = 0
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
        scram: ScramServer | None = None
        principal: str | None = None
        async with stream:
            while (request := await reader.frame()) is not None:
                self.requests.append(request)
                self._arrived.set()
                self._arrived = trio.Event()
                header = read_header(request)
                key, version, number = header.api_key, header.version, header.correlation_id
                offset = body_offset(request, header)
                if key == ApiKey.SASL_HANDSHAKE:
                    scram = ScramServer(self.tokens.password_of)
                    answer = wire.response(
                        key, version, number, SaslHandshakeResponse(mechanisms=("SCRAM-SHA-256",))
                    )
                elif key == ApiKey.SASL_AUTHENTICATE:
                    assert scram is not None
                    asked = decode(SaslAuthenticateRequest, version, request, offset)
                    token = scram.answer(asked.auth_bytes)
                    if token is not None and token.startswith(b"v="):
                        principal = self.tokens.made[scram.user][0] if scram.by_token else scram.user
                        self.principals.append(principal)
                    error = ErrorCode.NONE if token is not None else ErrorCode.SASL_AUTHENTICATION_FAILED
                    told = SaslAuthenticateResponse(
                        error_code=error,
                        auth_bytes=token or b"",
                        session_lifetime_ms=self.tokens.session_lifetime_ms,
                    )
                    answer = wire.response(key, version, number, told)
                    if token is None:
                        await stream.send_all(answer)
                        return
                elif principal is None and key not in OPEN_APIS:
                    return
                elif key == ApiKey.CREATE_DELEGATION_TOKEN:
                    asked = decode(CreateDelegationTokenRequest, version, request, offset)
                    answer = wire.response(key, version, number, self._created(asked))
                elif key == ApiKey.EXPIRE_DELEGATION_TOKEN:
                    asked = decode(ExpireDelegationTokenRequest, version, request, offset)
                    self.tokens.expired.append(asked.hmac)
                    self.tokens.made = {
                        one: known for one, known in self.tokens.made.items() if known[1] != asked.hmac
                    }
                    answer = wire.response(key, version, number, ExpireDelegationTokenResponse())
                else:
                    if principal is not None:
                        self.ordinary.append((principal, request))
                    answer = self.answer(request)
                    if answer is None:
                        return
                if self.holds_back is not None:
                    await self.holds_back.wait()
                await stream.send_all(answer)

    def _created(self, asked: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
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
