"""`epochgate run` between the reading of its configuration and the first client."""

from pathlib import Path

import trio
from structlog.testing import capture_logs

from proxy.cli import run
from proxy.runtime.file_watcher import POLL_INTERVAL_S, signature
from tests.proxy.fakes.broker import a_cluster


async def test_a_configuration_that_changes_during_the_start_is_read_again(tmp_path: Path, mock_clock):
    mock_clock.rate = 10.0
    file = tmp_path / "epochgate.yaml"
    async with a_cluster(1) as brokers:
        host, port = brokers[1].nodes[1]
        text = (
            f"upstream: {{bootstrap: ['{host}:{port}']}}\nadmin: {{port: 0}}\n"
            "listeners: [{bind: 127.0.0.1, port: 0, advertised_host: a.example, nodes: {'0-1': 0}}]\n"
        )
        file.write_text(text)
        as_read = signature((file,))
        config, policy = run.load(file)
        file.write_text(text + "drain: {grace_s: 1}\n")
        with capture_logs() as logs:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run._serve, config, policy, file, as_read)
                with trio.move_on_after(20 * POLL_INTERVAL_S):
                    while not any(  # noqa: ASYNC110  another task applies it
                        line["event"] == "configuration applied" for line in logs
                    ):
                        await trio.sleep(0.1)
                nursery.cancel_scope.cancel()
    (steps,) = [line["steps"] for line in logs if line["event"] == "configuration applied"]
    assert steps[0].startswith("drain.grace_s: 20.0 -> 1.0: ")
