"""Judges the quota by what the broker described at each look (docs/explanation/steps.md).

A step allows ceil(share x members) translated members, where a client that has joined anew and whose former membership
has not ended yet counts once. There may be more of them in two cases, and each is judged by who was translated before:

* Members have left, so the quota has become smaller. Nobody is moved back, but nobody may be added either.
* A slot was taken while there were more members, and its client joins within a minute. So a member that is translated
  now, and was not at the last look, is judged by the largest quota of the last 90 s: a slot is kept for a minute, by
  the log's clock, which moves every half minute.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from tests.held.looks import Look, Seen

ON_ITS_WAY_NS = 90_000_000_000


@dataclass
class Findings:
    """How the quota was kept."""

    looks: int = 0
    unanswered: int = 0
    as_classic: int = 0
    """Looks at which the broker had a classic group: nobody was translated."""
    at_quota: int = 0
    """Looks at which exactly as many were translated as the step allows."""
    below: int = 0
    above_since_some_left: int = 0
    above_by_an_earlier_quota: int = 0
    """Looks at which somebody had just filled a slot of a quota that had become smaller meanwhile."""
    begun: int = 0
    """Times at which somebody was translated who was not at the look before."""
    taken_over: int = 0
    """Of an instance id that stayed translated under another member id: a static member was restarted."""
    begun_by_an_earlier_quota: int = 0
    sizes: set[int] = field(default_factory=set)
    violations: list[str] = field(default_factory=list)


def judge(looks: Iterable[Look], share: Fraction) -> Findings:
    """Judge all looks of a run, in order."""
    found = Findings()
    before: dict[str, Seen] = {}
    quotas: deque[tuple[int, int]] = deque()
    for one in looks:
        found.looks += 1
        if one.members is None:
            found.unanswered += 1
            continue
        places = {seen.place for seen in one.members}
        translated = {seen.place: seen for seen in one.members if seen.is_translated}
        quota = math.ceil(share * len(places))
        quotas.append((one.mono, quota))
        # The look before the time in question counts too: it says how many there were when that began.
        while len(quotas) > 1 and quotas[1][0] < one.mono - ON_ITS_WAY_NS:
            quotas.popleft()
        found.sizes.add(len(places))
        found.as_classic += one.group_type == "classic"
        found.at_quota += len(translated) == quota
        found.below += len(translated) < quota
        begun = sorted(translated.keys() - before.keys())
        found.begun += len(begun)
        found.taken_over += sum(
            before[place].member_id != seen.member_id for place, seen in translated.items() if place in before
        )
        if len(translated) > quota:
            violations = list(_above(one, len(translated), quota, begun, max(most for _, most in quotas)))
            found.violations += violations
            found.above_since_some_left += not begun
            found.above_by_an_earlier_quota += bool(begun) and not violations
            found.begun_by_an_earlier_quota += len(begun)
        before = translated
    return found


def _above(one: Look, translated: int, quota: int, begun: list[str], largest: int) -> Iterator[str]:
    if begun and translated > largest:
        yield (
            f"at {one.mono / 1e9:.1f} {translated} members are translated, the step allows {quota}, and allowed"
            f" {largest} at most while {', '.join(begun)} may have been on the way"
        )
