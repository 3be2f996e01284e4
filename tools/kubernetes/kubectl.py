"""kubectl, as the cluster's administrator."""

import subprocess
from collections.abc import Sequence

from tools.kubernetes.binaries import binary
from tools.kubernetes.paths import KUBECONFIG, RUN, ClusterError


def command(*words: str) -> Sequence[str]:
    """Return the command line of kubectl on this cluster."""
    return [str(binary("kubectl")), f"--kubeconfig={KUBECONFIG}", f"--cache-dir={RUN}/kubectl-cache", *words]


def kubectl(*words: str, feed: str | None = None, timeout_s: float = 120) -> str:
    """Run it and return what it writes.

    :raises ClusterError: it failed.
    """
    done = subprocess.run(
        command(*words), check=False, capture_output=True, text=True, input=feed, timeout=timeout_s
    )
    if done.returncode:
        raise ClusterError(f"kubectl {' '.join(words)}: {(done.stderr or done.stdout).strip()[-1500:]}")
    return done.stdout


def succeeds(*words: str) -> bool:
    """Tell whether it succeeds."""
    done = subprocess.run(command("--request-timeout=5s", *words), check=False, capture_output=True)
    return done.returncode == 0
