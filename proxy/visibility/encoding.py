"""A picture as bytes, made while others go on: with many groups it is megabytes."""

from collections.abc import Callable
from typing import Any

import msgspec

from proxy.turns import Turns
from proxy.visibility.snapshot import Snapshot


async def encode_in_turns(picture: Snapshot, encode: Callable[[Any], bytes]) -> bytes:
    """What ``encode`` (of msgspec's JSON or MessagePack) makes of the picture."""
    turns, groups = Turns(), []
    for group in picture.groups:
        groups.append(msgspec.Raw(encode(group)))
        await turns.end_portion()
    parts = {name: getattr(picture, name) for name in picture.__struct_fields__}
    return encode(parts | {"groups": groups})
