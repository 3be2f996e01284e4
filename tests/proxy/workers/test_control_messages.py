"""Messages between supervisor and worker arrive whole, however the socket cuts them."""

from proxy.workers.control_messages import (
    MessageDecoder,
    Query,
    QueryResult,
    ToWorker,
    encode_message,
)


def test_messages_arrive_however_they_are_cut():
    data = encode_message(Query(1, "metrics")) + encode_message(Query(2, "groups"))
    decoder = MessageDecoder(ToWorker)
    received = [message for n in range(len(data)) for message in decoder.feed(data[n : n + 1])]
    assert received == [Query(1, "metrics"), Query(2, "groups")]
    assert encode_message(QueryResult(1, None))
