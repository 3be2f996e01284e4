"""Recorded rules and dashboards beside what Kafka's own tools give, on a real Kafka and a real Prometheus.

`python -m tests.truth --seed 1` draws states: groups of each protocol, members that come through one replica or
another or past them all, replicas that are killed, clients that move, groups that are deleted. After each state has
settled and one round of polling and one scrape are over, each fact of facts.py has to be the truth. Wrong rules
(planted.py) are evaluated beside the right ones, and each has to be found.
"""

import sys
from pathlib import Path

_SUPPORT = Path(__file__).resolve().parents[1] / "integration"
if str(_SUPPORT) not in sys.path:
    sys.path.insert(0, str(_SUPPORT))  # for `support`, which is no package of ours to install
