"""A script played by Kafka and then by the embedded coordinator: the answers and the logs must be the same.

What may differ between the logs is said in ``log_comparison`` and in SURPLUS; docs/reference/embedded-coordinator.md
justifies each.
"""

import json
import os
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from protocol_codecs import records as r
from protocol_codecs.message import Message
from tests.coordinator.core_backend import CoreBackend
from tests.coordinator.kafka_backend import KafkaBackend
from tests.coordinator.log_comparison import check_logs
from tests.coordinator.script import Script
from tests.coordinator.trace import Recording
from tools.kafka import jars

ATTEMPTS = 8
STEADY_DIFFERENCES = 2
SURPLUS: dict[str, tuple[type[Message], ...]] = {
    "stranger_comes_to_an_empty_group": (
        r.ConsumerGroupTargetAssignmentMetadataKey,
        r.ConsumerGroupPartitionMetadataKey,
        r.ConsumerGroupMetadataKey,
    )
}
"""Tombstones that Kafka does not write although it forgets what they name, by scenario."""
STEPS_BEFORE = 6
"""How many steps a message shows before the one that differs."""
Play = Callable[[Script], None]


class Differs(AssertionError):
    """The embedded coordinator did not do what Kafka did."""


def played_by_kafka(play: Play, name: str, bootstrap: str) -> tuple[Recording, bool]:
    """Kafka's part, and whether the machine was too slow in between for it to be comparable."""
    prefix = f"{name}-{uuid.uuid4().hex[:6]}"
    backend = KafkaBackend(bootstrap, f"{prefix}-group")
    script = Script(backend, prefix)
    try:
        play(script)
        log = backend.log()
    finally:
        backend.close()
    version = os.environ.get("KAFKA_VERSION", jars.DEFAULT_VERSION)
    return Recording(version, prefix, backend.trace, script.transcript, log), backend.was_disturbed


def played_by_us(play: Play, theirs: Recording, *, is_shared: bool = False) -> Script:
    """The same with the times and ids of Kafka's run."""
    script = Script(CoreBackend(theirs.trace, is_shared=is_shared), theirs.prefix)
    play(script)
    return script


def check(play: Play, name: str, theirs: Recording, *, is_shared: bool = False) -> None:
    """Play it here. Raises Differs with the first step, or the first record, that Kafka has otherwise.

    ``is_shared``: other scenarios, and so their new topics, came to Kafka at the same time.
    """
    script = played_by_us(play, theirs, is_shared=is_shared)
    check_transcripts(script.transcript, theirs.transcript)
    assert isinstance(script.backend, CoreBackend)
    difference = check_logs(script.backend.log, theirs.log, SURPLUS.get(name, ()))
    if difference:
        raise Differs(f"the logs differ: {difference}")


def check_transcripts(ours: Sequence[Any], theirs: Sequence[Any]) -> None:
    """Raise Differs with the first step that differs, and some before it."""
    for number, (our, their) in enumerate(zip(ours, theirs, strict=False)):
        if our != their:
            lines = [f"step {number + 1} of {len(theirs)} differs. Before it:"]
            lines += [f"    {_line(step)}" for step in theirs[max(0, number - STEPS_BEFORE) : number]]
            lines += [f"  Kafka:    {_line(their)}", f"  embedded: {_line(our)}"]
            raise Differs("\n".join(lines))
    if len(ours) != len(theirs):
        raise Differs(f"{len(theirs)} steps in Kafka, {len(ours)} here, and as many as there are agree")


def compare(
    play: Play,
    name: str,
    bootstrap: str,
    keep: Callable[[Recording], None] = lambda _: None,
    *,
    is_shared: bool = False,
) -> Recording:
    """Play on both. A difference is played again if the machine paused meanwhile: timers fired in Kafka only.

    It is played again once in any case, since a broker that is short of a core fires its timers late without anybody
    seeing it. What Kafka really does otherwise, it does otherwise each time. ``keep`` is given each run of Kafka.
    """
    steady_differences = 0
    for attempt in range(ATTEMPTS):
        theirs, was_disturbed = played_by_kafka(play, name, bootstrap)
        keep(theirs)
        try:
            check(play, name, theirs, is_shared=is_shared)
        except AssertionError:
            steady_differences += not was_disturbed
            if steady_differences == STEADY_DIFFERENCES or attempt == ATTEMPTS - 1:
                raise
        else:
            return theirs
    raise AssertionError("unreachable")


def _line(step: Any) -> str:
    what, answer = step
    return f"{what}: {json.dumps(answer, sort_keys=True)}"
