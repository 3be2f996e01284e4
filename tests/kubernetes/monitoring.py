"""The Prometheus of `tools/kubernetes/prometheus`, from this machine."""

import itertools
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.prometheus import Prometheus
from support.waiting import eventually

from tools.kubernetes.kubectl import command, kubectl
from tools.kubernetes.prometheus.install import NAMESPACE, POD

_NUMBERS = itertools.count()


@contextmanager
def forwarded() -> Iterator[Prometheus]:
    """Reach it at a port of this machine's."""
    words = command("port-forward", f"--namespace={NAMESPACE}", f"pod/{POD}", ":9090")
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            found = re.search(r"127\.0\.0\.1:\d+", line)
            assert found, f"kubectl port-forward says {line!r}"
            yield Prometheus(f"http://{found[0]}")
        finally:
            process.terminate()


def targets(prometheus: Prometheus, pool: str, pods: set[str]) -> list[dict[str, Any]]:
    """What Prometheus scrapes by this monitor, once that is these pods and each answers."""

    def look() -> list[dict[str, Any]]:
        _renew_configuration()
        active = prometheus.get("targets", state="active")["activeTargets"]
        return [one for one in active if one["scrapePool"] == pool]

    def all_are_up(found: list[dict[str, Any]]) -> bool:
        up = {one["labels"]["pod"] for one in found if one["health"] == "up"}
        return up == pods and len(found) == len(pods)

    return eventually(look, all_are_up, what=f"{pool} is up", timeout_s=90, between_s=1)


def _renew_configuration() -> None:
    """The kubelet looks at mounted Secrets once a minute, or when their pod changes."""
    annotation = f"epochgate.test/number={next(_NUMBERS)}"
    kubectl("annotate", f"--namespace={NAMESPACE}", "--overwrite", f"pod/{POD}", annotation)
