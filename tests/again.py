"""The few tests that failed beside others run once more, each alone: `python -m tests.again`, which `make test` calls.

Brokers, browsers and Spark share two cores in a whole run, and now and then one of them is late for a test. Such a test
passes alone, and is named in the last lines so that it gets mended. More failures than a few are no chance, and are not
tried again.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

FAILED = Path(".pytest_cache/v/cache/lastfailed")
AT_MOST = 4


def main(arguments: Sequence[str]) -> int:
    """The exit code of the second run; that of the first, 1, if there is none."""
    failed = list(json.loads(FAILED.read_text())) if FAILED.exists() else []
    if not 0 < len(failed) <= AT_MOST:
        return 1
    print(f"== {len(failed)} failed; once more, without other tests beside", flush=True)
    code = int(
        pytest.main(["-p", "no:xdist", "-p", "no:cacheprovider", "--tb", "short", *arguments, *failed])
    )
    if code == 0:
        print("failed beside other tests and passed alone:", *failed, sep="\n  ")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
