"""How often translation/ reads an attribute of the whole Context, counted by mypy's types.

`python -m tests.packaging.test_context_reads` prints the counts by attribute.
"""

from collections import Counter
from pathlib import Path

from mypy.build import build
from mypy.find_sources import create_source_list
from mypy.nodes import MemberExpr, NameExpr
from mypy.options import Options
from mypy.types import Instance, get_proper_type

PACKAGE = Path(__file__).resolve().parents[2] / "translation"
CONTEXT = "translation.engine.context.Context"
MOST = 257
"""As it is: fewer is better."""


def reads() -> Counter[str]:
    """How often each attribute of a Context is read, not counting what the class reads of itself."""
    options = Options()
    options.export_types = True
    options.preserve_asts = True
    options.incremental = False
    options.ignore_missing_imports = True  # re2 has no types
    result = build(create_source_list([str(PACKAGE)], options), options)
    assert not result.errors, result.errors
    found: Counter[str] = Counter()
    for read in result.types:
        if isinstance(read, MemberExpr) and not (
            isinstance(read.expr, NameExpr) and read.expr.name == "self"
        ):
            of = get_proper_type(result.types.get(read.expr))
            if isinstance(of, Instance) and of.type.fullname == CONTEXT:
                found[read.name] += 1
    return found


def test_functions_take_the_parts_that_they_use() -> None:
    assert reads().total() <= MOST


if __name__ == "__main__":
    counts = reads()
    print(counts.total(), dict(counts.most_common()))
