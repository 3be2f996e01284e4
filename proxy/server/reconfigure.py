"""Puts another configuration in force while clients are served: all of it, or nothing.

It has two phases. :func:`prepare` does all that can fail: it reads files, binds and opens new ports, and has a broker
answer where `upstream` changes. Nothing that serves is touched, and if anything fails all that was made is closed.
:meth:`Prepared.commit` then replaces what serves, in one step without a pause, and can't fail.

What changes how, and what needs a restart, is in :mod:`proxy.reload.config_plan`.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from protocol_codecs import CodecError
from proxy.config.document import ConfigError
from proxy.config.fleet import UnreadableSecret
from proxy.config.network import Address, Listener, Upstream, matched
from proxy.config.schema import Config
from proxy.config.tls import ListenerTls, UpstreamTls
from proxy.metrics.bounds import Bound
from proxy.metrics.registry import Metrics
from proxy.runtime.log_setup import configure, count_suppressed_lines
from proxy.server.compose import Parts
from proxy.server.served_listeners import Next, Served
from proxy.transport.bootstrap import contact
from proxy.transport.broker_calls import NoAnswerError
from proxy.transport.dialer import Dialer, Open, UnreachableError
from proxy.transport.listeners import BindError, BoundListener
from proxy.transport.node_table import NodeTable
from proxy.transport.tls_errors import TlsFilesError

if TYPE_CHECKING:
    from proxy.server.server import Server
    from proxy.transport.tls_context import Certificates, Contents, Material

_NO_ANSWER = (UnreachableError, NoAnswerError, OSError, CodecError)
_DRAINING = "the process is draining"
UPSTREAM = -1
"""As :data:`proxy.transport.tls_context.UPSTREAM`, which only processes with TLS load."""


class Prepared:
    """A configuration that is ready to be put in force by :meth:`commit`, unless :meth:`drop` is called."""

    def __init__(self) -> None:
        self.undo = ExitStack()
        """Closes what was opened for it."""
        self.steps: list[Callable[[], None]] = []
        """What puts it in force, in this order; none of it can fail."""

    def commit(self) -> None:
        """Put it in force."""
        self.undo.pop_all()
        for step in self.steps:
            step()

    def drop(self) -> None:
        """Close what was prepared."""
        self.undo.close()


async def prepare(
    server: "Server", parts: Parts, config: Config, contents: "Mapping[int, Contents]"
) -> Prepared:
    """Make all that ``config`` needs in a process that serves clients.

    ``contents`` replace the TLS files of listeners, by their number in ``config``, and of :data:`UPSTREAM`.

    :raises ConfigError: a part of it can't be had.
    """
    if server.is_draining():
        raise ConfigError(_DRAINING)
    prepared, problems = Prepared(), list[str]()
    try:
        try:
            prepared.steps.append(
                await _prepare_upstream(server, parts, config.upstream, contents.get(UPSTREAM))
            )
        except (TlsFilesError, _OtherCluster, *_NO_ANSWER) as error:
            problems.append(f"`upstream`: {error}")
        listeners = _Listeners(server, config, contents, prepared.undo)
        problems += listeners.problems
        for account in parts.accounts:
            try:
                prepared.steps.append(account.prepare(config, listeners.by_number))
            except UnreadableSecret as error:
                problems += str(error).splitlines()
        if server.is_draining():
            problems = [_DRAINING]
        prepared.steps += (listeners.commit, lambda: _commit_rest(server, parts, config))
    except BaseException:
        prepared.drop()
        raise
    if problems:
        prepared.drop()
        raise ConfigError(*problems)
    return prepared


# -- upstream ------------------------------------------------------------------------------------------------


class _OtherCluster(Exception):
    """The new bootstrap brokers are those of another cluster."""


async def _prepare_upstream(
    server: "Server", parts: Parts, upstream: Upstream, contents: "Contents | None"
) -> Callable[[], None]:
    """Have a broker answer that is reached by these settings.

    :raises TlsFilesError: a file can't be used.
    :raises _OtherCluster: it is of another cluster.
    """
    before, tls = server.config.upstream, upstream.tls
    if upstream == before:
        return lambda: None
    used: Certificates | Material | None = server.upstream_certificates
    if tls != before.tls:
        used = None if tls is None else _material(tls, contents)
    nodes, timeout_s = NodeTable(), upstream.connect_timeout_s
    dialer = Dialer(upstream.addresses, nodes, timeout_s, server.metrics, _opener(server, tls, used))
    await contact(dialer, nodes, timeout_s)
    known = parts.nodes.cluster_id
    if known is not None and nodes.cluster_id not in (known, None):
        raise _OtherCluster(f"its brokers are of the cluster {nodes.cluster_id}, and not of {known}")

    def commit() -> None:
        if (tls is None) != (before.tls is None):  # each broker has another port for it
            parts.nodes.forget(node_id for node_id in tuple(parts.nodes) if nodes.address_of(node_id) is None)
        server.listeners.learn_anew()
        parts.nodes.adopt(nodes)
        certificates = _in_use(tls, used, server.metrics, "upstream")
        if certificates is None and server.upstream_certificates is not None:
            server.upstream_certificates.forget()
        server.upstream_certificates = certificates
        parts.dialer.use(upstream.addresses, timeout_s, _opener(server, tls, certificates))

    return commit


def _opener(server: "Server", tls: UpstreamTls | None, used: "Certificates | Material | None") -> Open:
    if tls is None or used is None:
        return server.open_plainly
    from proxy.transport.tls_context import TlsOpener  # noqa: PLC0415 - many have no TLS

    return TlsOpener(tls, used).open


# -- listeners -----------------------------------------------------------------------------------------------


class _Listeners:
    """The listeners of a configuration, with the ports that they have not had before. Those accept connections."""

    def __init__(
        self, server: "Server", config: Config, contents: "Mapping[int, Contents]", undo: ExitStack
    ) -> None:
        self.problems: list[str] = []
        self.by_number: dict[int, Listener] = {}
        self._server, self._config = server, config
        self._found: list[tuple[int, BoundListener, Certificates | Material | None]] = []
        self._undo = undo
        served = server.listeners.all
        before = matched([one.bound.listener for one in served], config.listeners)
        for place, (listener, continues) in enumerate(zip(config.listeners, before, strict=True)):
            one = None if continues is None else served[continues]
            number = server.listeners.new_number() if one is None else one.number
            self.by_number[number] = listener
            certificates = bound = None
            try:
                certificates = _certificates(listener, one, contents.get(place))
            except TlsFilesError as error:
                self.problems.append(f"`listeners[{place}].tls`: {error}")
            try:
                bound = self._open(listener, one)
            except BindError as error:
                self.problems.append(f"`listeners[{place}]`: {error}")
            if bound is not None:
                self._found.append((number, bound, certificates))

    def _open(self, listener: Listener, before: Served | None) -> BoundListener:
        had = set() if before is None else {*before.bound.ports.values()}  # there may be thousands
        bound = self._server.listeners.binder.bind(listener, None if before is None else before.bound)
        new = [port for port in bound.ports.values() if port not in had]
        for port in new:
            self._undo.callback(port.close)
        for port in new:
            port.listen()
        return bound

    def commit(self) -> None:
        """Serve them and no others."""
        listeners = self._server.listeners
        certificates_before = [one.certificates for one in listeners.all if one.certificates is not None]
        found = [Next(number, bound, self._in_use(bound.listener, one)) for number, bound, one in self._found]
        listeners.replace(found, self._config.limits)
        named = {one.certificates.where for one in found if one.certificates is not None}
        for one in certificates_before:
            if one.where not in named:
                one.forget()

    def _in_use(self, listener: Listener, found: "Certificates | Material | None") -> "Certificates | None":
        where = f"listener {Address(listener.bind, listener.port)}"
        return _in_use(listener.tls, found, self._server.metrics, where, listener.server_names)


def _certificates(
    listener: Listener, before: Served | None, contents: "Contents | None"
) -> "Certificates | Material | None":
    """Return the certificates of a listener: those before, if it has the same files for the same names.

    :raises TlsFilesError: a file can't be used.
    """
    if listener.tls is None:
        return None
    if before is not None:
        was = before.bound.listener
        if (was.tls, was.server_names) == (listener.tls, listener.server_names):
            return before.certificates
    return _material(listener.tls, contents, listener.server_names)


# -- certificates -------------------------------------------------------------------------------------------


def _material(
    tls: ListenerTls | UpstreamTls, contents: "Contents | None", names: Collection[str] = ()
) -> "Material":
    from proxy.transport.tls_context import material  # noqa: PLC0415 - many have no TLS

    return material(tls, contents, names=names)


def _in_use(
    tls: ListenerTls | UpstreamTls | None,
    found: "Certificates | Material | None",
    metrics: Metrics,
    where: str,
    names: Collection[str] = (),
) -> "Certificates | None":
    """Return what was found as that which is in use."""
    if tls is None or found is None:
        return None
    from proxy.transport.tls_context import Certificates  # noqa: PLC0415 - many have no TLS

    return found if isinstance(found, Certificates) else Certificates(where, tls, metrics, None, names, found)


# -- the rest ------------------------------------------------------------------------------------------------


def _commit_rest(server: "Server", parts: Parts, config: Config) -> None:
    limits, before, metrics = config.limits, server.config, server.metrics
    parts.connections.set_limits(limits, sum(bound.descriptors for bound in server.listeners.bound))
    parts.held_calls.resize(limits.group_calls_held_max_bytes)
    if config.log != before.log:
        configure(config.log)
        count_suppressed_lines(lambda: metrics.hit(Bound.LOG_LINES))
    server.config = config
