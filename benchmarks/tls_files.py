"""Certificates for one run: of a broker, of the proxy, and of the authority that both come from."""

from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

from tools.kafka.cluster import ExtraListener
from tools.kafka.ports import LOOPBACK

LISTENER = "TLS"


class TlsFiles:
    """Issued into a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.ca = folder / "ca.pem"
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self.ca))
        issued = authority.issue_cert(LOOPBACK)
        self.certificate, self.key = folder / "server.pem", folder / "server.key"
        self.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        private = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
        self.key.write_bytes(
            private.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,  # as Kafka wants it
                serialization.NoEncryption(),
            )
        )
        self._store = folder / "store.pem"
        self._store.write_bytes(self.key.read_bytes() + self.certificate.read_bytes())

    def broker_listener(self) -> ExtraListener:
        """A listener of a broker with TLS."""
        store = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self._store)}
        return ExtraListener(LISTENER, "SSL", store)

    def listener(self) -> str:
        """What stands in a listener of the proxy's configuration."""
        return f", tls: {{certificate: {self.certificate}, key: {self.key}}}"

    def upstream(self) -> str:
        """What stands in the upstream part of it."""
        return f", tls: {{ca: {self.ca}}}"
