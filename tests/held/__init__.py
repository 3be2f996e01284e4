"""A real group held at half of its members: autoscaling, static restarts and coordinator failover, judged from outside.

`make held MINUTES=60 SEED=1` runs it (tests/held/scene.py); `python -m tests.held.check DIR` judges the files of a run
and uses nothing else.
"""

import sys
from pathlib import Path

_SUPPORT = Path(__file__).resolve().parents[1] / "integration"
if str(_SUPPORT) not in sys.path:
    sys.path.insert(0, str(_SUPPORT))  # for `support`, which is no package of ours to install
