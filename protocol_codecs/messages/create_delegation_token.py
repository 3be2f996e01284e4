"""CreateDelegationToken (38): ask for a token that authenticates as its owner (KIP-48).

- v0 is gone from Kafka 4. v2: flexible.
- v3: the owner may be another principal than the one who asks (KIP-373).
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, binary, int16, int32, int64, string
from protocol_codecs.message import Message


class CreatableRenewers(Message):
    """A principal who may renew the token and expire it."""

    principal_type: str = string()
    principal_name: str = string()


class CreateDelegationTokenRequest(
    Message, api_key=ApiKey.CREATE_DELEGATION_TOKEN, versions="1-3", flexible="2+"
):
    """Asks for a token; without an owner it is for the principal who asks. -1: the broker's longest lifetime."""

    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: tuple[CreatableRenewers, ...] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()


class CreateDelegationTokenResponse(
    Message, api_key=ApiKey.CREATE_DELEGATION_TOKEN, versions="1-3", flexible="2+"
):
    """The token: its id is the user name and its HMAC, in base64, the password of SCRAM with ``tokenauth``."""

    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = binary()
    throttle_time_ms: int = int32()
