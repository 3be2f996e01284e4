"""``python -m tools.compiled``: builds the compiled form (setup.py) into build/compiled, beside the plain one.

The folder is a copy of the tracked files with the extension modules in their places: what ``python -m`` runs there is
compiled, and the checkout stays plain.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.dist import ROOT, copy_tracked
from tools.recorded import of_code

OUT = ROOT / "build" / "compiled"
_ABOUT = "compiled.json"


def build(out: Path) -> None:
    """Build into an empty folder. Raises CalledProcessError if it can't be compiled."""
    shutil.rmtree(out, ignore_errors=True)
    copy_tracked(out)
    before = _children_s()
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=out,
        env={**os.environ, "EPOCHGATE_COMPILED": "1"},
        check=True,
    )
    seconds = _children_s() - before
    shutil.rmtree(out / "build")
    made = list(out.rglob("*.so"))
    found = {
        "modules": sum(file.parent != out for file in made),
        "cpu_s": round(seconds),
        "bytes": sum(file.stat().st_size for file in made),
    }
    (out / _ABOUT).write_text(json.dumps(of_code(ROOT) | found))


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def about(out: Path) -> dict[str, Any]:
    """Return the commit, modules, bytes, and seconds of processor time of what :func:`build` made."""
    found: dict[str, Any] = json.loads((out / _ABOUT).read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Build, and print what it is."""
    parser = argparse.ArgumentParser(prog="python -m tools.compiled", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    out = parser.parse_args().out.absolute()
    build(out)
    print(out, about(out))


if __name__ == "__main__":
    main()
