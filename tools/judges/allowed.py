"""Reads the allow list: tests that differ through Epochgate, and why that is no fault of Epochgate."""

from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("allowed.yaml")
MAX_ENTRIES = 12
"""More would be a list of faults."""


class AllowListError(Exception):
    """The allow list cannot be used; the message says why."""


class Allowed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry; ``evidence`` is where the reason can be seen."""

    suite: str
    test: str
    reason: str
    evidence: str


def read(text: str) -> tuple[Allowed, ...]:
    """Return the entries of the list's text.

    :raises AllowListError: it is malformed, names a test twice, leaves a field empty, or has too many entries.
    """
    try:
        entries = msgspec.yaml.decode(text, type=tuple[Allowed, ...])
    except msgspec.DecodeError as error:
        raise AllowListError(str(error)) from error
    if len(entries) > MAX_ENTRIES:
        raise AllowListError(f"{len(entries)} entries, where {MAX_ENTRIES} are allowed")
    if empty := [one.test for one in entries if not all(msgspec.structs.astuple(one))]:
        raise AllowListError(f"no reason or no evidence: {', '.join(empty)}")
    tests = [(one.suite, one.test) for one in entries]
    if twice := sorted({f"{suite} {test}" for suite, test in tests if tests.count((suite, test)) > 1}):
        raise AllowListError(f"named twice: {', '.join(twice)}")
    return entries
