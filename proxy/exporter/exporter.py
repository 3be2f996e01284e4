"""``epochgate exporter``: reads all groups every so often (``exporter.every_s``), serves the last readings, and
forgets those that are too old (``forget_after_s``).
"""

import signal
from collections.abc import Iterator, Mapping
from functools import partial

import structlog
import trio
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from proxy.admin.admin_http import serve_admin
from proxy.config.exporter import Exporter as Settings
from proxy.config.fleet import Property
from proxy.config.schema import Address, Config
from proxy.exporter.broker_connection import BrokerAccount, UnsupportedAccount
from proxy.exporter.census import Census
from proxy.exporter.cluster_census import ClusterCount, count_cluster
from proxy.exporter.families import LISTED, LeftOut, Shown, cluster_families, families
from proxy.groups.lag.reader import PATIENCE_S, LagReader
from proxy.groups.lag.readings import GroupLag, Unknown
from proxy.transport.listeners import bind, port_of

_CENSUS_PATIENCE_S = 12.0
"""A little more than one request to a broker may take, so a dead broker's groups stay in the list for that reason."""

_logger = structlog.get_logger()


class Exporter(Collector):
    """The exporter of one process."""

    def __init__(self, settings: Settings, account: Mapping[str, Property]) -> None:
        self._settings = settings
        self._pattern = settings.pattern()
        self._reader = LagReader(account)
        self._census = Census(self._reader.asking)
        self._groups: list[str] = []
        self._beyond = 0
        self._said: str | None = None
        self._account = account
        self._counted: tuple[float, ClusterCount] | None = None
        """The last count of the cluster's groups, and until when it is shown."""

    def app(self) -> Starlette:
        """The ASGI application: `/metrics`, and `/healthz` for Kubernetes."""

        async def expose(_request: Request) -> Response:
            return Response(generate_latest(self), media_type=CONTENT_TYPE_LATEST)

        async def alive(_request: Request) -> Response:
            return JSONResponse({"alive": True})

        return Starlette(routes=[Route("/metrics", expose), Route("/healthz", alive)])

    async def run(self) -> None:
        """Read, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._reader.run)
            nursery.start_soon(self._count_cluster)
            while True:
                next_at = trio.current_time() + self._settings.every_s
                await self._read()
                await trio.sleep_until(next_at)

    async def _read(self) -> None:
        await self._census.list_groups(_CENSUS_PATIENCE_S)
        wanted = sorted(group for group in self._census.groups if self._pattern.fullmatch(group))
        self._groups = wanted[: self._settings.max_groups]
        self._beyond = len(wanted) - len(self._groups)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._census.count_members, self._groups, PATIENCE_S)
            readings = await self._reader.read(self._groups)
        self._say(
            {
                str(why)
                for one in readings.values()
                if (why := one if isinstance(one, Unknown) else one.stale) is not None
            }
        )

    async def _count_cluster(self) -> None:
        try:
            account = BrokerAccount(self._account)
        except UnsupportedAccount as error:
            _logger.warning("the cluster's groups are not counted", reason=str(error))
            return
        said: tuple[str, ...] | None = None
        while True:
            began_at = trio.current_time()
            count = await count_cluster(account)
            ended_at = trio.current_time()
            # The next count may take as long.
            self._counted = 2 * ended_at - began_at + self._settings.forget_after_s, count
            if count.reasons != said:
                said = count.reasons
                if count.is_complete:
                    _logger.info("the cluster's groups are counted", groups=count.groups.total())
                else:
                    _logger.warning(
                        "the count of the cluster's groups lacks some", reasons="; ".join(said[:3])
                    )
            await trio.sleep_until(began_at + self._settings.every_s)

    def _say(self, reasons: set[str]) -> None:
        said = "; ".join(sorted(reasons)[:3])
        if said != self._said:
            self._said = said
            if said:
                _logger.warning("groups could not be read", reasons=said)
            else:
                _logger.info("all groups are read", groups=len(self._groups))

    def collect(self) -> Iterator[Metric]:
        """The metrics now."""
        settings, now = self._settings, trio.current_time()
        shown, unknown = list[Shown](), 0
        for group, reading in self._reader.known(self._groups).items():
            if not isinstance(reading, GroupLag) or reading.age_s(now) > settings.forget_after_s:
                unknown += 1
                continue
            members = self._census.members.get(group)
            is_old = members is None or now - members.at > settings.forget_after_s
            shown.append(
                Shown(
                    lag=reading,
                    age_s=reading.age_s(now),
                    members=None if members is None or is_old else members.members,
                )
            )
        yield from families(
            shown,
            LeftOut(max_groups=self._beyond, unknown=unknown),
            names=settings.names,
            cluster=settings.cluster,
            max_series=settings.max_series,
        )
        complete = GaugeMetricFamily(
            LISTED,
            "1 if all brokers have listed their groups in the last reading",
        )
        complete.add_metric((), self._census.groups != frozenset() and self._census.missing is None)
        yield complete
        yield from cluster_families(
            None if self._counted is None or self._counted[0] < now else self._counted[1]
        )


async def serve_exporter(config: Config, account: Mapping[str, Property]) -> None:
    """Read and serve until SIGTERM or SIGINT.

    :raises BindError: the port can't be bound.
    """
    assert config.exporter is not None  # noqa: S101  who calls has looked
    sock = bind(config.exporter.bind, config.exporter.port)
    _logger.info("listening", address=str(Address(config.exporter.bind, port_of(sock))))
    exporter = Exporter(config.exporter, account)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(exporter.run)
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            await serve_admin(sock, exporter.app(), partial(anext, aiter(signals)), config.exporter.hosts)
        nursery.cancel_scope.cancel()
