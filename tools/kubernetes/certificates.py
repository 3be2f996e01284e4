"""The authority of a cluster, and the certificates and kubeconfigs of those who talk to its API server."""

import datetime as dt
import ipaddress
import json
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID = dt.timedelta(days=30)
_SKEW = dt.timedelta(hours=1)

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class Authority:
    """Writes into one folder: its own certificate as ``ca.crt``, and those that it signs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "epochgate-cluster")])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = folder / "ca.crt"
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def sign(self, file: str, user: str, groups: Sequence[str] = (), names: Sequence[str] = ()) -> None:
        """Write ``file.crt`` and ``file.key``, of a client and server that is this user, under these names."""
        # RSA, as kubeadm's: Java clients of Kubernetes, Spark's among them, read others with a further library only.
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        subject = x509.Name(
            [
                *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
                x509.NameAttribute(NameOID.COMMON_NAME, user),
            ]
        )
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = _builder(subject, self._name, key.public_key()).add_extension(
            x509.ExtendedKeyUsage(usages), critical=False
        )
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general(name) for name in names]), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        self.path(f"{file}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        self._write_key(file, key)

    def key_pair(self, file: str) -> None:
        """Write ``file.key`` and ``file.pub``, with which the tokens of service accounts are signed and checked."""
        key = ec.generate_private_key(ec.SECP256R1())
        self._write_key(file, key)
        self.path(f"{file}.pub").write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )

    def path(self, file: str) -> Path:
        """Return where a file of this authority is."""
        return self.folder / file

    def kubeconfig(self, file: str, server: str, place: Path) -> None:
        """Write a kubeconfig for the user of a certificate that was signed."""
        user = {
            "client-certificate": str(self.path(f"{file}.crt")),
            "client-key": str(self.path(f"{file}.key")),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "epochgate",
                    "cluster": {"server": server, "certificate-authority": str(self.certificate)},
                }
            ],
            "users": [{"name": file, "user": user}],
            "contexts": [{"name": "epochgate", "context": {"cluster": "epochgate", "user": file}}],
            "current-context": "epochgate",
        }
        place.write_text(json.dumps(config, indent=1))

    def _write_key(self, file: str, key: PrivateKey) -> None:
        place = self.path(f"{file}.key")
        place.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        place.chmod(0o600)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _VALID)
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
