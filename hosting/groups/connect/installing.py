"""Checks what a leader has computed, and makes it the parts of the workers."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from coordinator.connect_groups.formats import Difference, read_differences
from coordinator.connect_groups.work import Work, WorkSet
from hosting.groups.connect.worker import Round
from protocol_codecs.all_messages import SyncGroupRequestAssignment


def checked(
    shown: Round, assignments: Iterable[SyncGroupRequestAssignment], most_bytes: int
) -> dict[str, Difference] | None:
    """Return what each worker of a round is to take up and give up; None if that is not for the group that was told.

    It has to be for all workers of the round and for nobody else, from this leader, for one reading of the
    configurations, and may give nothing to two workers, or to one while another runs it.
    """
    contents: dict[str, bytes] = {}
    size = 0
    for one in assignments:
        size += len(one.member_id) + len(one.assignment)
        if one.member_id in contents or size > most_bytes:
            return None
        contents[one.member_id] = bytes(one.assignment)
    if contents.keys() != shown.shown.keys():
        return None
    read = read_differences(contents)
    if read is None:
        return None
    leader_url = shown.shown[shown.leader].url
    first = read[shown.leader]
    owners = owners_of({member_id: said.runs for member_id, said in shown.shown.items()})
    for member_id, said in read.items():
        if (said.leader, said.leader_url) != (shown.leader, leader_url):
            return None
        if (said.error, said.config_offset) != (first.error, first.config_offset):
            return None
        if any(owners.setdefault(work, {member_id}) != {member_id} for work in said.assigned):
            return None
    return read


def owners_of(running: Mapping[str, WorkSet]) -> dict[Work, set[str]]:
    """Return who runs what. A worker that comes back late may run what another has by now."""
    owners: dict[Work, set[str]] = {}
    for member_id, works in running.items():
        for work in works:
            owners.setdefault(work, set()).add(member_id)
    return owners


def without(difference: Difference, works: WorkSet) -> Difference:
    """Return a difference that does not assign these."""
    if difference.assigned.isdisjoint(works):
        return difference
    return replace(difference, assigned=difference.assigned - works)
