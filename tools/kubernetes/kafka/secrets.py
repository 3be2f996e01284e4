"""The Secrets of a cluster as Strimzi makes them: its CA's certificate, and a password for each account."""

import base64
import secrets
from collections.abc import Iterable, Iterator

import trustme
from cryptography.hazmat.primitives import serialization

CLUSTER = "my-cluster"
NODES = tuple(f"{CLUSTER}-dual-role-{number}" for number in range(3))
ACCOUNTS = ("admin", "epochgate", "epochgate-pipeline", "epochgate-test", "payments")
JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def all_secrets(namespace: str) -> list[dict[str, object]]:
    """Return new manifests of the CA, the brokers' certificate and all accounts."""
    authority = trustme.CA()
    return [
        secret(f"{CLUSTER}-cluster-ca-cert", {"ca.crt": authority.cert_pem.bytes()}),
        broker_certificate(authority, namespace),
        *(account(name) for name in ACCOUNTS),
    ]


def broker_certificate(authority: trustme.CA, namespace: str) -> dict[str, object]:
    """Return one certificate for all nodes, with its key as PKCS#8 (what Kafka reads)."""
    issued = authority.issue_cert(*host_names(namespace), common_name=f"{CLUSTER}-kafka")
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = b"".join(part.bytes() for part in issued.cert_chain_pems)
    return secret(f"{CLUSTER}-kafka-brokers", {"tls.crt": chain, "tls.key": key})


def host_names(namespace: str) -> Iterator[str]:
    """Yield the names under which clients and other nodes reach a node."""
    for service in (f"{CLUSTER}-kafka-bootstrap", *(f"{node}.{CLUSTER}-kafka-brokers" for node in NODES)):
        for suffix in ("", f".{namespace}", f".{namespace}.svc", f".{namespace}.svc.cluster.local"):
            yield service + suffix


def account(name: str) -> dict[str, object]:
    """Return the Secret of a KafkaUser with SCRAM-SHA-512."""
    password = secrets.token_urlsafe(24)
    jaas = f'{JAAS} username="{name}" password="{password}";'
    return secret(name, {"password": password.encode(), "sasl.jaas.config": jaas.encode()})


def secret(name: str, data: dict[str, bytes]) -> dict[str, object]:
    """Return the manifest of a Secret."""
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded}


def listed(manifests: Iterable[dict[str, object]]) -> dict[str, object]:
    """Return one List of all manifests, as kubectl takes it."""
    return {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
