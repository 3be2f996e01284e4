"""Run the targets under atheris: ``python -m tests.fuzz --seconds 60 [TARGET ...]``.

Each runs in a process of its own. What it has learned stays in ``build/fuzz/<target>`` for the next run; an input that
breaks something is put into ``tests/fuzz/corpus/<target>/`` and makes the exit code 1.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys

from tests.fuzz import HERE, LEARNED
from tests.fuzz.targets import TARGETS


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("targets", nargs="*")
    asked = parser.parse_args()
    failed = [name for name in asked.targets or TARGETS if not _run(name, asked.seconds)]
    print(f"== found something in: {', '.join(failed)}" if failed else "== nothing found")
    return 1 if failed else 0


def _run(name: str, seconds: int) -> bool:
    """Whether the target stood it."""
    print(f"== fuzzing {name} for {seconds} s", flush=True)
    (LEARNED / name).mkdir(parents=True, exist_ok=True)
    crashes = LEARNED / f"{name}-crashes"
    shutil.rmtree(crashes, ignore_errors=True)
    crashes.mkdir()
    command = [sys.executable, "-m", "tests.fuzz.in_process", name, str(seconds)]
    log = LEARNED / f"{name}.log"
    with log.open("wb") as out:
        code = subprocess.run(command, stdout=out, stderr=out, check=False).returncode
    lines = log.read_text(errors="replace").splitlines()
    print("   " + next((line for line in reversed(lines) if line.startswith(("Done", "#"))), "no report"))
    for crash in crashes.iterdir():
        data = crash.read_bytes()
        kept = HERE / "corpus" / name / hashlib.sha256(data).hexdigest()[:16]
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(data)
        print(f"   kept as {kept.relative_to(HERE.parents[1])}")
    if code:
        print("\n".join(f"   {line}" for line in lines[-40:]))
    return code == 0


if __name__ == "__main__":
    sys.exit(main())
