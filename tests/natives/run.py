"""Runs a script one way, with a proxy of its own where there is one."""

import contextlib
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

from support.broker import Kafka
from support.consumers import Consumers
from support.entry import Entry, running_proxy
from support.native_group import NativeGroup, Outcome

from tests.natives.rounds import Step, run_steps

DIRECT, PROXIED = "direct", "translate"
WAYS = (DIRECT, PROXIED)

POLICY = 'default: observe\nrules: [{{pattern: ".*", mode: {mode}}}]\n'


def run(
    kafka: Kafka,
    way: str,
    steps: list[Step],
    folder: Path,
    *,
    say: Callable[[str], None] = lambda _line: None,
) -> Outcome:
    """The outcome. Logs go to `folder`, which is emptied first. Raises AssertionError if a round does not end."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    consumers = Consumers(folder)
    with contextlib.ExitStack() as stack:
        stack.callback(consumers.end)
        if way == DIRECT:
            entry, policy = Entry(way, kafka.bootstrap), None
        else:
            proxy = stack.enter_context(
                running_proxy(kafka.bootstrap, folder / "proxy", policy=POLICY.format(mode="translate"))
            )
            entry, policy = Entry(way, proxy.bootstrap), proxy.folder / "policy.yaml"
        group = NativeGroup(kafka, entry, consumers, group=f"natives-{uuid.uuid4().hex[:8]}")

        def switch(mode: str) -> None:
            if policy is not None:
                new = policy.with_suffix(".new")
                new.write_text(POLICY.format(mode=mode))
                new.rename(policy)
                group.wait_until_moved(mode)

        outcome = run_steps(kafka, group, steps, switch=switch, say=say)
        (folder / "outcome.txt").write_text(f"{outcome}\n{group.unwanted()}\n")
        return outcome
