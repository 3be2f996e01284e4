"""Issues certificates for one run of tests or benchmarks: an authority, and certificates by it, as files."""

from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

from tools.kafka.ports import LOOPBACK


class TlsFiles:
    """An authority that issues into a folder; ``ca`` is the file of its certificate."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(str(self.ca))

    def issue(self, name: str, *hosts: str) -> tuple[Path, Path]:
        """Issue a certificate and its key (PKCS#8, as Kafka wants it), for loopback unless ``hosts`` are given."""
        issued = self._authority.issue_cert(*(hosts or (LOOPBACK,)), common_name=name)
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        private = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
        key.write_bytes(
            private.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return certificate, key

    def broker_settings(self, name: str = "broker") -> dict[str, str]:
        """Return the settings of a broker's listener with TLS."""
        certificate, key = self.issue(name)
        store = self._folder / f"{name}-store.pem"
        store.write_bytes(key.read_bytes() + certificate.read_bytes())
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
        }
