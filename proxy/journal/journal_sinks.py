"""The destinations of the journal that a configuration names: a file, a topic, or both."""

from collections.abc import Mapping
from pathlib import Path

from proxy.config.fleet import Property
from proxy.config.schema import Config
from proxy.journal.journal import Sink
from proxy.journal.journal_account import AccountTopicSink
from proxy.journal.journal_files import FileSink
from proxy.journal.journal_folder import Terms
from proxy.journal.journal_messages import JournalTopic
from proxy.journal.journal_topic import TopicSink
from proxy.metrics.registry import Metrics
from proxy.transport.dialer import Dialer


def journal_sinks(
    config: Config,
    folder: Path | None,
    replica: str,
    boot: str,
    dialer: Dialer | None,
    metrics: Metrics,
    account: Mapping[str, Property] | None,
) -> list[Sink]:
    """Return the configured sinks of the journal.

    ``folder`` is the base of relative paths, and ``account`` has the properties of `fleet.kafka`.
    """
    journal = config.journal
    found: list[Sink] = []
    if journal.path is not None:
        found.append(
            FileSink(
                (folder or Path()) / journal.path,
                Terms(journal.file_max_bytes, journal.file_max_age_s, journal.keep_bytes, journal.shared),
                replica=replica,
                boot=boot,
                deleted=metrics.journal_files_deleted.inc,
            )
        )
    if journal.topic is not None:
        found.append(_topic_sink(config, journal.topic, dialer, metrics, account))
    return found


def _topic_sink(
    config: Config,
    topic: str,
    dialer: Dialer | None,
    metrics: Metrics,
    account: Mapping[str, Property] | None,
) -> Sink:
    if config.fleet is None or account is None:
        assert dialer is not None  # noqa: S101  every process that serves has one
        return TopicSink(topic, lambda: dialer.bootstrap, dialer.open)
    made = JournalTopic(topic, config.fleet.replication, config.journal.keep_bytes)
    crashes = metrics.kafka_process_crashes.labels("journal")
    return AccountTopicSink(made, account, crashes.inc)
