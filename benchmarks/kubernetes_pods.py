"""Clients in pods: the tests' drivers, followed by ``kubectl logs`` and ended by ``kubectl attach``."""

import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from support import ROOT
from support.ownership import Event, Partition, owned_now

DRIVERS = ROOT / "tests" / "integration" / "drivers"
FILES = ("line_protocol.py", "confluent_driver.py", "producer_driver.py")
CA = "/etc/epochgate-tls/ca.crt"
ACCOUNT = "epochgate-test"
"""May use topics and groups whose names begin with its own (tools/kubernetes/kafka/accounts.py)."""


class Kubectl:
    """Runs kubectl in one namespace."""

    def __init__(self, program: Path, environment: Mapping[str, str], namespace: str) -> None:
        self._command = [str(program), "--namespace", namespace]
        self._environment = dict(environment)

    def __call__(self, *arguments: str, stdin: str | None = None, timeout_s: float = 300.0) -> str:
        """Return what it prints. Raises RuntimeError with its own words if it fails."""
        done = subprocess.run(
            [*self._command, *arguments],
            env=self._environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
        if done.returncode:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, *manifests: Mapping[str, object]) -> None:
        """Create or change all of them."""
        self(
            "apply",
            "--filename",
            "-",
            stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}),
        )

    def follow(self, pod: str) -> "subprocess.Popen[str]":
        """Start to follow a pod's log from its beginning."""
        return subprocess.Popen(
            [*self._command, "logs", "--follow", pod],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )


class PodClient:
    """One client in a pod of its name; ``events`` and ``read`` grow while it runs.

    ``read`` has the (partition, offset) of every record that its polls returned, ``events`` all else that it said.
    """

    def __init__(self, kubectl: Kubectl, name: str) -> None:
        self.name = name
        self.events: list[Event] = []
        self.read: list[tuple[Partition, int]] = []
        self._kubectl = kubectl
        self._following = kubectl.follow(name)
        self._reader = threading.Thread(target=self._read, name=f"read {name}", daemon=True)
        self._reader.start()

    @property
    def ended(self) -> bool:
        """Whether it has closed or failed."""
        return bool(self.events) and self.events[-1].kind in {"closed", "failed"}

    def owned(self) -> frozenset[Partition]:
        """The partitions that it owns now, by its callbacks."""
        return owned_now(self.events)

    def acknowledged(self) -> int:
        """How many records a producer has told of."""
        told = [event for event in self.events if event.kind == "produced"]
        return sum(told[-1].fields["acknowledged"].values()) if told else 0

    def close(self) -> None:
        """Have it close in an orderly way."""
        self._kubectl("attach", "--stdin", "--quiet", self.name, stdin='{"command": "close"}\n')

    def stop_following(self) -> None:
        """End kubectl, whatever becomes of the pod."""
        self._following.kill()
        self._following.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._following.stdout is not None  # noqa: S101  it was asked for
        for line in self._following.stdout:
            if not line.startswith("{"):  # librdkafka's own log
                continue
            event = Event.parse(self.name, line)
            if event.kind == "records":
                at = Partition(event.fields["topic"], event.fields["partition"])
                self.read += [(at, offset) for offset in event.fields["offsets"]]
            else:
                self.events.append(event)


def drivers() -> dict[str, object]:
    """Return the ConfigMap with the drivers."""
    data = {file: (DRIVERS / file).read_text() for file in FILES}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "drivers"}, "data": data}


def own_settings() -> dict[str, object]:
    """Return what librdkafka needs for TLS and SCRAM; the driver's argument has it, with the password from a Secret."""
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": ACCOUNT,
        "sasl.password": "$(PASSWORD)",
        "ssl.ca.location": CA,
    }


def pod(name: str, driver: str, spec: Mapping[str, object], node: str) -> dict[str, object]:
    """Return the manifest of a client on that node. Kubernetes puts the password into its argument."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench-client"}},
        "spec": {
            "restartPolicy": "Never",
            "nodeName": node,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 5,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "client",
                    "image": "epochgate:0.1.0",
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["python", f"/drivers/{driver}", json.dumps(spec)],
                    "stdin": True,
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                    "env": [
                        {
                            "name": "PASSWORD",
                            "valueFrom": {"secretKeyRef": {"name": ACCOUNT, "key": "password"}},
                        }
                    ],
                    "resources": {"requests": {"cpu": "10m", "memory": "40Mi"}},
                    "volumeMounts": [
                        {"name": "drivers", "mountPath": "/drivers"},
                        {"name": "ca", "mountPath": "/etc/epochgate-tls"},
                    ],
                }
            ],
            "volumes": [
                {"name": "drivers", "configMap": {"name": "drivers"}},
                {
                    "name": "ca",
                    "secret": {"secretName": "epochgate-tls", "items": [{"key": "ca.crt", "path": "ca.crt"}]},
                },
            ],
        },
    }


def names(protocol: str, members: int) -> Sequence[str]:
    """Return the names of a group's members."""
    return [f"bench-{protocol}-{number}" for number in range(members)]
