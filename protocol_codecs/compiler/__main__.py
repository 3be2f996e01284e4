"""Prints the generated code of a message in one version."""

import sys

from protocol_codecs import all_messages as messages
from protocol_codecs.compiler import DecoderBuilder, EncoderBuilder
from protocol_codecs.message import Message


def main(arguments: list[str]) -> int:
    """Print the encoder and the decoder; returns the exit code."""
    if len(arguments) != 2 or not arguments[1].isdigit():
        sys.stderr.write("usage: python -m protocol_codecs.compiler MESSAGE VERSION\n")
        return 2
    message_type, version = getattr(messages, arguments[0], None), int(arguments[1])
    if not (isinstance(message_type, type) and issubclass(message_type, Message)):
        sys.stderr.write(f"no message is called {arguments[0]}; see protocol_codecs/messages/\n")
        return 2
    schema = message_type.__schema__
    if version not in schema.versions:
        sys.stderr.write(f"{schema.name} has versions {schema.versions}\n")
        return 2
    encoder = EncoderBuilder(message_type, version)
    decoder = DecoderBuilder(message_type, version, whole=True)
    encoder.build()
    decoder.build()
    sys.stdout.write(f"{encoder.source.text()}\n\n{decoder.source.text()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
