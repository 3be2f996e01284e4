"""docs/explanation/security.md has a rule for each task, thread and child process: what its end ends.

A new one fails here until it is in the table, under the rule that its code keeps.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "security.md"

CODE = ROOT / "proxy"
"""The translation starts nothing: it is without I/O."""
NOT_SERVING = ROOT / "proxy" / "demo"
"""The demo starts its Kafka, proxies and consumers, and serves nobody."""

OTHERS = frozenset({"Thread", "KafkaProcess", "open_process", "Popen", "fork", "run_sync"})


def started_in(source: str) -> Iterator[str]:
    """What a module starts, by the name of what runs."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        is_of_nursery = name == "start" and "nursery" in ast.unparse(node.func)
        if name == "start_soon" or (is_of_nursery and not isinstance(node.args[0], ast.Name)):
            yield ast.unparse(node.args[0])
        elif name == "Thread":
            yield "thread " + next(ast.unparse(one.value) for one in node.keywords if one.arg == "target")
        elif name in OTHERS:
            yield name


def started() -> set[str]:
    """Everything that the proxy starts, with the module that starts it."""
    return {
        f"{path.relative_to(ROOT).with_suffix('').as_posix()}: {name}"
        for path in CODE.rglob("*.py")
        if NOT_SERVING not in path.parents
        for name in started_in(path.read_text(encoding="utf-8"))
    }


def test_each_task_thread_and_child_has_a_rule():
    page = PAGE.read_text(encoding="utf-8")
    table = page[page.index("<!-- supervision -->") : page.index("<!-- /supervision -->")]
    rules = Counter(re.findall(r"`(proxy/[a-z_/]+: [^`]+)`", table))
    assert started() == set(rules)
    assert max(rules.values()) == 1, "something has two rules"


def test_what_is_started_is_found():
    source = "nursery.start_soon(a.run, 1)\nnursery.start(b.run)\nThread(target=c)\ntrio.lowlevel.open_process([])\n"
    assert list(started_in(source)) == ["a.run", "b.run", "thread c", "open_process"]
    assert list(started_in("observability.start(nursery, driver)")) == []
