"""Generates encoders and decoders as Python source, one for each message and version, at first use.

``python -m protocol_codecs.compiler JoinGroupRequest 9`` prints them.
"""

from protocol_codecs.compiler.decoder import DecoderBuilder
from protocol_codecs.compiler.encoder import EncoderBuilder

__all__ = ["DecoderBuilder", "EncoderBuilder"]
