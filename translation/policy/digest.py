"""Names a policy by what it says, so that somebody can say which one they mean."""

import hashlib

import msgspec

_CHARACTERS = 16


def digest_of(policy: msgspec.Struct) -> str:
    """Sixteen hexadecimal digits that any change of the policy changes, but not one of comments or layout alone."""
    data = msgspec.json.encode(policy, order="deterministic")
    return hashlib.sha256(data).hexdigest()[:_CHARACTERS]
