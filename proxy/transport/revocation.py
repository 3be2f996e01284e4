"""Lists of revoked client certificates (CRLs, RFC 5280): read from a file, checked, and given to OpenSSL.

OpenSSL looks for a client's certificate in the list of the authority that issued it, and refuses the client if that
authority has no list or its list is out of date. So a file that would refuse everybody is refused itself.

No TLS session outlives a list: sessions are resumed with the keys of the context that began them, and each reload makes
another context. Until then the same list counts, so a resumed session's certificate need not be looked up again.
"""

import datetime as dt
import re
import ssl

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from proxy.transport.tls_errors import TlsFilesError

_PEM = re.compile(rb"-----BEGIN X509 CRL-----.+?-----END X509 CRL-----", re.DOTALL)
_MOST_LISTS = 100


class RevocationLists(msgspec.Struct, frozen=True):
    """The lists of one file. ``expires``: when the first of them is out of date (seconds since 1970)."""

    pem: bytes
    expires: float

    def check_by(self, context: ssl.SSLContext, path: str) -> None:
        """Have OpenSSL check peers' certificates, which are at the end of a chain, by these lists, from ``path``."""
        context.load_verify_locations(path)
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF


def read_lists(
    file: str, content: bytes, authorities: bytes, *, must_be_valid_now: bool = True
) -> RevocationLists:
    """Read the lists of a PEM file; ``authorities`` are the certificates, in PEM form, that may have signed them.

    :raises TlsFilesError: there is none, one is out of date or of none of these authorities, or an authority has none.
    """
    lists = [_parsed(file, pem) for pem in _PEM.findall(content)[: _MOST_LISTS + 1]]
    if not 0 < len(lists) <= _MOST_LISTS:
        raise TlsFilesError(f"{file}: has no revocation list (CRL) in PEM form, or more than {_MOST_LISTS}")
    without = {one.subject.public_bytes(): one for one in x509.load_pem_x509_certificates(authorities)}
    known = dict(without)
    expires = float("inf")
    for one in lists:
        issuer = one.issuer.rfc4514_string()
        authority = known.get(one.issuer.public_bytes())
        if authority is None or not _is_signed_by(one, authority):
            raise TlsFilesError(f"{file}: the list of {issuer!r} is signed by no authority in `client_ca`")
        if one.next_update_utc is None:
            raise TlsFilesError(f"{file}: the list of {issuer!r} does not say until when it counts")
        if one.next_update_utc < dt.datetime.now(dt.UTC) and must_be_valid_now:
            ended = f"{one.next_update_utc:%Y-%m-%d %H:%M}"
            raise TlsFilesError(f"{file}: the list of {issuer!r} is out of date since {ended} UTC")
        expires = min(expires, one.next_update_utc.timestamp())
        without.pop(one.issuer.public_bytes(), None)
    if without:
        name = next(iter(without.values())).subject.rfc4514_string()
        raise TlsFilesError(
            f"{file}: has no list of the authority {name!r}, whose clients would all be refused"
        )
    return RevocationLists(content, expires)


def _parsed(file: str, pem: bytes) -> x509.CertificateRevocationList:
    try:
        parsed = x509.load_pem_x509_crl(pem)
        parsed.issuer.public_bytes()
    except (ValueError, UnsupportedAlgorithm):
        raise TlsFilesError(f"{file}: has a revocation list that can't be read") from None
    return parsed


def _is_signed_by(one: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    try:
        return one.is_signature_valid(authority.public_key())  # type: ignore[arg-type]  # other kinds raise TypeError
    except (TypeError, ValueError, UnsupportedAlgorithm):
        return False
