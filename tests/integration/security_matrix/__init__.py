"""Who can do what to whom: every group call, by every kind of caller, at members that belong to somebody else.

Each cell is played twice on one broker with StandardAuthorizer: through the proxy at a translated group, and straight
at Kafka at a group of the kind that the call is made for. Both have to come to the same: what the caller is answered,
and what becomes of the members. Where they may not, `differences.py` says why.

    python -m tests.integration.security_matrix --version 4.4.0 --version 4.0.1 [--write]

prints the table of docs/evidence/security-matrix.md, and writes it there.

`callers.py` has who calls, `calls.py` what they call, `members.py` whom it is aimed at, `cell.py` plays and judges one
cell, `matrix.py` starts broker and proxy and plays all, `table.py` writes them down.
"""

import sys
from pathlib import Path

_SUPPORT = Path(__file__).resolve().parents[1]
if str(_SUPPORT) not in sys.path:
    sys.path.append(str(_SUPPORT))  # for `support`, when pytest has not put it there
