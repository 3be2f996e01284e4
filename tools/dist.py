"""``python -m tools.dist``: builds sdist and wheel of the tracked files into build/dist (``make dist``).

They are built from a copy, so that untracked files do not get into them, with the setuptools of this environment, and
the wheel from the sdist. Times in the wheel are the commit's: the same commit gives the same wheel.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
OUT = ROOT / "build" / "dist"


def version() -> str:
    """Return the version in pyproject.toml, the only place where the software has it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def build(out: Path) -> list[Path]:
    """Build both into an empty folder, with SHA256SUMS. Returns the sdist and the wheel."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in _git("ls-files", "-z").split("\0"):
            if (ROOT / name).is_file():
                target = Path(folder, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target)
        subprocess.run(
            [
                sys.executable,
                "-m",
                "build",
                "--quiet",
                "--no-isolation",
                "--outdir",
                str(out.absolute()),
                folder,
            ],
            env={**os.environ, "SOURCE_DATE_EPOCH": _git("log", "-1", "--format=%ct").strip()},
            stdout=subprocess.DEVNULL,
            check=True,
        )
    built = sorted(out.iterdir(), key=lambda file: file.suffix)
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in built]
    (out / "SHA256SUMS").write_text("".join(sums))
    return built


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main() -> None:
    """Build, and print the files."""
    parser = argparse.ArgumentParser(prog="python -m tools.dist", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    for file in build(parser.parse_args().out):
        print(f"{file} ({file.stat().st_size // 1024} KiB)")


if __name__ == "__main__":
    main()
