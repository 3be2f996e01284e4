"""A picture as bytes, made while others go on: with many groups it is megabytes."""

from collections.abc import Callable
from typing import Any

import msgspec

from proxy.observability.snapshot import Snapshot
from proxy.runtime.time_slice import TimeSlice


async def encode_cooperatively(
    snapshot: Snapshot,
    encode: Callable[[Any], bytes],
    *,
    most: int | None = None,
    max_bytes: int | None = None,
) -> bytes:
    """What ``encode`` (of msgspec's JSON or MessagePack) makes of the picture.

    It ends after ``most`` groups, or before the one with which it would have more than ``max_bytes`` bytes (the first
    one is always there); ``left_out`` counts the rest.
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
