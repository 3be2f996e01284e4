"""Puts the brokers into a cluster that runs, and knows how the chart is installed in front of them."""

import shutil
from pathlib import Path

import trustme

from tools.kafka import jars
from tools.kubernetes.kafka import secrets

HERE = Path(__file__).parent
NAMESPACE = "kafka"
IMAGE = f"epochgate-kafka:{jars.DEFAULT_VERSION}"
CONFIG_FILES = ("start.sh", "server.properties", "log4j2.properties", "accounts.py")
PROXY = f"epochgate-kafka.{NAMESPACE}.svc.cluster.local"


def build_folder(folder: Path) -> None:
    """Fill the folder that the image is built from.

    :raises jars.KafkaUnavailableError: there is no Java, Maven, or network.
    """
    shutil.copy(HERE / "Dockerfile", folder)
    shutil.copytree(jars.ensure_jars(), folder / "libs")


def proxy_values() -> Path:
    """Return the values of the chart for these brokers: three replicas, a member log, TLS and SCRAM."""
    return HERE / "proxy-values.yaml"


def tls_secret() -> dict[str, object]:
    """Return a new certificate for the proxy's Service, as a Secret ``epochgate-tls`` with its CA."""
    authority = trustme.CA()
    issued = authority.issue_cert(PROXY)
    chain = b"".join(part.bytes() for part in issued.cert_chain_pems)
    files = {"tls.crt": chain, "tls.key": issued.private_key_pem.bytes(), "ca.crt": authority.cert_pem.bytes()}
    return {**secrets.secret("epochgate-tls", files), "type": "kubernetes.io/tls"}
