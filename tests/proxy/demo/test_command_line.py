import socket

import pytest
from typer.testing import CliRunner

from proxy.cli import command_line


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(command_line(), ["demo", *arguments])


def test_a_cluster_and_the_embedded_coordinator_exclude_each_other(run):
    result = run("--kafka", "127.0.0.1:9092", "--embedded")
    assert result.exit_code == 2
    assert "exclude each other" in result.output


def test_nobody_listens(run):
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{reserved.getsockname()[1]}"
        result = run("--kafka", address, "--plain")
    assert result.exit_code == 1
    assert f"FAILED: can't reach a Kafka broker on {address}" in result.output


def test_an_address_that_is_none(run):
    result = run("--kafka", "nonsense", "--plain")
    assert result.exit_code == 1
    assert "expected host:port, got 'nonsense'" in result.output


def test_share_groups_have_no_assignor(run):
    result = run("--story", "share", "--assignor", "range")
    assert result.exit_code == 2
    assert "no --assignor" in result.output


def test_a_rebalance_needs_a_partition_for_each_consumer(run):
    result = run("--partitions", "3")
    assert result.exit_code == 2
    assert "--partitions must be 4 at least" in result.output
