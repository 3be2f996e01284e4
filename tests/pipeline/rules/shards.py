"""The live audit without Spark: shards that are saved and restored at every turn, and the judge of what they tell."""

from pipeline.rules.certificate import Report
from pipeline.rules.classes import VIOLATION
from pipeline.rules.judge import END, Judge, Judged
from pipeline.rules.shard import Bounds, Shard, Told, split
from tests.pipeline.rules.journals import LIVE_DELAY_US, SKEW_US

SHARDS = 3


class Kept(dict[str, bytes]):
    """Groups in memory."""

    put = dict.__setitem__

    def remove(self, group: str) -> None:
        self.pop(group, None)


class Live:
    """All shards, each saved and restored at every turn as a stream does, and what they told."""

    def __init__(
        self, delay_us: int = LIVE_DELAY_US, bounds: Bounds | None = None, shards: int = SHARDS
    ) -> None:
        self.delay_us, self.bounds = delay_us, bounds
        self.groups = [Kept() for _ in range(shards)]
        self.states: list[bytes | None] = [None] * shards
        self.judge: bytes | None = None
        self.found: list[Judged] = []
        self.told: list[Told] = []

    def turn(self, *parts: tuple[str, list[bytes]], more: bool = False) -> list[Judged]:
        encoded = [split(place, lines, len(self.groups)) for place, lines in parts]
        self.told = []
        for number, groups in enumerate(self.groups):
            shard = Shard(
                self.states[number], groups, skew_us=SKEW_US, delay_us=self.delay_us, bounds=self.bounds
            )
            self.told.append(shard.take((one[number] for one in encoded), more=more))
            self.states[number] = shard.save()
        judge = Judge(self.judge, skew_us=SKEW_US)
        found = judge.judge(self.told)
        self.judge = judge.save()
        self.found += found
        return found


Violation = tuple[str, str, int, str, str]


def standing(found: list[Judged], *, is_open: bool | None = None) -> list[Violation]:
    """The violations that hold by what was told last of each overlap."""
    newest = {one.key: one for one in found}
    return sorted(
        key
        for key, one in newest.items()
        if one.overlap_class == VIOLATION and (is_open is None or (one.pending == END) is is_open)
    )


def of_verify(report: Report) -> list[Violation]:
    """Those that verify finds in the whole journal."""
    return sorted(
        (one.group, two.topic, two.partition, two.first_event, two.second_event)
        for one in report.certificates
        for two in one.owners.violations
    )


def missed(found: list[Judged], report: Report) -> list[Violation]:
    """Violations of the whole journal that are not told."""
    return sorted(set(of_verify(report)) - set(standing(found)))


def invented(found: list[Judged], report: Report) -> list[Violation]:
    """What is told and the whole journal does not have; but for what is told as an overlap without an end yet."""
    return sorted(set(standing(found)) - set(of_verify(report)) - set(standing(found, is_open=True)))
