"""A network that holds up what begins and what ends a membership, on its way to the broker.

The stalls of a plan hit any message at any time. The dangerous moments of a client that moves from one protocol to
the other are few and short: between its LeaveGroup and its first heartbeat, or while one of them is under way and the
policy changes again. So each such call has an even chance to wait, as does all that is sent behind it.
"""

import random
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from protocol_codecs import ApiKey
from tests.simulation.network import Pipe
from tests.simulation.wire import Ask


def hold_ups(longest_ms: int) -> AbstractContextManager[Any]:
    """Hold up LeaveGroups and heartbeats of epoch 0 for at most so long, while this is open.

    How long follows from when and where, so that a seed shows the same each time.
    """
    send = Pipe.send

    def held_up(self: Pipe, message: Any) -> None:
        if isinstance(message, Ask) and _begins_or_ends(message):
            now_ms = self.link.network.kernel.now_ms
            chance = random.Random(f"{self.link.name} {now_ms}")  # noqa: S311  reproducible on purpose
            if chance.random() < 0.5:
                self.slow_until_ms = max(self.slow_until_ms, now_ms + chance.randint(0, longest_ms))
        send(self, message)

    return patch.object(Pipe, "send", held_up)


def _begins_or_ends(ask: Ask) -> bool:
    begins = ask.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT and ask.message.member_epoch == 0
    return begins or ask.api_key == ApiKey.LEAVE_GROUP
