"""The account of `fleet.kafka`: read again and exchanged, or refused."""

from pathlib import Path

import pytest
import structlog
from msgspec.structs import replace

from proxy.config.fleet import Fleet, UnreadableSecret
from proxy.member_log.kafka_account import KafkaAccount
from proxy.metrics.registry import Metrics
from tests.proxy.fakes.serving import config_for


@pytest.fixture
def password(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text("first\n")
    return file


@pytest.fixture
def key_password(tmp_path: Path) -> Path:
    file = tmp_path / "key-password"
    file.write_text("key")
    return file


@pytest.fixture
def fleet(password, key_password) -> Fleet:
    return Fleet(
        kafka={"bootstrap.servers": "kafka:9092", "sasl.username": "gate"},
        kafka_files={"sasl.password": str(password), "ssl.key.password": str(key_password)},
    )


class Account:
    """The account, what those hear who use it, and its metrics."""

    def __init__(self, fleet: Fleet) -> None:
        self.metrics = Metrics()
        self.account = KafkaAccount(fleet, self.metrics)
        self.used = self.account.properties
        self.heard: list[object] = []
        self.account.on_change.append(lambda: self.heard.append(self.used["sasl.password"]))

    def reload(self) -> list[structlog.types.EventDict]:
        with structlog.testing.capture_logs() as logs:
            self.account.reload("a test")
        return logs

    def count(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"epochgate_{name}", {"where": "fleet.kafka", **labels})


def test_a_rotated_password_is_read_again_and_handed_on(fleet, password, key_password):
    one = Account(fleet)
    assert one.account.files == (password, key_password)
    one.reload()
    assert one.heard == [], "nothing has changed"
    password.write_text("second\n")
    (line,) = one.reload()
    assert one.heard == ["second"]
    assert line["event"] == "credentials of the account applied"
    assert one.count("tls_reloads_total", result="applied") == 2


@pytest.mark.parametrize("contents", [None, b"", b"\n", b"\xff"])
def test_a_file_that_can_not_be_used_leaves_the_password_before(fleet, password, contents):
    one = Account(fleet)
    password.unlink() if contents is None else password.write_bytes(contents)
    (line,) = one.reload()
    assert f"`fleet.kafka_files.sasl.password`: {password}: " in line["reason"]
    assert one.used["sasl.password"] == "first"
    assert one.heard == []
    assert one.count("tls_reloads_total", result="refused") == 1
    assert one.count("tls_is_current") == 0
    password.write_text("second")
    one.reload()
    assert one.count("tls_is_current") == 1


def test_of_other_properties_a_reload_says_that_they_need_a_restart_and_changes_nothing(
    fleet, password, key_password
):
    one = Account(fleet)
    password.write_text("second")
    key_password.write_text("another")
    (line,) = one.reload()
    assert line["reason"] == "`fleet.kafka`: ssl.key.password changed, which needs a restart"
    assert one.used["sasl.password"] == "first"


def test_another_configuration_is_read_first_and_then_in_force(fleet, tmp_path, monkeypatch):
    one = Account(fleet)
    monkeypatch.setenv("PASSWORD", "third")
    other = replace(
        fleet,
        kafka={"bootstrap.servers": "kafka:9092"},
        kafka_files={
            "sasl.username": str(tmp_path / "user"),
            "ssl.key.password": fleet.kafka_files["ssl.key.password"],
        },
        kafka_environment={"sasl.password": "PASSWORD"},
    )
    with pytest.raises(UnreadableSecret, match=r"kafka_files\.sasl\.username"):
        one.account.prepare(replace(config_for({}), fleet=other))
    (tmp_path / "user").write_text("another")
    put_in_force = one.account.prepare(replace(config_for({}), fleet=other))
    assert one.used["sasl.username"] == "gate"
    put_in_force()
    assert (one.used["sasl.username"], one.heard) == ("another", ["third"])
    assert one.account.files[0] == tmp_path / "user"
    (tmp_path / "user").write_text("a third one")
    one.reload()
    assert one.used["sasl.username"] == "a third one"


def test_a_password_that_was_read_again_before_a_configuration_is_in_force_stays(fleet, password):
    one = Account(fleet)
    password.write_text("second")
    put_in_force = one.account.prepare(replace(config_for({}), fleet=fleet))
    password.write_text("third")
    one.reload()
    put_in_force()
    assert (one.used["sasl.password"], one.heard) == ("third", ["third"])
