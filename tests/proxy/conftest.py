"""Fixtures of the proxy's tests; ``fakes`` holds what stands in for clients, brokers and the translation."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
