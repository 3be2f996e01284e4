"""A relay in front of brokers that holds calls back, or cuts the connection in place of an answer: to make races."""

import contextlib
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from protocol_codecs import ApiKey
from support.metadata_relay import MetadataRelay


class Hold:
    """What becomes of the next call of an API whose bytes have these words, such as a member id."""

    def __init__(self, api_key: ApiKey, words: tuple[str, ...], *, loses_answer: bool) -> None:
        self._api_key, self._words = api_key, [word.encode() for word in words]
        self.loses_answer = loses_answer
        self._taken, self._released = threading.Event(), threading.Event()

    @property
    def has_come(self) -> bool:
        """Whether the call has come."""
        return self._taken.is_set()

    def takes(self, api_key: int, frame: bytes) -> bool:
        """Whether this call is the one; only the first is."""
        if self._taken.is_set() or api_key != self._api_key or not all(word in frame for word in self._words):
            return False
        self._taken.set()
        return True

    def wait(self) -> None:
        """Return when it is released."""
        self._released.wait()

    def release(self) -> None:
        """Let the call go to the broker, and all that came behind it on its connection."""
        self._released.set()


class _Relay(MetadataRelay):
    """Before one of the brokers."""

    def __init__(self, address: str, together: "HoldingRelay") -> None:
        host, _, port = address.rpartition(":")
        self.broker_port = int(port)
        super().__init__((host, self.broker_port))
        self._together = together

    def passes_answer(self, api_key: int, frame: bytes) -> bool:
        return self._together.passes_answer(api_key, frame)


class HoldingRelay:
    """A relay before each broker of a cluster. They pass everything on but what is held, wherever it goes."""

    def __init__(self, bootstrap: str) -> None:
        self._relays = [_Relay(address, self) for address in bootstrap.split(",")]
        ports = {relay.broker_port: relay.port for relay in self._relays}
        for relay in self._relays:
            relay.ports = ports
        self._running = contextlib.ExitStack()
        self._holds: list[Hold] = []
        self._calls: list[tuple[int, bytes]] = []

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return ",".join(relay.bootstrap for relay in self._relays)

    def hold(self, api_key: ApiKey, *words: str) -> Hold:
        """Hold the next such call until it is released."""
        return self._add(Hold(api_key, words, loses_answer=False))

    def lose_answer(self, api_key: ApiKey, *words: str) -> Hold:
        """Cut the connection when the broker answers the next such call."""
        hold = self._add(Hold(api_key, words, loses_answer=True))
        hold.release()
        return hold

    def calls(self, api_key: ApiKey, *words: str) -> list[bytes]:
        """The calls until now of an API whose bytes have these words."""
        return [
            frame
            for key, frame in self._calls
            if key == api_key and all(word.encode() in frame for word in words)
        ]

    def invent_topics(self, partitions: Mapping[str, int]) -> None:
        """Have Metadata name topics that no broker has, as one does that is ahead of the coordinator."""
        for relay in self._relays:
            relay.invented = dict(partitions)

    def passes_answer(self, api_key: int, frame: bytes) -> bool:
        """Wait if the call is held; return whether its answer goes back."""
        self._calls.append((api_key, frame))
        taken = next((hold for hold in self._holds if hold.takes(api_key, frame)), None)
        if taken is None:
            return True
        taken.wait()
        return not taken.loses_answer

    def __enter__(self) -> Self:
        for relay in self._relays:
            self._running.enter_context(relay)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hold in self._holds:
            hold.release()
        self._running.close()

    def _add(self, hold: Hold) -> Hold:
        self._holds.append(hold)
        return hold
