"""The ``steps`` of a move: how many members of a live group may be translated at each of them.

A step is a number of members, or a share of those that the broker describes, rounded up. What it limits is memberships,
not effects: the first member of the new protocol converts the whole group, and its classic members rejoin at each new
target assignment too.
"""

import itertools
import re
from collections.abc import Sequence

import msgspec

_SHARE = re.compile(r"(\d{1,3})(?:\.(\d{1,2}))?%")
_ALL = 10_000
"""100 % in hundredths of a percent."""

MOST_STEPS = 100
MOST_MEMBERS = 1_000_000
"""With so many, steps of a move fit in its record (:mod:`translation.member_log.group_records`)."""


class Step(msgspec.Struct, frozen=True):
    """One step: ``members``, or if that is 0 ``share``, in hundredths of a percent."""

    members: int = 0
    share: int = 0

    @property
    def is_all(self) -> bool:
        """Whether the group moves as a whole, as without steps: nothing is counted any more."""
        return self.share == _ALL

    def quota(self, members: int) -> int:
        """How many of so many members may be translated."""
        if self.members:
            return self.members
        return -(-self.share * members // _ALL)

    def __str__(self) -> str:
        if self.members:
            return str(self.members)
        whole, rest = divmod(self.share, 100)
        return f"{whole}.{rest:02}%".replace(".00%", "%")


def parse_steps(written: Sequence[int | str]) -> tuple[Step, ...]:
    """Read the steps of a rule.

    :raises ValueError: one is neither a number nor a share, or they do not rise: numbers first, then shares. Whether a
        number of members is more than a share is known for one group only, and not for good.
    """
    if not written:
        raise ValueError("`steps` is empty: without the key a group moves as a whole")
    if len(written) > MOST_STEPS:
        raise ValueError(f"{len(written)} `steps`: {MOST_STEPS} is the limit")
    steps = tuple(map(_parse, written))
    for before, after in itertools.pairwise(steps):
        if (before.share, before.members) >= (after.share, after.members):
            raise ValueError(f"`steps` have to rise, numbers before shares: {after} comes after {before}")
    return steps


def _parse(written: int | str) -> Step:
    if isinstance(written, int):
        if written < 1:
            raise ValueError(f"a step of {written} members: the first member is step 1")
        if written > MOST_MEMBERS:
            raise ValueError(f"a step of more than {MOST_MEMBERS} members")
        return Step(members=written)
    match = _SHARE.fullmatch(written)
    if match is None:
        raise ValueError(f"step {written!r} is neither a number of members nor a share such as 10%")
    share = int(match[1]) * 100 + int((match[2] or "0").ljust(2, "0"))
    if not 0 < share <= _ALL:
        raise ValueError(f"step {written!r}: a share is more than 0% and at most 100%")
    return Step(share=share)


def text_of(steps: Sequence[Step]) -> str:
    """The steps as people write them, which also tells whether they have changed."""
    return ", ".join(map(str, steps))
