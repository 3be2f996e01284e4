"""Hours of native and classic members in one group, from a seed: straight at the broker, and through the proxy.

`make natives ROUNDS=300 SEED=7` runs it both ways and compares the outcomes; a few rounds run with the other tests.
"""

import sys
from pathlib import Path

_SUPPORT = Path(__file__).resolve().parents[1] / "integration"
if str(_SUPPORT) not in sys.path:
    sys.path.insert(0, str(_SUPPORT))  # for `support`, which is no package of ours to install
