"""The supervisor keeps the last TLS files that could be used."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from proxy.config.schema import Config, Listener, Upstream
from proxy.config.tls import UpstreamTls
from proxy.transport.tls_errors import TlsFilesError
from proxy.workers.last_good_tls import LastGoodTls
from tests.proxy.fakes.certificates import Authority


def test_the_last_certificates_that_could_be_used_are_kept(tmp_path):
    authority = Authority(tmp_path)
    tls = authority.listener_tls(client_ca=str(authority.file), client_auth="required")
    listener = Listener(advertised_host="proxy", nodes={"0": 9100}, tls=tls)
    kept = LastGoodTls(
        Config(upstream=Upstream(bootstrap=("a:1",), tls=UpstreamTls()), listeners=(listener,))
    )
    assert set(kept.files) == {Path(tls.certificate), Path(tls.key), authority.file}
    before = kept.contents[0]
    assert before == {str(file): file.read_bytes() for file in kept.files}
    Path(tls.key).write_bytes(Path(authority.issue("another")[1]).read_bytes())
    kept.reload("a test")
    assert kept.contents[0] == before, "this key is that of another certificate"
    authority.issue("proxy")
    kept.reload("a test")
    assert kept.contents[0] == {str(file): file.read_bytes() for file in kept.files} != before


def test_files_that_are_named_as_before_are_not_read_again(tmp_path):
    tls = Authority(tmp_path).listener_tls()
    first = Listener(advertised_host="proxy", port=0, nodes={"0": 0})
    secured = Listener(advertised_host="proxy", port=0, nodes={"0": 0}, tls=tls)
    upstream = Upstream(bootstrap=("a:1",))
    before = LastGoodTls(Config(upstream=upstream, listeners=(secured,)))
    Path(tls.key).write_text("no key")
    now = LastGoodTls(Config(upstream=upstream, listeners=(first, secured)), before)
    assert now.contents == {1: before.contents[0]}
    names = {"nodes": {}, "advertised_host": None, "nodes_by_name": "b{node}.x", "bootstrap_name": "x"}
    with pytest.raises(TlsFilesError):
        LastGoodTls(Config(upstream=upstream, listeners=(replace(secured, **names),)), before)
