"""TLS files that can no longer be used when a process starts."""

import datetime as dt

import pytest

from proxy.config.tls import ListenerTls
from proxy.metrics.registry import Metrics
from proxy.transport.tls_context import Certificates, read_files
from proxy.transport.tls_errors import TlsFilesError
from tests.proxy.fakes.certificates import Authority


def test_a_certificate_that_has_ended_meanwhile_is_better_than_none(tmp_path):
    """The other workers go on showing it."""
    certificate, key = Authority(tmp_path).issue("old", not_after=dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    tls = ListenerTls(certificate=str(certificate), key=str(key))
    metrics = Metrics()
    with pytest.raises(TlsFilesError, match="ended"):
        Certificates("a listener", tls, metrics)
    assert Certificates("a listener", tls, metrics, read_files(tls)).context is not None
    labels = {"where": "a listener"}
    assert metrics.registry.get_sample_value("epochgate_tls_is_current", labels) == 0
    refused = {**labels, "result": "refused"}
    assert metrics.registry.get_sample_value("epochgate_tls_reloads_total", refused) == 1
