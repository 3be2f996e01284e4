"""What the broker says of the group, looked at every second and written down.

A look has the members as the coordinator describes them. One that nobody answered, because the coordinator was away or
loading, has no members and says why.
"""

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.types import GroupId
from support import raw

EVERY_S = 1.0
PATIENCE_S = 5.0
CLASSIC, TRANSLATED = 0, 1


class Seen(NamedTuple):
    """A member. `place` is its instance id, or else its client id, which only one process has."""

    place: str
    member_id: str
    is_translated: bool


class Look(NamedTuple):
    """What was seen at `mono` (CLOCK_MONOTONIC in ns); `members` is None if nobody answered, and `why` says it."""

    mono: int
    members: tuple[Seen, ...] | None
    group_type: str = ""
    why: str = ""
    coordinator: str = ""
    """host:port of the broker that answered."""


def look(addresses: Sequence[str], group: str) -> Look:
    """Ask the coordinator, which any of these brokers may name."""
    why = "no broker was asked"
    for address in addresses:
        try:
            coordinator = _coordinator(address, group)
            with raw.RawConnection(coordinator, timeout_s=PATIENCE_S) as connection:
                return _asked(connection, group)._replace(coordinator=coordinator)
        except (OSError, LookupError) as error:
            why = f"{type(error).__name__}: {error}"
    return Look(time.monotonic_ns(), None, why=why)


def _coordinator(address: str, group: str) -> str:
    request = FindCoordinatorRequest(coordinator_keys=(group,))
    with raw.RawConnection(address, timeout_s=PATIENCE_S) as connection:
        (found,) = connection.call(request).coordinators
    if found.error_code:
        raise LookupError(f"coordinator of {group}: {found.error_code!r}")
    return f"{found.host}:{found.port}"


def _asked(connection: raw.RawConnection, group: str) -> Look:
    request = ConsumerGroupDescribeRequest(group_ids=(GroupId(group),), include_authorized_operations=False)
    (consumer,) = connection.call(request).groups
    now = time.monotonic_ns()
    if not consumer.error_code:
        return Look(
            now,
            tuple(
                Seen(one.instance_id or one.client_id, one.member_id, one.member_type == TRANSLATED)
                for one in consumer.members
            ),
            "consumer",
        )
    classic_request = DescribeGroupsRequest(groups=(GroupId(group),), include_authorized_operations=False)
    (classic,) = connection.call(classic_request).groups
    if classic.error_code or classic.group_state == "Dead":
        return Look(now, None, why=f"{consumer.error_code!r}, {classic.error_code!r} {classic.group_state}")
    return Look(
        now,
        tuple(
            Seen(one.group_instance_id or one.client_id, one.member_id, is_translated=False)
            for one in classic.members
        ),
        "classic",
    )


class Looking:
    """Looks until it is stopped, from a thread of its own; `last` is the last look that was answered."""

    def __init__(self, addresses: Sequence[str], group: str, file: Path) -> None:
        self._addresses, self._group = addresses, group
        self._over = threading.Event()
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = file.open("w")
        self._thread = threading.Thread(target=self._run, name="looks", daemon=True)
        self.last = Look(0, ())
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._over.set()
        self._thread.join()
        self._file.close()  # a second time is nothing

    def _run(self) -> None:
        while not self._over.wait(EVERY_S):
            found = look(self._addresses, self._group)
            self._file.write(json.dumps(found) + "\n")
            self._file.flush()
            if found.members is not None:
                self.last = found


def read(file: Path) -> list[Look]:
    """All looks of a run, in order."""
    return [_parsed(*json.loads(line)) for line in file.read_text().splitlines()]


def _parsed(mono: int, members: list[list[Any]] | None, *rest: str) -> Look:
    seen = None if members is None else tuple(Seen(*one) for one in members)
    return Look(mono, seen, *rest)
