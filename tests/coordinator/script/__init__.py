"""What a scenario can do to a coordinator, whichever it is: Kafka's or the embedded one.

A scenario is a function of a :class:`Script`. Every answer goes into the transcript in a normal form, and two
transcripts of the same scenario must be the same. A transcript is plain data, so that those of Kafka can be kept.
"""

from dataclasses import dataclass
from typing import Any

from tests.coordinator.script.classic import Classic
from tests.coordinator.script.conversation import Conversation
from tests.coordinator.script.member import Member
from tests.coordinator.script.share_member import ShareMember

__all__ = ["Classic", "Member", "Script", "ShareMember"]


@dataclass
class Script(Conversation):
    """One run of a scenario."""

    def member(self, name: str, **options: Any) -> Member:
        """A client that speaks the new protocol."""
        return Member(self, name, f"{self.prefix}-{name}", **options)

    def sharing(self, name: str, **options: Any) -> ShareMember:
        """A member of a share group. Its id is short: the longest has 36 characters."""
        return ShareMember(self, name, name, **options)

    def classic(self, name: str, **options: Any) -> Classic:
        """A client that speaks the classic protocol."""
        return Classic(self, name, **options)
