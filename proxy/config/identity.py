"""The section `identity`: for which clients with certificates the proxy speaks at the brokers, and by what.

Only the keys are checked here; ``proxy.identity.setup`` checks patterns and files.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import replace

from proxy.config.section import Section


class IdentityMode(StrEnum):
    """What brokers learn of the certificate that a client has shown at a listener."""

    NONE = "none"
    DELEGATION_TOKEN = "delegation_token"  # noqa: S105  no secret
    MAPPED = "mapped"


class IdentityAccount(Section, frozen=True, kw_only=True):
    """The account that makes delegation tokens. It authenticates at the brokers of `upstream`, by its TLS settings."""

    mechanism: Annotated[
        Literal["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"],
        Meta(description="SASL mechanism of the account."),
    ] = "SCRAM-SHA-512"
    username: Annotated[
        str,
        Meta(
            min_length=1,
            description="Its name. It needs CREATE_TOKENS on the users that it speaks for, and nothing else.",
        ),
    ]
    password_file: Annotated[
        str,
        Meta(
            min_length=1,
            description="File with its password, relative to this file; read again when it changes.",
        ),
    ]


class Identity(Section, frozen=True, kw_only=True):
    """Clients with certificates, for listeners with `identity: delegation_token` or `mapped`."""

    allow: Annotated[
        tuple[str, ...],
        Meta(
            min_length=1,
            description="Regular expressions (RE2) for whole names of principals (without `User:`) that the proxy "
            "speaks for; another client is refused.",
        ),
    ]
    deny: Annotated[
        tuple[str, ...],
        Meta(
            description="The same for names that it never speaks for: super users and the brokers themselves."
        ),
    ] = ()
    account: Annotated[
        IdentityAccount | None, Meta(description="Needed with `identity: delegation_token`.")
    ] = None
    token_mechanism: Annotated[
        Literal["SCRAM-SHA-256", "SCRAM-SHA-512"],
        Meta(description="SASL mechanism of tokens; the brokers' listener must have it enabled."),
    ] = "SCRAM-SHA-256"  # noqa: S105  no secret
    max_lifetime_ms: Annotated[
        int,
        Meta(
            ge=60_000,
            le=604_800_000,
            description="Milliseconds that a token lives. It is replaced when a fifth of that is left. A withdrawn "
            "right ends no token that exists: this is how long it may still work.",
        ),
    ] = 3_600_000
    principals: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Principals with a token in one process. The idlest one makes room; if all have connections, "
            "another one is refused.",
        ),
    ] = 10_000
    tokens_per_s: Annotated[
        float, Meta(gt=0, le=10_000, description="Tokens that one process asks for in a second.")
    ] = 50.0
    plaintext_upstream: Annotated[
        bool,
        Meta(
            description="Must be `true` if `upstream.tls` is missing or has `verify_hostname: false`: whoever is on "
            "the network between Epochgate and the brokers, or poses as one, can then act as any of these clients, and "
            "learns passwords that are sent by PLAIN."
        ),
    ] = False
    mapped_file: Annotated[
        str | None,
        Meta(
            description="YAML file from names of principals to `{username, password, mechanism}`, needed with "
            "`identity: mapped`; relative to this file, and read again when it changes. `mechanism` is SCRAM-SHA-512 "
            "unless it says SCRAM-SHA-256 or PLAIN."
        ),
    ] = None


def with_absolute_identity(identity: Identity, folder: Path) -> Identity:
    """Resolve the paths, which are relative to the configuration's folder."""
    account, mapped = identity.account, identity.mapped_file
    return replace(
        identity,
        account=account and replace(account, password_file=str(folder / account.password_file)),
        mapped_file=None if mapped is None else str(folder / mapped),
    )
