"""``--kafka-conf``, ``--kafka-conf-file``: the settings of Kafka clients, which mean the same in every command."""

from typing import Annotated

import typer

KafkaConf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="A setting of the Kafka clients in librdkafka's names, such as security.protocol=SSL. "
        "Repeat the option for several.",
    ),
]
KafkaConfFile = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=FILE",
        help="A setting of the Kafka clients whose value is in a file, such as sasl.password=/run/secrets/password. "
        "Repeat the option for several.",
    ),
]


def pairs(texts: list[str] | None) -> dict[str, str]:
    """Parse KEY=VALUE texts into a dict. Raises typer.BadParameter."""
    found = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"expected KEY=VALUE, got {text!r}")
        found[key] = value
    return found
