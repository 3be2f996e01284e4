"""The page about fleets has the commands that the proxy itself prints, and values that the chart and the proxy take."""

import re
from pathlib import Path

import msgspec
import yaml

from proxy.config.fleet import Fleet
from proxy.member_log.topic import access_hint, create_command
from proxy.metrics.registry import Metrics

TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "fleet.md").read_text(encoding="utf-8")
FLEET = Fleet(kafka={"bootstrap.servers": "kafka-0:9092"})


def commands() -> list[str]:
    return re.findall(r"^\$ (.*?)(?:    #.*)?$", TEXT, re.MULTILINE)


def test_the_topic_is_made_as_the_proxy_says():
    assert create_command(FLEET) in commands()


def test_the_account_gets_the_rights_that_the_proxy_names():
    said = "kafka-acls.sh" + access_hint(FLEET).partition("kafka-acls.sh")[2]
    assert said.replace("User:NAME", "User:epochgate") in commands()


def test_the_configuration_is_good():
    (block,) = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    fleet = msgspec.convert(yaml.safe_load(block)["fleet"], Fleet)
    assert fleet.expires is False


def test_each_metric_of_the_page_exists_and_it_has_all_of_a_fleet():
    named = set(re.findall(r"(epochgate_(?:fleet|bounds)_\w+)", TEXT))
    known = {described.name for described in Metrics().table}
    assert named <= known
    assert {name for name in known if name.startswith("epochgate_fleet_")} <= named
