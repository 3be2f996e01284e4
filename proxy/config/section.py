"""What every part of the configuration is made of."""

import msgspec


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping of the file in which only known keys may stand."""
