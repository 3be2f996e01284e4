"""What the section `exporter` refuses."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from proxy.cli import command_line
from proxy.config.loader import ConfigError, load_config

BASE = """\
upstream: {bootstrap: ["127.0.0.1:9"]}
listeners: [{port: 0, advertised_host: proxy.example, nodes: {"0": 9100}}]
"""
FLEET = 'fleet: {kafka: {bootstrap.servers: "127.0.0.1:9"}}\n'


def written(folder: Path, *parts: str) -> Path:
    file = folder / "epochgate.yaml"
    file.write_text(BASE + "".join(parts))
    return file


@pytest.mark.parametrize(
    ("exporter", "why"),
    [
        ("exporter: {groups: '('}\n", "no regular expression"),
        ("exporter: {every_s: 60, forget_after_s: 60}\n", "has to be more than"),
        ("exporter: {names: []}\n", "names"),
        ("exporter: {names: [burrows]}\n", "names"),
        ("exporter: {max_groups: 1001}\n", "max_groups"),
        ("exporter: {bind: ''}\n", "bind"),
    ],
)
def test_it_refuses(tmp_path, exporter, why):
    with pytest.raises(ConfigError, match=why):
        load_config(written(tmp_path, FLEET, exporter))


def test_it_needs_the_account_of_the_fleet(tmp_path):
    with pytest.raises(ConfigError, match=r"fleet\.kafka"):
        load_config(written(tmp_path, "exporter: {}\n"))


def test_a_group_id_has_to_match_as_a_whole_whatever_characters_it_has(tmp_path):
    config = load_config(written(tmp_path, FLEET, "exporter: {groups: 'web-.*'}\n"))
    assert config.exporter is not None
    pattern = config.exporter.pattern()
    assert pattern.fullmatch("web-1")
    assert not pattern.fullmatch("my-web-1")
    assert pattern.fullmatch("web-1\n2")


def test_the_command_refuses_a_configuration_without_it(tmp_path):
    done = CliRunner().invoke(command_line(), ["exporter", "--config", str(written(tmp_path, FLEET))])
    assert done.exit_code == 2
    assert "no `exporter`" in done.output
