"""Groups of consumers in pods, and what they say."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.kubernetes.kubectl import kubectl

_MEMBER = Path(__file__).with_name("member.py")


def pod(
    name: str,
    image: str,
    command: list[str],
    environment: dict[str, str] | None = None,
    *,
    scripts: str = "",
) -> dict[str, Any]:
    """A pod that a restricted namespace takes, labelled with its name, with a ConfigMap at /scripts if one is named."""
    container: dict[str, Any] = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "env": [{"name": key, "value": value} for key, value in (environment or {}).items()],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "resources": {"requests": {"cpu": "20m", "memory": "48Mi"}},
    }
    spec: dict[str, Any] = {
        "containers": [container],
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
    }
    if scripts:
        container["volumeMounts"] = [{"name": "scripts", "mountPath": "/scripts", "readOnly": True}]
        spec["volumes"] = [{"name": "scripts", "configMap": {"name": scripts}}]
    labels = {"epochgate-test": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


@dataclass
class Seen:
    """What the members of a group have said so far."""

    rebalances: Counter[str] = field(default_factory=Counter)
    """By member, as its library counts them."""
    assigned: dict[str, set[int]] = field(default_factory=dict)
    """By member, the partitions that it has now."""
    read: Counter[tuple[int, int]] = field(default_factory=Counter)
    """By partition and offset, how often."""

    @property
    def owners(self) -> Counter[int]:
        """By partition, how many members have it."""
        return Counter(number for numbers in self.assigned.values() for number in numbers)


@dataclass(frozen=True)
class Group:
    """So many pods that are one group."""

    namespace: str
    name: str
    members: int
    assignor: str
    topic: str
    bootstrap: str
    image: str

    def start(self) -> None:
        """Make the pods, and wait until they run."""
        script = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self.name},
            "data": {"member.py": _MEMBER.read_text()},
        }
        for manifest in (script, *map(self._pod, self.pods)):
            kubectl("apply", "--namespace", self.namespace, "--filename=-", feed=json.dumps(manifest))
        pods = [f"pod/{name}" for name in self.pods]
        kubectl("wait", "--for=condition=Ready", "--timeout=60s", "--namespace", self.namespace, *pods)

    @property
    def pods(self) -> list[str]:
        """Their names."""
        return [f"{self.name}-{number}" for number in range(self.members)]

    def seen(self) -> Seen:
        """What they have said."""
        seen = Seen()
        for pod in self.pods:
            for said in self._said(pod):
                match said:
                    case {"rebalances": count}:
                        seen.rebalances[pod] = count
                    case {"assigned": numbers}:
                        seen.assigned.setdefault(pod, set()).update(numbers)
                    case {"revoked": numbers} | {"lost": numbers}:
                        seen.assigned.setdefault(pod, set()).difference_update(numbers)
                    case {"read": [partition, offset]}:
                        seen.read[partition, offset] += 1
        return seen

    def _said(self, pod: str) -> Iterator[dict[str, Any]]:
        for line in kubectl("logs", "--namespace", self.namespace, pod).splitlines():
            if line.startswith("{"):  # librdkafka writes too
                yield json.loads(line)

    def _pod(self, name: str) -> dict[str, Any]:
        environment = {
            "BOOTSTRAP": self.bootstrap,
            "GROUP": self.name,
            "ASSIGNOR": self.assignor,
            "TOPIC": self.topic,
        }
        # Not process 1, which nobody in its pod can kill.
        command = [
            "sh",
            "-c",
            "trap 'kill $!' TERM; python /scripts/member.py & wait $!; wait $!; sleep infinity",
        ]
        return pod(name, self.image, command, environment, scripts=self.name)

    def kill(self, pod: str) -> None:
        """Kill a member as a crash does; its pod stays."""
        script = (
            "import os, pathlib, signal\n"
            "for at in pathlib.Path('/proc').glob('[0-9]*/cmdline'):\n"
            "    if at.read_bytes().startswith(b'python\\0/scripts/member.py'):\n"
            "        os.kill(int(at.parent.name), signal.SIGKILL)\n"
        )
        kubectl("exec", "--namespace", self.namespace, pod, "--", "python", "-c", script)
