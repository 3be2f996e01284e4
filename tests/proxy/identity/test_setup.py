"""What the proxy speaks for clients with, while another configuration waits to be put in force."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from proxy.config.identity import Identity, IdentityAccount
from proxy.config.schema import Address
from proxy.identity.setup import Identities
from proxy.metrics.registry import Metrics
from proxy.transport.dialer import Dialer
from proxy.transport.node_table import NodeTable
from tests.proxy.fakes.serving import config_for

MAPPED = '"CN=alice": {{username: alice, password: "{}"}}\n'


@pytest.mark.parametrize("moves", [False, True])
async def test_what_was_read_again_meanwhile_is_not_undone(tmp_path: Path, moves: bool):
    """A worker waits for the others between the two phases; what was revoked by then must not come back."""
    mapped, password = tmp_path / "mapped.yaml", tmp_path / "password"
    mapped.write_text(MAPPED.format("first"))
    password.write_text("first")
    identity = Identity(
        allow=("CN=.*",),
        mapped_file=str(mapped),
        account=IdentityAccount(username="proxy", password_file=str(password)),
        plaintext_upstream=True,
    )
    config = replace(config_for({}), identity=identity)
    metrics = Metrics()
    identities = Identities(config, Dialer((Address("kafka", 9092),), NodeTable(), 1.0, metrics), metrics)
    changed = replace(identity, deny=("CN=bob",))
    if moves:
        for file in (mapped, password):
            file.with_suffix(".new").write_text(file.read_text().replace("first", "other"))
        account = replace(identity.account, password_file=str(password.with_suffix(".new")))
        changed = replace(changed, mapped_file=str(mapped.with_suffix(".new")), account=account)
    put_in_force = identities.prepare(replace(config, identity=changed))

    mapped.write_text(MAPPED.format("second"))
    password.write_text("second")
    for one in identities.reloadables:
        one.reload("a test")
    put_in_force()
    expected = "other" if moves else "second"
    assert (await identities._mapped.credentials_of("CN=alice")).password == expected
    assert identities._account._account._creating.credentials.password == expected
