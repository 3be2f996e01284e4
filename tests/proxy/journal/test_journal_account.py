"""Which account the process that writes the journal's topic has; tests/integration has a real Kafka."""

from proxy.journal import journal_account
from proxy.journal.journal_account import AccountTopicSink
from proxy.journal.journal_messages import ORDERS, Begin, JournalTopic, Written


async def test_after_a_change_of_the_account_the_next_batch_is_written_by_another_process(monkeypatch):
    story: list[object] = []

    class Process:
        def __init__(self, *_):
            pass

        async def start(self):
            story.append("started")

        async def send(self, message):
            order = ORDERS.decode(message)
            if isinstance(order, Begin):
                story.append(order.properties["sasl.password"])

        async def receive_message(self, _decoder):
            story.append("written")
            return Written()

        async def close(self):
            story.append("ended")

    monkeypatch.setattr(journal_account, "KafkaProcess", Process)
    account = {"sasl.password": "first"}
    sink = AccountTopicSink(JournalTopic("journal", 1), account)
    await sink.write([])
    await sink.write([])
    account["sasl.password"] = "second"
    await sink.write([])
    assert story == ["started", "first", "written", "written", "ended", "started", "second", "written"]
    await sink.close()
