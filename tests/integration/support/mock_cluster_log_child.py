"""The process of the member log's Kafka client on librdkafka's mock cluster, which does not describe topics."""

import msgspec

from proxy.member_log import log_reader, log_threads, log_writer, topic_watch
from proxy.member_log.log_messages import Record
from proxy.member_log.log_process import main
from proxy.member_log.record_decoding import LOG_APPEND_TIME
from proxy.member_log.topic import PreparedTopic, TopicIdentity

log_threads.prepare_topic = lambda _admin, fleet: PreparedTopic(TopicIdentity("id", fleet.partitions), None)
topic_watch.TopicWatch.run = lambda _self: None  # type: ignore[method-assign]
log_writer._WRITER = {**log_writer._WRITER, "message.timeout.ms": 3_000}

_event = log_reader.LogReader._event


def _with_the_brokers_time(reader, message):
    """The mock cluster keeps the producer's timestamps, whatever the topic says."""
    event = _event(reader, message)
    if isinstance(event, Record):
        return msgspec.structs.replace(event, timestamp_type=LOG_APPEND_TIME)
    return event


log_reader.LogReader._event = _with_the_brokers_time  # type: ignore[method-assign]

if __name__ == "__main__":
    main()
