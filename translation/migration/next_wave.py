"""Decides whether a wave of groups may begin: a pure function of how far the groups of the waves before it are.

Whatever else is to stop a wave has its say here.
"""

from collections.abc import Sequence

from translation.engine.wave_counts import WaveCount, WaveState
from translation.policy.steps import Step

LOG_IS_AWAY = "a part of the member log can't be read, so it is not known whether those before it are over"


def why_not_yet(wave: int, before: Sequence[WaveCount] | None, needed: Step) -> str | None:
    """Why no group of this wave may begin to move; None if they may.

    ``before`` are all waves before it, None if that is not known; ``needed`` is the share of each that has to be over.
    """
    if before is None:
        return f"wave {wave} waits: {LOG_IS_AWAY}"
    for one in before:
        stopped = one.groups.get(WaveState.HELD, 0) + one.groups.get(WaveState.ABORTED, 0)
        over = one.groups.get(WaveState.OVER, 0)
        if stopped:
            return (
                f"wave {wave} waits: {stopped} of {one.total} groups of wave {one.wave} are held or aborted"
            )
        if over < needed.quota(one.total):
            return f"wave {wave} waits: {over} of {one.total} groups of wave {one.wave} are over"
    return None
