"""Encoders and decoders generated as Python source, one for each message and version, when first needed.

``python -m protocol_codecs.compiler JoinGroupRequest 9`` prints them.
"""

from protocol_codecs.compiler.decoder import DecoderBuilder
from protocol_codecs.compiler.encoder import EncoderBuilder

__all__ = ["DecoderBuilder", "EncoderBuilder"]
