"""The sizes of the story, and its steps."""

from proxy.demo.display_model import Step

CONSUMERS = 4
PARTITIONS = 2
"""Fewer than consumers, unless the options say otherwise."""
DELIVERY_LIMIT = 3
"""``share.delivery.count.limit`` of the group, where the broker lets groups have one (Kafka 4.3)."""
KAFKAS_DELIVERY_LIMIT = 5
LOCK_S = 30
"""``share.record.lock.duration.ms`` of the group in seconds, Kafka's own."""
FAILING = 10
"""While work fails now and then, it does so for each record whose number ends in 0, at the first delivery."""

START = Step(
    "Four consumers start in a share group",
    "All four connect to Epochgate, which relays share groups to the brokers. The topic has fewer partitions than the "
    "group has consumers: in a consumer group some would have nothing to do. In a share group (KIP-932) consumers read "
    "from the same partitions; the broker locks each record for the one it delivers it to.",
)
FAIL = Step(
    "Work fails now and then",
    "A consumer that can't process a record releases it, instead of accepting it. The broker delivers that record "
    "again, with a higher delivery count, to whoever asks next. Nothing else waits for it.",
)
KILL = Step(
    "One consumer is killed in the middle of its work (kill -9)",
    f"It had records that it has not acknowledged. Their locks last {LOCK_S} s, but the broker hears through Epochgate "
    "that the connection has ended, and releases them at once for the others.",
)
POISON = Step(
    "One record can't be processed at all",
    "Each consumer that gets it releases it. The broker gives it up after as many deliveries as "
    "share.delivery.count.limit says, and the records behind it are processed as ever.",
)
END = Step(
    "The producer stops",
    "The group processes the rest; then the broker is asked whether anything is left.",
)
STEPS = (START, FAIL, KILL, POISON, END)
