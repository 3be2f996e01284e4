"""Checks the topic while the log is used (``epochgate_fleet_topic_settings_wrong``), in a thread of the log's own
process: it and its settings may change.
"""

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from proxy.member_log.broker_settings import migration_policy
from proxy.member_log.log_events import AccessLost, PolicyRead, SettingsRead
from proxy.member_log.refusals import TopicRefused
from proxy.member_log.topic import TopicIdentity, identify_topic, wrong_settings

if TYPE_CHECKING:
    from proxy.member_log.log_threads import LogThreads

CHECK_EVERY_S = 10.0
"""Whether the topic is still the same: librdkafka goes on silently with another one of its name."""
SETTINGS_EVERY_S = 60.0

_ANOTHER_PAUSE_S = 2 * CHECK_EVERY_S
"""Nobody begins with another topic before all replicas have noticed it."""


class TopicWatch:
    """Reports another topic, other settings, and once the brokers' migration policy."""

    def __init__(self, client: "LogThreads", admin: AdminClient, identity: TopicIdentity) -> None:
        self._client = client
        self._admin = admin
        self._identity = identity

    def run(self) -> None:
        """Look until the client is to end."""
        self._client.tell([PolicyRead(migration_policy(self._admin))])
        settings_at = time.monotonic() + SETTINGS_EVERY_S
        while not self._client.pause(CHECK_EVERY_S):
            is_due = time.monotonic() >= settings_at
            if is_due:
                settings_at = time.monotonic() + SETTINGS_EVERY_S
            self._look(settings=is_due)

    def _look(self, *, settings: bool) -> None:
        fleet = self._client.fleet
        try:
            found = identify_topic(self._admin, fleet)
            if found is None or found.identity != self._identity:
                what = "deleted" if found is None else "another one than before"
                self._client.tell([AccessLost(f"the topic {fleet.topic} is {what}", _ANOTHER_PAUSE_S)])
            elif settings:
                self._client.tell([SettingsRead(wrong_settings(self._admin, fleet, found.replication))])
        except TopicRefused as refused:
            self._client.tell([AccessLost(str(refused))])
        except (KafkaException, TimeoutError):
            # The log is away, which the member log notices by itself. The admin client may be stuck, as a reader may.
            with suppress(KafkaException):  # a certificate that can't be read just now, for example
                self._admin = self._client.new_admin()
