"""Measures the costs of Epochgate, each beside the same work without it: `make bench`."""

import sys
from pathlib import Path

_SUPPORT = Path(__file__).resolve().parents[1] / "tests" / "integration"
if str(_SUPPORT) not in sys.path:
    sys.path.append(str(_SUPPORT))  # for `support`, which is no package of ours to install
