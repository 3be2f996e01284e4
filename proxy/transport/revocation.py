"""Which revocation lists of client certificates count (``client_crl``, RFC 5280), also when a new one can't be used.

OpenSSL looks for a client's certificate in the list of the authority that issued it, and refuses the client if that
authority has no list, or if its list is out of date or not valid yet. So each list is checked before it is used. When
the file is read again, an authority without a usable list keeps the one before, and the other lists are applied.

OpenSSL looks at no list when a client resumes a TLS session. No session outlives a reload: sessions are resumed with
the keys of the context that began them, and each reload makes another context. Until then the same lists count, and
only their age has to be checked: :meth:`RevocationLists.are_current_for`.
"""

import datetime as dt
import re
import ssl
from collections.abc import Sequence
from time import time

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from proxy.transport.tls_errors import TlsFilesError

_PEM = re.compile(rb"-----BEGIN X509 CRL-----.+?-----END X509 CRL-----", re.DOTALL)
_MOST_LISTS = 100
_Authority = tuple[bytes, bytes]
"""Subject and public key: while an authority's key is replaced, two authorities have one subject."""


class _List(msgspec.Struct, frozen=True):
    """``ends``: when it is out of date (seconds since 1970)."""

    pem: bytes
    ends: float


class RevocationLists(msgspec.Struct, frozen=True):
    """The lists in use, by authority. ``refused`` says what of the file is not used and why; empty if all is."""

    by_authority: dict[_Authority, list[_List]]
    refused: str = ""

    @property
    def pem(self) -> bytes:
        """The lists alone: OpenSSL would trust a certificate among them as an authority."""
        return b"\n".join(one.pem for lists in self.by_authority.values() for one in lists)

    @property
    def expires(self) -> float:
        """When the first of them is out of date (seconds since 1970)."""
        return min(one.ends for lists in self.by_authority.values() for one in lists)

    def check_by(self, context: ssl.SSLContext, path: str) -> None:
        """Have OpenSSL check peers' certificates, which are at the end of a chain, by these lists, from ``path``."""
        context.load_verify_locations(path)
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF

    def are_current_for(self, certificate: bytes) -> bool:
        """Whether the lists of the authority that issued this certificate (DER) still count."""
        try:
            issuer = x509.load_der_x509_certificate(certificate).issuer.public_bytes()
        except ValueError:
            return False
        now = time()
        return all(
            now <= one.ends
            for (subject, _), lists in self.by_authority.items()
            if subject == issuer
            for one in lists
        )


class _UnusableError(Exception):
    """A list can't be used; the message says why."""


def read_lists(
    file: str,
    content: bytes,
    authorities: Sequence[bytes],
    *,
    before: RevocationLists | None = None,
    must_be_valid_now: bool = True,
) -> RevocationLists:
    """Read the lists of a PEM file; ``authorities`` are the certificates, in DER, that may have signed them.

    ``before`` are the lists in use, if there are any: then one that can't be used does not stop the others.

    :raises TlsFilesError: a list can't be used or an authority has none; with ``before``: no authority has one.
    """
    found: dict[_Authority, list[_List]] = {}
    wrong: list[str] = []
    known: dict[_Authority, x509.Certificate] = {}
    for der in authorities:
        try:
            certificate = x509.load_der_x509_certificate(der)
            key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
            known[certificate.subject.public_bytes(), key] = certificate
        except (ValueError, UnsupportedAlgorithm):
            wrong.append("an authority in `client_ca` can't be read: its clients would all be refused")
    pems = _PEM.findall(content)[: _MOST_LISTS + 1]
    if not 0 < len(pems) <= _MOST_LISTS:
        wrong.append(f"has no revocation list (CRL) in PEM form, or more than {_MOST_LISTS}")
        pems = []
    for pem in pems:
        try:
            authority, ends = _checked(pem, known, must_be_valid_now=must_be_valid_now)
        except _UnusableError as error:
            wrong.append(str(error))
        else:
            found.setdefault(authority, []).append(_List(pem, ends))
    for authority, certificate in known.items():
        if authority not in found:
            kept = before.by_authority.get(authority) if before is not None else None
            if kept is not None:
                found[authority] = kept
            wrong.append(
                f"has no list of the authority {certificate.subject.rfc4514_string()!r} that can be used: "
                + ("the one before stays" if kept is not None else "its clients would all be refused")
            )
    refused = "; ".join(wrong)
    if (refused and before is None) or not found:
        raise TlsFilesError(f"{file}: {refused or 'nobody in `client_ca` is an authority'}")
    return RevocationLists(found, refused and f"{file}: {refused}")


def _checked(
    pem: bytes, known: dict[_Authority, x509.Certificate], *, must_be_valid_now: bool
) -> tuple[_Authority, float]:
    """Return the authority of a list, and when the list is out of date (seconds since 1970)."""
    try:
        one = x509.load_pem_x509_crl(pem)
        subject, issuer = one.issuer.public_bytes(), one.issuer.rfc4514_string()
        begins, ends = one.last_update_utc, one.next_update_utc
    except (ValueError, UnsupportedAlgorithm):
        raise _UnusableError("has a revocation list that can't be read") from None
    namesakes = [authority for authority in known if authority[0] == subject]
    authority = next((found for found in namesakes if _is_signed_by(one, known[found])), None)
    if authority is None:
        raise _UnusableError(f"the list of {issuer!r} is signed by no authority in `client_ca`")
    if len(namesakes) > 1 and not _has_key_id(one):
        raise _UnusableError(
            f"the list of {issuer!r} has no authority key identifier, and `client_ca` has several authorities of this "
            "name: OpenSSL can't tell whose it is"
        )
    if ends is None:
        raise _UnusableError(f"the list of {issuer!r} does not say until when it counts")
    now = dt.datetime.now(dt.UTC)
    if ends < now and must_be_valid_now:
        raise _UnusableError(f"the list of {issuer!r} is out of date since {ends:%Y-%m-%d %H:%M} UTC")
    if begins > now and must_be_valid_now:
        raise _UnusableError(f"the list of {issuer!r} counts only from {begins:%Y-%m-%d %H:%M} UTC on")
    return authority, ends.timestamp()


def _is_signed_by(one: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    try:
        return one.is_signature_valid(authority.public_key())  # type: ignore[arg-type]  # other kinds raise TypeError
    except (TypeError, ValueError, UnsupportedAlgorithm):
        return False


def _has_key_id(one: x509.CertificateRevocationList) -> bool:
    try:
        return one.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier) is not None
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return False
