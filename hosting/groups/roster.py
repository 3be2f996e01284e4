"""The members of one hosted group, by member id and by instance id."""

from hosting.groups.member import HostedMember
from protocol_codecs.error_code import ErrorCode


class Roster:
    """Who is a member."""

    def __init__(self) -> None:
        self.members: dict[str, HostedMember] = {}
        """By member id, in the order in which they joined."""
        self._static: dict[str, HostedMember] = {}

    def add(self, member: HostedMember) -> None:
        """Add a member."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member

    def remove(self, member: HostedMember) -> None:
        """Remove a member, if it is still one. Its instance id may have a new one by now."""
        self.members.pop(member.member_id, None)
        if member.instance_id is not None and self._static.get(member.instance_id) is member:
            del self._static[member.instance_id]

    def static_member(self, instance_id: str | None) -> HostedMember | None:
        """Return the member with this instance id, if there is one."""
        return None if instance_id is None else self._static.get(instance_id)

    def why_refused(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Return the error of a call with this generation; NONE if it is the member's present one."""
        member = self.members.get(member_id)
        static = self.static_member(instance_id)
        if static is not None and static.member_id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if generation == member.generation else ErrorCode.ILLEGAL_GENERATION
