"""Checks that a certificate is for all server names of a listener (RFC 6125), before clients refuse it."""

from collections.abc import Collection

from cryptography import x509

from proxy.transport.tls_errors import TlsFilesError


def check_names(file: str, content: bytes, names: Collection[str]) -> None:
    """Check the first certificate of a PEM file; ``names`` are in small letters.

    A wildcard counts where all clients accept it: as the whole first label.

    :raises TlsFilesError: it is not for all of the names.
    """
    own = x509.load_pem_x509_certificates(content)[0]
    try:
        alternatives = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        found = alternatives.get_values_for_type(x509.DNSName)
    except (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, ValueError):
        found = []
    covered = {name.lower() for name in found}
    missing = [name for name in names if not covered & {name, f"*.{name.partition('.')[2]}"}]
    if missing:
        more = f" and {len(missing) - 1} more names" if len(missing) > 1 else ""
        wildcard = f"*.{missing[0].partition('.')[2]}"
        raise TlsFilesError(
            f"{file}: the certificate is not for {missing[0]}{more} of the listener (subjectAltName): issue it for "
            f"`{wildcard}` and the bootstrap name, or let `node_ids` name fewer nodes"
        )
