"""Says in one line what keeps Spark's Kafka connector, a Java client, from its brokers."""

import re

from pipeline import java_errors

_KAFKA = "org.apache.kafka."
_IN_TEXT = re.compile(r"org\.apache\.kafka\.(?:[a-z]+\.)*(?P<name>[A-Z]\w+Exception)(?:: (?P<said>[^\n]*))?")
"""An exception of an executor's, which may come as text alone."""
_WORDS = {
    "SaslAuthenticationException": "the brokers do not accept the login",
    "SslAuthenticationException": "the brokers can't be reached by TLS",
    "TimeoutException": "the brokers do not answer",
    "TopicAuthorizationException": "this account may not read the topic",
    "GroupAuthorizationException": "this account may not READ groups with the prefix spark-kafka-",
}


def explanation(error: BaseException) -> str | None:
    """Return one line if Kafka's client is the cause of an error of Spark, else None."""
    chain = java_errors.chain(error)
    of_kafka = [at for at, one in enumerate(chain) if one.getClass().getName().startswith(_KAFKA)]
    if of_kafka:
        name = chain[of_kafka[-1]].getClass().getSimpleName()
        said = java_errors.messages(error)[of_kafka[-1] :]
        return _line(name, ": ".join(dict.fromkeys((said[0], said[-1]))))
    found = [one for part in chain for one in _IN_TEXT.finditer(str(part.getMessage() or ""))]
    return _line(found[-1]["name"], found[-1]["said"] or "") if found else None


def _line(name: str, said: str) -> str:
    words = _WORDS.get(name, "Kafka")
    return f"{words}: {said or name}"
