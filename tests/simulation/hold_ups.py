"""A network that delays the calls that begin and end a membership, on their way to the broker.

The stalls of a plan hit any message at any time. The dangerous moments of a client that moves between the protocols are
few and short: between its LeaveGroup and its first heartbeat, or while one of them is in flight and the policy changes
again. So each such call is delayed with a probability of one half, with everything behind it.
"""

import random
from collections.abc import Callable

from protocol_codecs import ApiKey
from tests.simulation.kernel import Kernel
from tests.simulation.network import Network, Pipe
from tests.simulation.wire import Ask


class HoldUps(Network):
    """Delays LeaveGroups and heartbeats of epoch 0 by at most ``longest_ms``.

    The delay follows from place and time, so that a plan runs the same each time.
    """

    def __init__(self, kernel: Kernel, delay_ms: Callable[[], int], longest_ms: int) -> None:
        super().__init__(kernel, delay_ms)
        self._longest_ms = longest_ms

    def carry(self, pipe: Pipe) -> None:
        message = pipe.in_flight[-1]
        if isinstance(message, Ask) and _begins_or_ends(message):
            chance = random.Random(f"{pipe.link.name} {self.kernel.now_ms}")  # noqa: S311  reproducible on purpose
            if chance.random() < 0.5:
                held_until_ms = self.kernel.now_ms + chance.randint(0, self._longest_ms)
                pipe.slow_until_ms = max(pipe.slow_until_ms, held_until_ms)
        super().carry(pipe)


def _begins_or_ends(ask: Ask) -> bool:
    begins = ask.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT and ask.message.member_epoch == 0
    return begins or ask.api_key == ApiKey.LEAVE_GROUP
