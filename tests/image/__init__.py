"""The image that people deploy, as a container in front of a Kafka in a container."""

import sys
from pathlib import Path

_SUPPORT = Path(__file__).resolve().parents[1] / "integration"
if str(_SUPPORT) not in sys.path:
    sys.path.insert(0, str(_SUPPORT))  # for `support`, which is no package of ours to install
