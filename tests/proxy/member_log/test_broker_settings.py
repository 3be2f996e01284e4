"""The brokers' migration policy where nobody answers (on a real broker: tests/integration/test_member_log_topic.py)."""

from confluent_kafka.admin import AdminClient

from proxy.member_log import broker_settings


def test_without_a_broker_that_answers_it_is_not_known(monkeypatch):
    monkeypatch.setattr(broker_settings, "TIMEOUT_S", 0.2)
    admin = AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    assert broker_settings.migration_policy(admin) is None
