"""A broker's side of SCRAM-SHA-256, and of delegation tokens: users with passwords, and tokens that it made."""

import base64
import hashlib
import hmac
import secrets

ITERATIONS = 4096


class ScramServer:
    """One authentication. ``password_of`` gives the password of a user, None if it is unknown."""

    def __init__(self, password_of, name: str = "sha256") -> None:
        self._password_of = password_of
        self._name = name
        self._first = b""
        self.user = ""
        self.by_token = False
        self._signed = ""

    def answer(self, token: bytes) -> bytes | None:
        """The next token; None refuses."""
        return self._begin(token) if not self._first else self._end(token)

    def _begin(self, token: bytes) -> bytes | None:
        self._first = token
        parts = dict(part.split("=", 1) for part in token.decode().removeprefix("n,,").split(","))
        self.user, self.by_token = parts["n"], parts.get("tokenauth") == "true"
        password = self._password_of(self.user, by_token=self.by_token)
        if password is None:
            return None
        salt = hashlib.sha256(self.user.encode()).digest()[:12]
        self._salted = hashlib.pbkdf2_hmac(self._name, password.encode(), salt, ITERATIONS)
        self._server_first = (
            f"r={parts['r']}{secrets.token_hex(8)},s={base64.b64encode(salt).decode()},i={ITERATIONS}"
        )
        return self._server_first.encode()

    def _end(self, token: bytes) -> bytes | None:
        unproven, _, proof = token.decode().rpartition(",p=")
        signed = f"{self._first.decode().removeprefix('n,,')},{self._server_first},{unproven}".encode()
        key = hmac.digest(self._salted, b"Client Key", self._name)
        signature = hmac.digest(hashlib.new(self._name, key).digest(), signed, self._name)
        if base64.b64decode(proof) != bytes(a ^ b for a, b in zip(key, signature, strict=True)):
            return None
        server = hmac.digest(hmac.digest(self._salted, b"Server Key", self._name), signed, self._name)
        return b"v=" + base64.b64encode(server)
