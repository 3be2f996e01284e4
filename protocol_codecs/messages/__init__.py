"""The declared messages, one file an API. :mod:`protocol_codecs.all_messages` has all of them by name."""
