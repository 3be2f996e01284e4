"""Clients with certificates: what the account may do that makes tokens, and whom the proxy would speak for."""

from proxy.admin.preflight_report import Finding, Source
from proxy.config.identity import IdentityMode
from proxy.config.schema import Config
from proxy.preflight.checks.check import Check, Found, nodes, quoted
from proxy.preflight.facts import Acl, Facts, Unknown

_USER = "User:"
_EVERYBODY = "User:*"
_ANY_USER = ("*", _EVERYBODY)
_UNKNOWN = "UNKNOWN"
"""librdkafka's word for a resource and an operation that it does not know: users, and CREATE_TOKENS (KIP-373)."""

_OF_THE_CLUSTER = frozenset({"ALL", "ALTER", "ALTER_CONFIGS", "CLUSTER_ACTION"})
"""Operations on the cluster with which somebody gives himself every other right, or is a broker."""

_BUILDER = "principal.builder.class"
_OWN_BUILDER = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"


def _account(config: Config | None) -> str | None:
    """The account that makes tokens, as a principal; None if nothing does."""
    if config is None or config.identity is None or config.identity.account is None:
        return None
    makes = any(listener.identity is IdentityMode.DELEGATION_TOKEN for listener in config.listeners)
    return f"{_USER}{config.identity.account.username}" if makes else None


def _powerful(facts: Facts) -> list[str]:
    """Principals who have the cluster, as far as it tells: by ACLs. Brokers show nobody their `super.users`."""
    told = [settings.get("super.users", "") for settings in facts.settings().values()]
    found = {one.strip() for text in told for one in text.split(";")}
    for acl in () if isinstance(facts.acls, Unknown) else facts.acls:
        if acl.permission == "ALLOW" and acl.resource == "CLUSTER" and acl.operation in _OF_THE_CLUSTER:
            found.add(acl.principal)
    return sorted(found - {""})


def _is_too_much(acl: Acl, powerful: list[str]) -> bool:
    if acl.name in _ANY_USER or (acl.pattern == "PREFIXED" and _USER.startswith(acl.name)):
        return True
    return any(acl.covers(user) for user in powerful)


def _rights(facts: Facts) -> Found:
    account = _account(facts.config)
    if account is None or isinstance(facts.acls, Unknown):
        return
    powerful = _powerful(facts)
    if account in powerful or _EVERYBODY in powerful:
        yield Finding(
            check="identity_rights",
            what=f"the account of `identity.account` ({account}) may change the cluster: who steals it has it",
            do="take the ACLs on the cluster away from it and from `User:*`: it needs CREATE_TOKENS on the users that "
            "it speaks for, and no more",
        )
    too_much = [
        acl
        for acl in facts.acls
        if acl.principal in (account, _EVERYBODY)
        and acl.permission == "ALLOW"
        and acl.resource in ("USER", _UNKNOWN)
        and acl.operation in ("CREATE_TOKENS", _UNKNOWN, *(("ALL",) if acl.resource == "USER" else ()))
        and _is_too_much(acl, powerful)
    ]
    if too_much:
        names = (f"{acl.name} ({acl.pattern}) for {acl.principal}" for acl in too_much)
        yield Finding(
            check="identity_rights",
            what=f"{account} may make tokens of principals who have the cluster, or of everybody: {quoted(names)}. Who "
            "steals the account has the cluster",
            do="allow CREATE_TOKENS on single users, or on a prefix with which no super user and no broker begins",
        )


def _principals(facts: Facts) -> Found:
    config = facts.config
    if config is None or config.identity is None:
        return
    if not any(listener.speaks_for_clients for listener in config.listeners):
        return
    from proxy.identity.spoken_for import BadPattern, SpokenFor  # noqa: PLC0415 - only where its key is set

    try:
        spoken_for = SpokenFor(config.identity.allow, config.identity.deny)
    except BadPattern:  # `epochgate config check` names it
        return
    too_many = [
        one for one in _powerful(facts) if one == _EVERYBODY or spoken_for.includes(one.removeprefix(_USER))
    ]
    if too_many:
        yield Finding(
            check="identity_principals",
            what=f"`identity.allow` lets the proxy speak for principals who may change the cluster: {quoted(too_many)}",
            do="name them in `identity.deny`, and with them the brokers' own principals and `super.users`. Take the "
            "ACLs on the cluster away from `User:*`",
        )
    other = [
        node_id
        for node_id, settings in facts.settings().items()
        if settings.get(_BUILDER, _OWN_BUILDER) != _OWN_BUILDER
    ]
    if other:
        yield Finding(
            check="identity_principals",
            what=f"{nodes(other)} have a {_BUILDER} of their own: which principal a certificate means there is not "
            "known here",
            do="use `identity: mapped`, with the principals that it makes",
        )


CHECKS = (
    Check(
        "identity_rights",
        "The account that makes delegation tokens may make none of everybody, or of who may change the cluster.",
        frozenset({Source.ACLS, Source.CONFIGURATION, Source.SETTINGS}),
        _rights,
    ),
    Check(
        "identity_principals",
        "The proxy speaks for nobody who may change the cluster, and brokers make principals as Kafka does.",
        frozenset({Source.ACLS, Source.CONFIGURATION, Source.SETTINGS}),
        _principals,
    ),
)
