"""Where everything lives: what is built outlives the clone, what runs is below its ``build`` folder."""

import os
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
KUBERNETES = "v1.34.4"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "epochgate" / "kubernetes"
BINARIES = CACHE / KUBERNETES
RUN = ROOT / "build" / "kubernetes" / "run"
KUBECONFIG = RUN / "admin.kubeconfig"


class ClusterError(Exception):
    """Something that a cluster needs is missing or failed; the message says what."""
