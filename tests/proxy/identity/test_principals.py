"""The principal of a client certificate: the subject's text, Kafka's rules, and what has no principal."""

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.identity.client_certificate import CertificatePrincipals, NoClientPrincipal
from proxy.identity.der import DerError, object_identifier, only
from proxy.identity.distinguished_name import UnusableName, rfc2253
from proxy.identity.principal_rules import BadRules, NoPrincipal, PrincipalRules
from tests.proxy.identity.names import IA5, OIDS, PRINTABLE, UTF8, certificate, name, tlv
from tests.skips import Need, without
from tools.kafka.jars import KafkaUnavailableError
from tools.principal_oracle import oracle

ALICE = name([("O", UTF8, b"acme")], [("OU", UTF8, b"payments")], [("CN", UTF8, b"alice")])

# -- the subject ---------------------------------------------------------------------------------------------

SUBJECTS = {
    "CN=alice,OU=payments,O=acme": ALICE,
    "1.2.840.113549.1.9.1=#1603614062,CN=alice": name(
        [("CN", UTF8, b"alice")], [("emailAddress", IA5, b"a@b")]
    ),
    "CN=a+UID=b": name([("CN", PRINTABLE, b"a"), ("UID", PRINTABLE, b"b")]),
    'CN=\\ \\ a \\,b\\#\\"\\\\\\+\\<\\>\\;\\=\\ ': name([("CN", UTF8, b'  a ,b#"\\+<>;= ')]),
    "CN=\\ \\ ": name([("CN", UTF8, b"  ")]),
    "CN=жé😀": name([("CN", UTF8, "жé😀".encode())]),
    "CN=#020131": name([("CN", 2, b"1")]),
    "2.5.4.5=#13023132": name([("serialNumber", PRINTABLE, b"12")]),
    "L=d,DC=e,ST=s,STREET=r,C=de": name(
        [("C", PRINTABLE, b"de")],
        [("STREET", UTF8, b"r")],
        [("ST", UTF8, b"s")],
        [("DC", IA5, b"e")],
        [("L", UTF8, b"d")],
    ),
}


@pytest.mark.parametrize("text", SUBJECTS)
def test_a_subject_in_rfc_2253_form(text):
    assert rfc2253(SUBJECTS[text]) == text


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        (name(), "empty"),
        (name([("CN", 0x1E, b"\0A")]), "UTF-16"),
        (name([("CN", UTF8, b"\xff")]), "encoding"),
        (name([("CN", PRINTABLE, b"\xe9")]), "encoding"),
        (name([("CN", UTF8, b"a\nb")]), "control character"),
        (name([("CN", UTF8, b"a\0")]), "control character"),
        (name([("CN", UTF8, "a\u2028b".encode())]), "control character"),
        (name([("CN", UTF8, b"x" * 5000)]), "more than 4096"),
        (name(*[[("CN", UTF8, b"x")]] * 65), "more than 64"),
        (b"", "malformed"),
        (ALICE[:-1], "malformed"),
        (ALICE + b"\0", "malformed"),
        (tlv(0x30, tlv(0x31, b"")), "malformed"),
        (tlv(0x30, tlv(0x31, tlv(0x30, b""))), "malformed"),
        (tlv(0x30, tlv(0x31, tlv(0x30, tlv(6, b"\x80") + tlv(12, b"a")))), "malformed"),
        (tlv(0x30, tlv(0x31, tlv(0x30, tlv(6, b"\xff" * 99) + tlv(12, b"a")))), "malformed"),
        (b"\x30\x84\xff\xff\xff\xff", "malformed"),
        (b"\x3f\x81\x01\x00", "malformed"),
    ],
)
def test_a_subject_that_can_be_read_in_two_ways_or_not_at_all_is_refused(subject, said):
    with pytest.raises(UnusableName, match=said) as caught:
        rfc2253(subject)
    assert "alice" not in str(caught.value)


@given(st.binary(max_size=80))
def test_no_bytes_raise_anything_else(data):
    for read in (
        lambda: rfc2253(data),
        lambda: only(data, 0x30),
        lambda: object_identifier(data),
        lambda: CertificatePrincipals(PrincipalRules("DEFAULT")).principal_of(data, 0),
    ):
        with contextlib.suppress(UnusableName, DerError, NoClientPrincipal):
            read()


# -- the rules -----------------------------------------------------------------------------------------------

RULES = [
    ("DEFAULT", "CN=a", "CN=a"),
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=kafka,OU=ServiceUsers,O=x", "kafka"),
    ("RULE:^CN=(.*?),OU=S.*$/$1/L , DEFAULT", "CN=Alice,OU=S", "alice"),
    ("RULE:^CN=(.*?),OU=S.*$/$1/L,DEFAULT", "CN=Alice,OU=T", "CN=Alice,OU=T"),
    ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U", "O=x,cn=bob.1", "BOB.1"),
    ("RULE:^.*$/x/", "CN=a", "x"),
    ("RULE:.*/x/", "CN=a", "xx"),
    ("RULE:(a|ab)/<$1>/", "ab", "<a>b"),
    ("RULE:(a)/$12/", "a", "a2"),
    ("RULE:(a)/$2/", "a", "$2"),
    ("RULE:(a)/$01/", "a", "a"),
    ("RULE:(a)/$10x/", "a", "a0x"),
    ("RULE:(a)/$0/U", "a", "A"),
    (r"RULE:(a)/\$1\//", "a", "$1/"),
    (r"RULE:a\/b/c/", "a/b", "c"),
    (r"RULE:^CN=(\w+)\,?.*$/$1/", "CN=bob,O=x", "bob"),
    ("RULE:(a*)(b)?/[$2]/", "aa", "[][]"),
    (",,DEFAULT,", "a", "a"),
    ("  RULE:(?:a)/z/ ,", "a", "z"),
    ("RULE:x/y/,RULE:(a)/z/", "a", "z"),
    ("RULE:(.*)/$1/U", "straße İ", "STRASSE İ"),
    ("RULE:(.*)/$1/L", "İΣ ΑΣ", "i̇ς ας"),
]


@pytest.mark.parametrize(("rules", "subject", "principal"), RULES)
def test_a_rule_makes_a_principal(rules, subject, principal):
    assert PrincipalRules(rules).name_of(subject) == principal


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("", "no rule"),
        (" , ", "no rule"),
        ("DEFAULTx", "neither"),
        ("default", "neither"),
        ("RULE:a", "neither"),
        ("RULE:a/b/Ux", "neither"),
        ("RULE:a/b/L y", "neither"),
        ("RULE:(a/b/", "can't be used"),
        ("RULE:a/$1/", "pattern has none"),
        ("RULE:(a)/$/", "number of a group"),
        ("RULE:(a)/${x}/", "number of a group"),
        (r"RULE:(a)\1/x/", "not supported"),
        (r"RULE:\p{Alpha}/x/", "not supported"),
        (r"RULE:\bx/x/", "not supported"),
        ("RULE:[a&&b]/x/", "class within a class"),
        ("RULE:[a[b]]/x/", "class within a class"),
        ("RULE:[]a]/x/", "start of a class"),
        ("RULE:[^]a]/x/", "start of a class"),
        ("RULE:(?i)a/x/", "only"),
        ("RULE:(?=a)a/x/", "only"),
        ("RULE:a{1001}/x/", "can't be used"),
        ("RULE:((a{100}){100}){100}/x/", "can't be used"),
        ("DEFAULT," * 101, "more than 100"),
        ("RULE:" + "a" * 17_000 + "/x/", "more than 16384"),
    ],
)
def test_rules_that_brokers_would_read_differently_are_refused(rules, said):
    with pytest.raises(BadRules, match=said):
        PrincipalRules(rules)


@pytest.mark.parametrize(
    ("rules", "subject"),
    [("RULE:x/y/", "CN=a"), ("RULE:.*//", "CN=a"), ("RULE:a*/" + "x" * 4000 + "/", "aa")],
)
def test_a_subject_without_a_principal(rules, subject):
    with pytest.raises(NoPrincipal) as caught:
        PrincipalRules(rules).name_of(subject)
    assert subject not in str(caught.value)


def test_a_pattern_that_costs_java_minutes_costs_nothing_here():
    rules = PrincipalRules("RULE:^(a+)+$/x/,DEFAULT")
    began = time.process_time()
    assert rules.name_of("a" * 4000 + "b") == "a" * 4000 + "b"
    assert time.process_time() - began < 0.5


# -- the certificate -----------------------------------------------------------------------------------------


def test_a_certificate_has_the_principal_of_its_subject_until_it_ends():
    principals = CertificatePrincipals(PrincipalRules("RULE:^CN=(.*?),.*$/$1/"))
    of_alice = certificate(ALICE, b"300101000000Z")
    for _ in range(2):
        assert principals.principal_of(of_alice, 0) == "alice"
    with pytest.raises(NoClientPrincipal, match="expired"):
        principals.principal_of(of_alice, 1893456001)


def test_a_far_end_of_validity_is_read_too():
    principals = CertificatePrincipals(PrincipalRules("DEFAULT"))
    assert principals.principal_of(certificate(ALICE, b"99991231235959Z", 0x18), 4e9)
    with pytest.raises(NoClientPrincipal, match="expired"):
        principals.principal_of(certificate(ALICE, b"500101000000Z"), 0)


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        tlv(0x30, b""),
        tlv(0x30, tlv(0x30, b"")),
        certificate(ALICE, b"no time"),
        certificate(ALICE, b"300101000000Z", 2),
        certificate(name()),
    ],
)
def test_what_is_no_certificate_has_no_principal(wrong):
    with pytest.raises(NoClientPrincipal):
        CertificatePrincipals(PrincipalRules("DEFAULT")).principal_of(wrong, 0)


# -- Kafka's own classes -------------------------------------------------------------------------------------


def test_java_writes_the_same_subjects():
    subjects = [*SUBJECTS.values()]
    for tag in (UTF8, PRINTABLE, IA5, 0x14, 0x1B, 0x12, 0x1A, 0x1C, 2, 4):
        subjects += [name([(kind, tag, b"x, +y ")], [("CN", tag, b" z\\")]) for kind in OIDS]
    try:
        told = oracle.names(subjects)
    except KafkaUnavailableError as error:
        without(Need.KAFKA, error)
    assert [rfc2253(one) for one in subjects] == told


def test_kafkas_mapper_makes_the_same_principals():
    patterns = [
        "CN=(.*?),OU=(.*?),.*",
        "^.*CN=([^,]+).*$",
        "(.*)",
        "C(N|N=a)",
        "([a-z]*)|CN.*",
        r"(\w+)=(\S*)",
        "x*",
    ]
    replacements = ["$1", "$2@$1", "$11", "$0", r"a\$1", "$3", "x", ""]
    names = ["CN=Alice,OU=Pay\\,ments,O=acme", "CN=a", "x", "", "OU=b,CN=Straße"]
    cases = [(rules, subject) for rules, subject, _ in RULES]
    cases += [
        (f"RULE:{pattern}/{replacement}/{case},DEFAULT", subject)
        for pattern in patterns
        for replacement in replacements
        for case in ("", "L", "U")
        for subject in names
    ]
    try:
        told = oracle.mapped(cases)
    except KafkaUnavailableError as error:
        without(Need.KAFKA, error)
    compared = 0
    for (rules, subject), kafkas in zip(cases, told, strict=True):
        try:
            ours: str | None = PrincipalRules(rules).name_of(subject)
        except (BadRules, NoPrincipal):
            assert not kafkas or rules.startswith("RULE:x*/"), f"only we refuse {rules!r} for {subject!r}"
            continue
        compared += 1
        assert ours == kafkas, f"{rules!r} for {subject!r}"
    assert compared > 500
