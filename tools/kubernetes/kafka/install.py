"""Puts the brokers into a cluster that runs, and knows how the chart is installed in front of them."""

import json
import time
from pathlib import Path

import trustme

from tools.image import kafka as image
from tools.kubernetes import cluster
from tools.kubernetes.kafka import secrets
from tools.kubernetes.kubectl import kubectl, succeeds

HERE = Path(__file__).parent
NAMESPACE = "kafka"
CONFIG_FILES = ("start.sh", "server.properties", "log4j2.properties", "accounts.py")
PROXY = f"epochgate-kafka.{NAMESPACE}.svc.cluster.local"
PROXY_VALUES = HERE / "proxy-values.yaml"
"""Values of the chart in front of these brokers: three replicas, a member log, TLS and SCRAM."""
START_S = 300


def up() -> None:
    """Build their image, start three brokers, and wait until the topics and accounts are there.

    Passwords and certificates of an earlier start stay. The project's image has to be in the cluster.

    :raises ClusterError: no cluster is up, or the brokers do not come up in time.
    :raises ImageError: their image can't be built.
    :raises jars.KafkaUnavailableError: there is no Java, Maven or network.
    """
    cluster.import_images([image.build()])
    began = time.monotonic()
    print(f"== starting three brokers in the namespace {NAMESPACE}", flush=True)
    _apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    if not succeeds("get", "secret", f"{secrets.CLUSTER}-cluster-ca-cert", f"--namespace={NAMESPACE}"):
        _apply(secrets.listed(secrets.all_secrets(NAMESPACE)))
    files = {name: (HERE / name).read_text() for name in CONFIG_FILES}
    _apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kafka"}, "data": files})
    kubectl("apply", f"--namespace={NAMESPACE}", f"--filename={HERE}/cluster.yaml")
    waiting = [f"--namespace={NAMESPACE}", f"--timeout={START_S}s"]
    kubectl("rollout", "status", "statefulset/my-cluster-dual-role", *waiting, timeout_s=START_S + 30)
    print(f"   the brokers listen after {time.monotonic() - began:.0f} s", flush=True)
    kubectl("wait", "--for=condition=Complete", "job/accounts", *waiting, timeout_s=START_S + 30)
    print(f"== {kubectl('logs', 'job/accounts', f'--namespace={NAMESPACE}').splitlines()[-1]}", flush=True)
    print(f"== ready in {time.monotonic() - began:.0f} s", flush=True)


def tls_secret() -> dict[str, object]:
    """Return a new certificate for the proxy's Service, as a Secret ``epochgate-tls`` with its CA."""
    authority = trustme.CA()
    issued = authority.issue_cert(PROXY)
    chain = b"".join(part.bytes() for part in issued.cert_chain_pems)
    files = {
        "tls.crt": chain,
        "tls.key": issued.private_key_pem.bytes(),
        "ca.crt": authority.cert_pem.bytes(),
    }
    return {**secrets.secret("epochgate-tls", files), "type": "kubernetes.io/tls"}


def _apply(manifest: dict[str, object]) -> None:
    kubectl("apply", f"--namespace={NAMESPACE}", "--filename=-", feed=json.dumps(manifest))
