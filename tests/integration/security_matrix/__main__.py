"""Prints the security matrix: ``python -m tests.integration.security_matrix [--version 4.4.0 ...] [--write]``."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from support import find_broker

from .callers import CALLERS
from .calls import CALLS
from .matrix import places, play_all, secured_broker

def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", action="append", dest="versions")
    parser.add_argument("--only", default="")
    parser.add_argument("--caller", action="append")
    parser.add_argument("--write", action="store_true")
    a = parser.parse_args()
    for v in a.versions:
        t = time.monotonic()
        calls = [c for c in CALLS if a.only in f"{c.api} {c.title}"]
        callers = [c for c in CALLERS if not a.caller or c.key in a.caller]
        d = "/tmp/matrixdbg"; import shutil; shutil.rmtree(d, ignore_errors=True)
        with  find_broker.own_cluster("security-matrix", version=v, **secured_broker()) as cluster, places(cluster, Path(d)) as ways:
            print("up", time.monotonic()-t, file=sys.stderr)
            cells = play_all(ways, callers, calls)
        print(v, time.monotonic()-t)
        for c in cells:
            print("==" if c.equal else "!!", c.caller.key, "|", c.call.api, c.call.title, "|", c.straight, "|" , "" if c.equal else c.through)
    return 0
sys.exit(main())
