"""The process of the member log's Kafka client, which checks the topic's settings every second."""

from proxy.member_log import topic_watch
from proxy.member_log.log_process import main

topic_watch.CHECK_EVERY_S = topic_watch.SETTINGS_EVERY_S = 1.0

if __name__ == "__main__":
    main()
