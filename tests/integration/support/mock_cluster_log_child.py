"""The process of the member log's Kafka client on librdkafka's mock cluster, which does not describe topics."""

from proxy.fleet import log_threads, log_writer, topic_watch
from proxy.fleet.log_process import main
from proxy.fleet.topic import PreparedTopic, TopicIdentity

log_threads.prepare_topic = lambda _admin, fleet: PreparedTopic(TopicIdentity("id", fleet.partitions), None)
topic_watch.TopicWatch.run = lambda _self: None  # type: ignore[method-assign]
log_writer._WRITER = {**log_writer._WRITER, "message.timeout.ms": 3_000}

if __name__ == "__main__":
    main()
