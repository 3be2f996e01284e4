"""`python -m tests.jepsen.balancer SETTINGS`: a TCP load balancer with client affinity, like a Service.

The proxies listen on the same ports, each on its own loopback address; the clients know only the balancer's address.
Each client has ports of its own here, which stand for the address that it would have on its own machine: all
connections to them reach one proxy, until only another is reachable or `move` switches them. Then the client's other
connections are cut, so a client is never connected to both.

Standard input has commands, {"command": "move" | "forget", "client": name}; standard output reports where each client
is pinned. The process ends with the input.
"""

import json
import sys
import time
from collections import Counter

import msgspec
import trio

_CHUNK = 65_536


class Settings(msgspec.Struct, frozen=True):
    """The addresses to listen on and to connect to."""

    front: str
    backends: dict[str, str]
    clients: dict[str, list[int]]


class Pipe:
    """One connection of a client; `connected` once it has reached a proxy."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.connected = False


class Balancer:
    """The proxy of each client, and the pipes between them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pins: dict[str, str] = {}
        self._pipes: dict[str, set[Pipe]] = {name: set() for name in settings.clients}

    async def run(self) -> None:
        """Serve until the input ends."""
        async with trio.open_nursery() as nursery:
            for client, ports in self._settings.clients.items():
                for port in ports:
                    await nursery.start(self._listen, client, port)
            say(event="listening")
            await self._obey()
            nursery.cancel_scope.cancel()

    async def _listen(self, client: str, port: int, task_status: trio.TaskStatus[object]) -> None:
        async def serve(stream: trio.SocketStream) -> None:
            await self._serve(client, port, stream)

        await trio.serve_tcp(serve, port, host=self._settings.front, task_status=task_status)

    async def _obey(self) -> None:
        async for line in trio.wrap_file(sys.stdin):
            command = json.loads(line)
            client = command["client"]
            match command["command"]:
                case "move":
                    self._pin(client, self._others(self._pins.get(client))[0])
                case "forget":
                    self._pins.pop(client, None)
                case unknown:
                    raise ValueError(f"unknown command {unknown}")

    async def _serve(self, client: str, port: int, stream: trio.SocketStream) -> None:
        pipe = Pipe()
        self._pipes[client].add(pipe)
        try:
            with pipe.scope:
                backend = await self._connect(client, port, pipe)
                if backend is not None:
                    async with backend:
                        await _pump_both(stream, backend)
        finally:
            self._pipes[client].discard(pipe)

    async def _connect(self, client: str, port: int, pipe: Pipe) -> trio.SocketStream | None:
        """Connect to this client's proxy, or to another one if it can't be reached."""
        for _ in range(3):
            pinned = self._pins.get(client) or self._pin(client, self._others(None)[0])
            for name in (pinned, *self._others(pinned)):
                try:
                    stream = await trio.open_tcp_stream(self._settings.backends[name], port)
                except OSError:
                    continue
                if self._pins.get(client) != pinned:  # pinned elsewhere meanwhile: begin again
                    await stream.aclose()
                    break
                if name != pinned:
                    self._pin(client, name)
                pipe.connected = True
                return stream
        return None

    def _pin(self, client: str, backend: str) -> str:
        say(event="pinned", client=client, backend=backend, before=self._pins.get(client))
        self._pins[client] = backend
        for pipe in self._pipes[client]:
            if pipe.connected:
                pipe.scope.cancel()
        return backend

    def _others(self, backend: str | None) -> list[str]:
        """All proxies but this one, those with fewest clients first."""
        used = Counter(self._pins.values())
        return sorted(
            (name for name in self._settings.backends if name != backend), key=lambda name: used[name]
        )


async def _pump_both(one: trio.SocketStream, other: trio.SocketStream) -> None:
    """Copy both directions until either side ends."""
    async with trio.open_nursery() as nursery:
        for source, sink in ((one, other), (other, one)):
            nursery.start_soon(_pump, source, sink, nursery.cancel_scope)


async def _pump(source: trio.SocketStream, sink: trio.SocketStream, scope: trio.CancelScope) -> None:
    try:
        while data := await source.receive_some(_CHUNK):
            await sink.send_all(data)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass  # one side went away without a word, and so does the other
    scope.cancel()


def say(**event: object) -> None:
    """Print one line of the log, with the same timestamps as the drivers' events."""
    line = {"mono": time.monotonic_ns(), "time": time.time_ns(), **event}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    trio.run(Balancer(msgspec.json.decode(sys.argv[1], type=Settings)).run)
