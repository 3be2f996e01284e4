"""Compiles the modules of the request path with mypyc, from the same source that runs as plain Python.

``EPOCHGATE_COMPILED=1`` asks for it. mypyc can't compile every module: see :func:`compiles`.
"""

import ast
import os
from pathlib import Path

from setuptools import setup

ROOMS = (
    "translation",
    *(f"proxy/{room}" for room in ("connection", "metrics", "session", "transport", "wire")),
)
ALONE = ("protocol_codecs/codec.py", "protocol_codecs/compiler/runtime.py", "protocol_codecs/varint.py")
"""Folders and modules that a request passes; the rest of the codecs runs once, at a message's first use."""


def modules() -> list[str]:
    """Return the files of the modules that are compiled."""
    found = [file for room in ROOMS for file in sorted(Path(room).rglob("*.py")) if file.name[0] != "_"]
    trees = {str(file): ast.parse(file.read_text(encoding="utf-8")) for file in (*map(Path, ALONE), *found)}
    return [file for file, tree in trees.items() if compiles(tree)]


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


if os.environ.get("EPOCHGATE_COMPILED") == "1":
    from mypyc.build import mypycify

    setup(ext_modules=mypycify(modules(), multi_file=True))
else:
    setup()
