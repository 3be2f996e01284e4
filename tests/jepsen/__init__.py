"""Jepsen-style: many real consumers, two real proxies and a real broker, killed at random, and judged by their logs.

`make jepsen MINUTES=10 SEED=7` runs it (tests/jepsen/arena.py); `python -m tests.jepsen.check DIR` judges the logs of a
run and knows nothing of how they came to be.
"""

import sys
from pathlib import Path

_SUPPORT = Path(__file__).resolve().parents[1] / "integration"
if str(_SUPPORT) not in sys.path:
    sys.path.insert(0, str(_SUPPORT))  # for `support`, which is no package of ours to install
