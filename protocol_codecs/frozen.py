"""Bases of immutable values in modules that mypyc compiles (setup.py), which drops the keywords of a class."""

from typing import dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Frozen(msgspec.Struct, frozen=True):
    """An immutable value."""


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class FrozenLeaf(msgspec.Struct, frozen=True, gc=False):
    """An immutable value that can't be part of a cycle: the garbage collector does not track it."""
