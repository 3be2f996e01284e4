"""Who a client's certificate says that it is. OpenSSL has verified the certificate; here its subject is read.

A resumed TLS session has the certificate of the session before it. OpenSSL does not look at its validity again, so that
is done here, at every handshake.
"""

import datetime as dt
from hashlib import sha256

from proxy.identity.der import GENERALIZED_TIME, SEQUENCE, UTC_TIME, DerError, Element, elements, only
from proxy.identity.distinguished_name import UnusableName, rfc2253
from proxy.identity.principal_rules import NoPrincipal, PrincipalRules

_VERSION = 0xA0
_REMEMBERED = 10_000
_SERIAL, _ALGORITHM, _ISSUER, _VALIDITY, _SUBJECT = range(5)


class NoClientPrincipal(Exception):
    """The certificate gives its client no principal; the message says why, and shows nothing of the certificate."""


class CertificatePrincipals:
    """The principals of one listener's clients, by its rules. Remembers the last certificates."""

    def __init__(self, rules: PrincipalRules) -> None:
        self._rules = rules
        self._known: dict[bytes, tuple[str, float]] = {}

    def principal_of(self, certificate: bytes, now: float) -> str:
        """Return the principal's name (``alice`` of ``User:alice``) for a certificate in DER.

        ``now`` is in seconds since 1970.

        :raises NoClientPrincipal: see there.
        """
        digest = sha256(certificate).digest()
        known = self._known.get(digest)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                del self._known[next(iter(self._known))]
            known = self._known[digest] = self._read(certificate)
        name, ends = known
        if now > ends:
            raise NoClientPrincipal("the certificate has expired since the TLS session began")
        return name

    def _read(self, certificate: bytes) -> tuple[str, float]:
        try:
            signed = next(elements(only(certificate, SEQUENCE)))
            fields = list(elements(signed.contents))
            if fields and fields[0].tag == _VERSION:
                del fields[0]
            if len(fields) <= _SUBJECT:
                raise DerError("the certificate has too few fields")
            ends = _not_after(fields[_VALIDITY])
            return self._rules.name_of(rfc2253(fields[_SUBJECT].whole)), ends
        except StopIteration:
            raise NoClientPrincipal("the certificate is empty") from None
        except (DerError, UnusableName, NoPrincipal) as error:
            raise NoClientPrincipal(str(error)) from None


def _not_after(validity: Element) -> float:
    times = list(elements(validity.contents))
    if len(times) != 2 or times[1].tag not in (UTC_TIME, GENERALIZED_TIME):
        raise DerError("the validity is no pair of times")
    form = "%y%m%d%H%M%SZ" if times[1].tag == UTC_TIME else "%Y%m%d%H%M%SZ"
    try:
        moment = dt.datetime.strptime(times[1].contents.decode("ascii"), form).replace(tzinfo=dt.UTC)
    except (UnicodeDecodeError, ValueError):
        raise DerError("the end of the validity is no time") from None
    if times[1].tag == UTC_TIME and moment.year >= 2050:  # RFC 5280, section 4.1.2.5.1
        moment = moment.replace(year=moment.year - 100)
    return moment.timestamp()
