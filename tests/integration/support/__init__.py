"""The test bench: a real broker, real clients as processes, and an independent look at who owned what."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # for `tools`, which is not installed
