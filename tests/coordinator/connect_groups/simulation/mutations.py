"""Deliberate breakages of the coordinator, each of which some history or test by hand has to notice."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from coordinator.connect_groups import computing, coordinator, fencing, heartbeat, installing, replay
from coordinator.connect_groups.group import Part
from coordinator.connect_groups.member import Details, MemberState
from coordinator.connect_groups.reconciliation import reconciled
from coordinator.connect_groups.work import listed
from coordinator.errors import RequestRefused
from protocol_codecs.error_code import ErrorCode

Mutation = Callable[[], AbstractContextManager[None]]


@contextmanager
def _patched(where: Any, name: str, broken: Any) -> Iterator[None]:
    real = getattr(where, name)
    setattr(where, name, broken)
    try:
        yield
    finally:
        setattr(where, name, real)


def give_what_others_still_hold() -> AbstractContextManager[None]:
    """A worker gets its whole part at once, whoever holds it."""
    return _patched(
        heartbeat,
        "reconciled",
        lambda member, epoch, part, owners, owned: reconciled(member, epoch, part, {}, owned),
    )


def take_without_waiting() -> AbstractContextManager[None]:
    """What a worker has to give up is free at once."""
    return _patched(
        heartbeat,
        "reconciled",
        lambda member, epoch, part, owners, owned: reconciled(
            member, epoch, part, owners, None if owned is None else frozenset()
        ),
    )


def forget_what_is_not_given_up_yet() -> AbstractContextManager[None]:
    """A restarted coordinator does not know what a worker has been told to stop."""
    real = replay.records.with_current

    def broken(member: Any, value: Any) -> Any:
        return real(member, value).replace(pending_revocation=frozenset())

    return _patched(replay.records, "with_current", broken)


def fence_at_once_as_the_kip_says() -> AbstractContextManager[None]:
    """A worker with another epoch is removed before it has heard of it."""
    real = heartbeat.serve

    def broken(shard: Any, request: Any, call: Any) -> Any:
        try:
            return real(shard, request, call)
        except RequestRefused as refused:
            group = shard.groups.get(request.group_id)
            if refused.code == ErrorCode.FENCED_MEMBER_EPOCH and group is not None:
                fencing.remove(shard, group, request.member_id)
            raise

    return _patched_handler(heartbeat, broken)


def never_fence() -> AbstractContextManager[None]:
    """Sessions and the time to stop never end."""
    return _patched(fencing, "expire", lambda shard, group_id, member_id: None)


def never_take_another_to_compute() -> AbstractContextManager[None]:
    """A computing worker is waited for as long as it lives."""
    return _patched(computing, "on_timeout", lambda shard, timer: None)


def ask_the_same_worker_again() -> AbstractContextManager[None]:
    """The worker that let its time pass is asked next."""
    return _patched(computing, "_next", lambda group: next(iter(group.members)))


def install_what_names_nobody() -> AbstractContextManager[None]:
    """Connectors and tasks that are assigned to nobody are not missed."""
    return _lenient(lambda prepared, parts, request: True, {"assigned to nobody"})


def install_a_task_twice() -> AbstractContextManager[None]:
    """A task may be in two parts."""
    return _lenient(lambda prepared, parts, request: True, {"assigned twice"})


def install_for_an_unknown_worker() -> AbstractContextManager[None]:
    """A part may be a worker's that nobody knows."""
    return _lenient(lambda prepared, parts, request: True, {"no member"})


def install_what_is_not_configured() -> AbstractContextManager[None]:
    """A task may be one that is not configured."""
    return _lenient(lambda prepared, parts, request: True, {"not configured"})


def install_for_an_old_epoch() -> AbstractContextManager[None]:
    """An assignment may be for any epoch."""
    return _lenient(lambda prepared, parts, request: prepared is not None, {"it is for group epoch"})


def give_metadata_before_its_epoch() -> AbstractContextManager[None]:
    """A worker that still has to stop gets what the assignor said for the next epoch."""

    def broken(member: Any, epoch: int, part: Part, owners: Any, owned: Any) -> Any:
        moved = reconciled(member, epoch, part, owners, owned)
        return moved.replace(details=part.details) if moved.state is MemberState.UNREVOKED else moved

    return _patched(heartbeat, "reconciled", broken)


def keep_the_epoch_when_a_worker_goes() -> AbstractContextManager[None]:
    """A worker that goes does not move the group epoch, and what it had is nobody's."""
    real = fencing.records.group_epoch
    return _patched(fencing.records, "group_epoch", lambda group_id, epoch: real(group_id, _unmoved(epoch)))


def _unmoved(epoch: int) -> int:
    import sys  # noqa: PLC0415

    return epoch - 1 if sys._getframe(2).f_code.co_name == "remove" else epoch


def _patched_handler(module: Any, broken: Any) -> AbstractContextManager[None]:
    @contextmanager
    def patched() -> Iterator[None]:
        request = next(key for key, handler in coordinator.HANDLERS.items() if handler is module.serve)
        real = coordinator.HANDLERS[request]
        coordinator.HANDLERS[request] = broken
        try:
            yield
        finally:
            coordinator.HANDLERS[request] = real

    return patched()


def _lenient(may: Callable[..., bool], reasons: set[str]) -> AbstractContextManager[None]:
    """Let pass what is refused for one of these reasons only."""
    real = installing.checked

    def broken(prepared: Any, request: Any) -> Any:
        try:
            return real(prepared, request)
        except installing.InvalidAssignment as invalid:
            if prepared is None or not may(prepared, None, request):
                raise
            if not any(reason in str(invalid) for reason in reasons):
                raise
        details = Details(0, 1, str(request.group_epoch).encode())
        return prepared, {
            one.member_id: Part(frozenset(listed(one.connectors_and_tasks)), details)
            for one in request.members
        }

    return _patched(installing, "checked", broken)


MUTATIONS: tuple[Mutation, ...] = (
    give_what_others_still_hold,
    take_without_waiting,
    forget_what_is_not_given_up_yet,
    fence_at_once_as_the_kip_says,
    never_fence,
    never_take_another_to_compute,
    ask_the_same_worker_again,
    install_what_names_nobody,
    install_a_task_twice,
    install_for_an_unknown_worker,
    install_what_is_not_configured,
    install_for_an_old_epoch,
    give_metadata_before_its_epoch,
    keep_the_epoch_when_a_worker_goes,
)
