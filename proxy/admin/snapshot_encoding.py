"""Encodes snapshots in time slices; with many groups they are megabytes."""

from collections.abc import Callable
from typing import Any

import msgspec

from proxy.groups.snapshot import Snapshot
from proxy.runtime.time_slice import TimeSlice


async def encode_cooperatively(
    snapshot: Snapshot,
    encode: Callable[[Any], bytes],
    *,
    most: int | None = None,
    max_bytes: int | None = None,
) -> bytes:
    """Encode a snapshot with ``encode`` (msgspec's JSON or MessagePack), yielding to other tasks in between.

    It stops after ``most`` groups, or before the group that would exceed ``max_bytes`` bytes, but includes at least
    one. ``left_out`` counts the rest.
    """
    time_slice, groups, size = TimeSlice(), list[msgspec.Raw](), 0
    for group in snapshot.groups[:most]:
        encoded = encode(group)
        size += len(encoded)
        if groups and max_bytes is not None and size > max_bytes:
            break
        groups.append(msgspec.Raw(encoded))
        await time_slice.yield_if_spent()
    parts = {name: getattr(snapshot, name) for name in snapshot.__struct_fields__}
    left_out = snapshot.left_out + len(snapshot.groups) - len(groups)
    return encode(parts | {"groups": groups, "left_out": left_out})
