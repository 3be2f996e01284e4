"""What the proxy authenticates with at a broker in a client's place: a delegation token, or a mapped user."""

import base64
import math

import msgspec

from proxy.wire.sasl_login import Login, SaltedPasswords, login


class Credentials(msgspec.Struct, eq=False):
    """Credentials of one principal. Its text shows no secret, and the object is not to be printed otherwise.

    ``made_at`` and ``expires_at`` are in the seconds of the process's clock.
    """

    mechanism: str
    user: str
    password: str
    is_token: bool = False
    made_at: float = -math.inf
    expires_at: float = math.inf
    salted: SaltedPasswords = msgspec.field(default_factory=SaltedPasswords)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} by {self.mechanism}>"

    def login(self) -> Login:
        """The tokens of one authentication."""
        return login(self.mechanism, self.user, self.password, by_token=self.is_token, salted=self.salted)


class Token(Credentials):
    """A delegation token (KIP-48). SCRAM's user is its id, the password its HMAC in base64.

    ``renewer`` is the user that may expire it, beside the owner.
    """

    owner: str = ""
    hmac: bytes = b""
    renewer: str = ""

    @classmethod
    def of(
        cls,
        mechanism: str,
        owner: str,
        token_id: str,
        hmac: bytes,
        made_at: float,
        expires_at: float,
        renewer: str = "",
    ) -> "Token":
        """Return the token of this owner (the name of a principal of type ``User``)."""
        return cls(
            mechanism=mechanism,
            user=token_id,
            password=base64.b64encode(hmac).decode(),
            is_token=True,
            made_at=made_at,
            expires_at=expires_at,
            owner=owner,
            hmac=hmac,
            renewer=renewer,
        )
