"""``python -m tools.compiled``: compiles the request path with mypyc into build/compiled, beside the plain form.

The folder is a copy of the tracked files with the extension modules in their places: what ``python -m`` runs there is
compiled, and the checkout stays plain. docs/evidence/performance.md says what it gains, and why no package has it.
"""

import argparse
import ast
import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.dist import ROOT, copy_tracked
from tools.recorded import of_code

OUT = ROOT / "build" / "compiled"
ROOMS = (
    "translation",
    *(f"proxy/{room}" for room in ("connection", "metrics", "session", "transport", "wire")),
)
ALONE = ("protocol_codecs/codec.py", "protocol_codecs/compiler/runtime.py", "protocol_codecs/varint.py")
"""Folders and modules that a request passes; the rest of the codecs runs once, at a message's first use."""
_SETUP = """
import sys
from mypyc.build import mypycify
from setuptools import setup
setup(
    name="compiled",
    packages=[],
    script_args=["--quiet", "build_ext", "--inplace"],
    ext_modules=mypycify(sys.argv[1:], multi_file=True),
)
"""
_ABOUT = "compiled.json"


def modules() -> list[str]:
    """Return the files of the modules that are compiled."""
    found = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py")) if file.name[0] != "_"]
    return [
        str(file.relative_to(ROOT))
        for file in (*(ROOT / one for one in ALONE), *found)
        if compiles(ast.parse(file.read_text(encoding="utf-8")))
    ]


def compiles(tree: ast.AST) -> bool:
    """Whether mypyc compiles a module to what it means.

    It drops the keywords of a class and of its decorators, so that frozen objects are not (``protocol_codecs.frozen``
    has bases for those), has no ``except*``, and its objects have no ``__dict__`` for ``vars``.
    """
    return not any(
        isinstance(node, ast.TryStar)
        or (isinstance(node, ast.ClassDef) and _has_keywords(node))
        or (isinstance(node, ast.Name) and node.id == "vars")
        for node in ast.walk(tree)
    )


def _has_keywords(made: ast.ClassDef) -> bool:
    return any([made.keywords, *(one.keywords for one in made.decorator_list if isinstance(one, ast.Call))])


def build(out: Path) -> None:
    """Build into an empty folder. Raises CalledProcessError if it can't be compiled."""
    shutil.rmtree(out, ignore_errors=True)
    copy_tracked(out)
    before = _children_s()
    subprocess.run([sys.executable, "-c", _SETUP, *modules()], cwd=out, check=True)
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
