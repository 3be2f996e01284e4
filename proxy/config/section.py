"""Base class of all sections of the configuration, which refuse unknown keys."""

import msgspec


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping in the configuration file that accepts only the declared keys."""
