"""The proxy in this thread, in front of an embedded coordinator, and a client in another thread."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from benchmarks.lib.embedded import embedded
from benchmarks.lib.test_bed import POLICY
from proxy.config.loader import load_policy
from proxy.config.schema import Address, Admin, Config, Listener, Upstream
from proxy.server.process import make_translator
from proxy.server.server import Server
from tools.kafka.ports import LOOPBACK


def serve(client: Callable[[str], None], *, sole_process: bool = True) -> None:
    """Run the client, which is given the proxy's address, until it returns.

    The proxy's thread is the caller's, so that it can be profiled or traced; the client reaches it by
    ``trio.from_thread``.
    """
    with embedded(1) as (bootstrap, _), TemporaryDirectory() as folder:
        policy_file = Path(folder) / "policy.yaml"
        policy_file.write_text(POLICY)
        host, _, port = bootstrap.rpartition(":")
        config = Config(
            upstream=Upstream(bootstrap=(str(Address(host, int(port))),)),
            listeners=(Listener(bind=LOOPBACK, port=0, advertised_host=LOOPBACK, nodes={"0-2": 0}),),
            admin=Admin(bind=LOOPBACK, port=0),
            sole_process=sole_process,
        )
        policy = load_policy(policy_file)
        trio.run(_serve, Server(config, make_translator(config, policy), policy=policy), client)


async def _serve(server: Server, client: Callable[[str], None]) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        await trio.to_thread.run_sync(client, f"{LOOPBACK}:{server.ports.listeners[0].port}")
        server.stop()
