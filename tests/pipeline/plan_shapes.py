"""The shape of a physical plan: its operators without ids, paths and sizes, so that it is the same on every machine.

Rows flow from left to right, and from lines that are indented to the line below them, which joins or unites them.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

Node = dict[str, Any]
"""A node of Spark's event log (``sparkPlanInfo``): ``nodeName``, ``simpleString`` and ``children``."""

DRIVER, SINK, WRITE = "Driver", "Sink", "Write"
"""Where the rows of a query go: what is neither written nor of a stream is collected by the driver."""
NOTHING, ROWS = "LocalTableScan", "Scan ExistingRDD"
"""What a batch of a stream reads that has no new lines, and what a function reads that gets each batch."""

_AROUND = re.compile(
    r"AdaptiveSparkPlan|\w+QueryStage|AQEShuffleRead|WholeStageCodegen.*|InputAdapter|ColumnarToRow|Project|WriteFiles"
)
"""What stands around operators, or moves columns only. How partitions are read together depends on their sizes."""
_KEPT = "InMemoryTableScan"
_WRITES = re.compile(r"Execute InsertInto.*")
_EXCHANGES = (
    (re.compile(r"hashpartitioning\((.*), \d+\)"), "hash"),
    (re.compile(r"rangepartitioning\((.*), \d+\)"), "range"),
)
_TO_ONE = re.compile(r"SinglePartition|RoundRobinPartitioning\(1\)")
_SORTED = re.compile(r"(SortMergeJoin|SortAggregate)\b.*")
_JOIN = re.compile(r"(\w+Join)\b.*\], (Inner|LeftOuter|RightOuter|FullOuter|LeftSemi|LeftAnti)\b")
_OF_PYTHON = re.compile(r"(?:MapInArrow|FlatMapGroupsInPandasWithState) .*?\b([A-Za-z_]\w*)\(")
_COLUMN = re.compile(r"(?P<name>[\w ]+)#\d+(?:L|-T\d+ms)?(?: (?:ASC|DESC) NULLS (?:FIRST|LAST))?")
_COMPUTED = re.compile(r"_groupingexpression|_w\d+")
_WIDTH = 112


class Shape(NamedTuple):
    """An operator with what it reads."""

    operator: str
    inputs: tuple["Shape", ...] = ()

    def operators(self) -> Iterator[str]:
        """Yield all operators, each after what it reads."""
        for one in self.inputs:
            yield from one.operators()
        yield self.operator


class Kept:
    """The plans of what was persisted. Each is told once; whatever reads it names its number."""

    def __init__(self) -> None:
        self._numbers: dict[Shape, int] = {}
        self._told = 0

    def scan(self, plan: Shape) -> Shape:
        """Return the reading of what this plan made."""
        number = self._numbers.setdefault(plan, len(self._numbers) + 1)
        return Shape(f"Scan kept {number}")

    def untold(self) -> list[tuple[int, Shape]]:
        """Return the plans that have come since this was asked last."""
        new = [(number, plan) for plan, number in self._numbers.items() if number > self._told]
        self._told = len(self._numbers)
        return new


def shape_of(plan: Node, kept: Kept) -> Shape:
    """Return the shape of a plan, without the plans of what it reads that was persisted: ``kept`` has those."""
    name, children = plan["nodeName"].strip(), plan["children"]
    if _AROUND.fullmatch(name) and len(children) == 1:
        return shape_of(children[0], kept)
    inputs = tuple(shape_of(child, kept) for child in children)
    if name == _KEPT:
        return kept.scan(inputs[0])
    if name == "ReusedExchange":
        return Shape(f"Reused {inputs[0].operator}")
    if _SORTED.fullmatch(name):  # needs no telling, and the keys may be in any order
        inputs = tuple(one.inputs[0] if one.operator.startswith("Sort(") else one for one in inputs)
    return Shape(_operator(name, plan["simpleString"]), inputs)


def result_of(plan: Node, kept: Kept, *, of_stream: bool = False) -> Shape:
    """Return the shape of a whole query, with where its rows go."""
    found = shape_of(plan, kept)
    if found.operator == WRITE:
        return found
    return Shape(SINK if of_stream and ROWS not in found.operators() else DRIVER, (found,))


def told(shape: Shape, indent: str = "") -> list[str]:
    """Return the lines of a shape. A long chain goes on in lines that begin with ``>``."""
    chain = [shape.operator]
    while len(shape.inputs) == 1:
        (shape,) = shape.inputs
        chain.append(shape.operator)
    lines = [line for one in shape.inputs for line in told(one, f"{indent}    ")]
    line = indent + chain.pop()
    while chain:
        operator = chain.pop()
        if len(line) + len(operator) > _WIDTH:
            lines.append(line)
            line = f"{indent} "
        line += f" > {operator}"
    return [*lines, line]


def _operator(name: str, said: str) -> str:
    """Return an operator with what tells it from others of its name: keys, the kind of a join, a function."""
    if _WRITES.fullmatch(name):
        return WRITE
    if name == "BroadcastExchange":
        return "Exchange broadcast"
    if name == "Exchange":
        return f"Exchange {_partitioning(said)}"
    if name == "Sort":
        return f"Sort({', '.join(_columns(said.partition('], ')[0]))})"
    if (join := _JOIN.match(said)) is not None:
        return f"{join[1]} {join[2]}"
    if (function := _OF_PYTHON.match(said)) is not None:
        return f"{name} {function[1]}"
    return name


def _partitioning(said: str) -> str:
    for pattern, kind in _EXCHANGES:
        if (found := pattern.search(said)) is not None:
            columns = _columns(found[1])
            return f"{kind}({', '.join(sorted(columns) if kind == 'hash' else columns)})"
    return "to one task" if _TO_ONE.search(said) else "in turn"


def _columns(said: str) -> list[str]:
    names = (found["name"].strip() for found in _COLUMN.finditer(said))
    return ["computed" if _COMPUTED.fullmatch(name) else name for name in names]
