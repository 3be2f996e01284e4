"""Jepsen-style test: many real consumers, two proxies and a broker are killed at random; their logs are judged.

`make jepsen MINUTES=10 SEED=7` runs it (tests/jepsen/arena.py); `python -m tests.jepsen.check DIR` judges the logs of a
run and uses nothing else.
"""

import sys
from pathlib import Path

_SUPPORT = Path(__file__).resolve().parents[1] / "integration"
if str(_SUPPORT) not in sys.path:
    sys.path.insert(0, str(_SUPPORT))  # for `support`, which is no package of ours to install
