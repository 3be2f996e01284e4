"""Has a process of its own ask brokers with an account; what ends it is why nothing is known."""

from collections.abc import Mapping

from proxy.config.fleet import Property
from proxy.preflight.account_messages import ANSWERS, ENCODER, Answers, Ask, BadAccount, Groups, Rest
from proxy.preflight.facts import BadProperty, Group, Unknown
from proxy.runtime.kafka_process import KafkaProcess, ProcessEnded

MODULE = "proxy.preflight.account_process"


async def ask_with_account(properties: Mapping[str, Property], timeout_s: float) -> Answers | Unknown:
    """Ask with these librdkafka properties; each request may take ``timeout_s``.

    :raises BadProperty: they can't be used.
    """
    process = KafkaProcess(MODULE)
    groups: list[Group] = []
    try:
        await process.start()
        await process.send(ENCODER.encode(Ask(dict(properties), timeout_s)))
        while True:
            match await process.receive_message(ANSWERS):
                case Groups(some):
                    groups += (one.group() for one in some)
                case BadAccount(reason):
                    raise BadProperty(reason)
                case Rest() as rest:
                    return rest.answers(tuple(groups))
    except ProcessEnded as ended:
        return _crashed(str(ended))
    finally:
        await process.close()


def _crashed(how: str) -> Unknown:
    return Unknown(
        f"the process of the Kafka client (librdkafka) has crashed: {how}",
        "an answer of a broker can do that: see that every address of --from or `bootstrap.servers` is a Kafka broker "
        "that you trust, and preflight them one by one",
    )
