"""Which modules mypyc compiles to what they mean."""

import ast

import pytest

from tools.compiled import ROOT, compiles, modules


@pytest.mark.parametrize(
    "source",
    [
        "class Frozen(msgspec.Struct, frozen=True): ...",
        "@dataclass(slots=True)\nclass Slots: ...",
        "try: ...\nexcept* OSError: ...",
        "def clear(part): vars(part).clear()",
    ],
)
def test_a_module_that_would_mean_something_else_stays_plain(source: str) -> None:
    assert not compiles(ast.parse(source))


def test_classes_without_keywords_are_compiled() -> None:
    assert compiles(ast.parse("class Leaf(FrozenLeaf): ...\n@final\nclass Other: ..."))


def test_the_way_of_a_heartbeat_is_compiled() -> None:
    found = modules()
    assert {"translation/translator.py", "proxy/session/session.py", "proxy/wire/frame_splitter.py"} <= set(
        found
    )
    assert all((ROOT / file).is_file() for file in found)
