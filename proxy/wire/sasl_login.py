"""A client's side of SASL PLAIN (RFC 4616) and SCRAM (RFC 5802). Sans-IO.

A login is a generator: it yields a token for the broker and is sent the broker's token.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Generator

Login = Generator[bytes, bytes, None]

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = ("PLAIN", *_HASHES)

_FEWEST_ITERATIONS, _MOST_ITERATIONS = 4_096, 16_384
"""Kafka's own bounds. The broker chooses: with fewer, whoever poses as one could soon guess a password from its proof.
Nothing else runs while the proxy computes them: about 10 ms for the most, once for each salt."""

_MOST_SALTS = 64


class LoginError(Exception):
    """The broker's token is not what the mechanism requires, or does not prove that it knows the password."""


class SaltedPasswords:
    """The salted forms of one password, by salt and iterations. Each takes milliseconds; brokers repeat them.

    Each broker has a salt of its own for a delegation token. The oldest of 64 makes room for another.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes, int], bytes] = {}

    def of(self, name: str, password: str, salt: bytes, iterations: int) -> bytes:
        """Return the salted password (RFC 5802, ``Hi``) by the hash of this name."""
        key = name, salt, iterations
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_SALTS:
                del self._known[next(iter(self._known))]
            known = self._known[key] = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
        return known


def login(
    mechanism: str,
    user: str,
    password: str,
    nonce: str | None = None,
    *,
    by_token: bool = False,
    salted: SaltedPasswords | None = None,
) -> Login:
    """The tokens of one authentication by one of :data:`MECHANISMS`. Tests choose the nonce.

    ``by_token``: user and password are the id and the HMAC of a delegation token, which SCRAM alone takes (KIP-48).
    ``salted`` remembers the salted passwords of this password.

    :raises LoginError: see there.
    """
    if mechanism == "PLAIN":
        return _plain(user, password)
    first = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce or secrets.token_urlsafe(24)}"
    if by_token:
        first += ",tokenauth=true"
    return _scram(_HASHES[mechanism], first, password, salted or SaltedPasswords())


def _plain(user: str, password: str) -> Login:
    yield f"\0{user}\0{password}".encode()


def _scram(name: str, first: str, password: str, salted_passwords: SaltedPasswords) -> Login:
    nonce = first.split(",")[1].removeprefix("r=")
    answer = yield f"n,,{first}".encode()
    given = _attributes(answer)
    both, iterations = given.get("r", ""), _number(given.get("i", ""))
    if not both.startswith(nonce) or not _FEWEST_ITERATIONS <= iterations <= _MOST_ITERATIONS:
        raise LoginError("the broker's first SCRAM message has another nonce or no usable iteration count")
    salt = _bytes(given.get("s", ""))
    if not salt:
        raise LoginError("the broker's first SCRAM message has no salt")
    salted = salted_passwords.of(name, password, salt, iterations)
    unproven = f"c=biws,r={both}"
    signed = f"{first},{answer.decode()},{unproven}".encode()
    key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, key).digest(), signed, name)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    answer = yield f"{unproven},p={base64.b64encode(proof).decode()}".encode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name)
    if not hmac.compare_digest(_bytes(_attributes(answer).get("v", "")), expected):
        raise LoginError("the broker does not prove that it knows the password")


def _attributes(token: bytes) -> dict[str, str]:
    try:
        parts = token.decode().split(",")
    except UnicodeDecodeError:
        raise LoginError("the broker's SCRAM message is no text") from None
    return {name: value for name, _, value in (part.partition("=") for part in parts)}


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise LoginError("the broker's SCRAM message has invalid base64") from None
