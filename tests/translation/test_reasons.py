"""Reasons as labels: a closed list, whatever clients send."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import translation
from protocol_codecs import ErrorCode
from protocol_codecs.classic_clients import OPTIONS, Offer, Refusal, refusal
from translation.reasons import CATEGORIES, Reason, category, options

HOSTILE = "x' is unknown\n\x1b[31mprotocol type is " + "y" * 30_000


@pytest.mark.parametrize("observed", ["", "observed: "])
@pytest.mark.parametrize(
    ("protocol_type", "protocols", "expected"),
    [
        ("connect", [Offer("default")], Reason.CONNECT),
        ("connect', not 'consumer'", [Offer("range")], Reason.PROTOCOL_TYPE),
        ("sr", [Offer("v0")], Reason.SCHEMA_REGISTRY),
        (HOSTILE, [Offer("range")], Reason.PROTOCOL_TYPE),
        ("consumer", [], Reason.NO_PROTOCOL),
        ("consumer", [Offer("range"), Offer("stream")], Reason.STREAMS),
        ("consumer", [Offer("stream' is of Kafka Streams")], Reason.UNKNOWN_ASSIGNOR),
        ("consumer", [Offer("range"), Offer(HOSTILE)], Reason.UNKNOWN_ASSIGNOR),
        ("consumer", [Offer(HOSTILE, subscription_user_data=True)], Reason.SUBSCRIPTION_USER_DATA),
        ("consumer", [Offer(HOSTILE, assignment_user_data=True)], Reason.ASSIGNMENT_USER_DATA),
        ("consumer", [Offer("no protocol is offered")], Reason.UNKNOWN_ASSIGNOR),
    ],
)
def test_what_a_client_names_is_not_in_the_category(observed, protocol_type, protocols, expected) -> None:
    refused = refusal(protocol_type, protocols, frozenset(), assignor_is_set=False)
    assert refused is not None
    assert refused.kind == expected
    why_not = refused.text
    assert category(f"{observed}{why_not}") == f"{observed}{expected}"
    if not observed:
        assert category(f"not converted: {why_not}") == expected
    assert options(f"{observed}{why_not}") == (OPTIONS[refused.kind] or None)


@pytest.mark.parametrize("text", [HOSTILE, "", "observed: ", "NOT_AN_ERROR", "other", f"observed: {HOSTILE}"])
def test_any_text_has_a_category_of_the_list(text) -> None:
    assert category(text) in CATEGORIES
    assert len(max(CATEGORIES, key=len)) < 64


def test_an_error_code_is_its_own_category() -> None:
    assert category(ErrorCode.REBALANCE_IN_PROGRESS.name) == "REBALANCE_IN_PROGRESS"


# -- the texts of the code -------------------------------------------------------------------------------------


def texts(expression: ast.expr, assigned: dict[str, list[ast.expr]]) -> Iterator[str]:
    """What an expression can be, with ``…`` for what is put into an f-string; nothing if a parameter decides."""
    match expression:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in parts)
        case ast.IfExp(body=one, orelse=other):
            yield from texts(one, assigned)
            yield from texts(other, assigned)
        case ast.Name(id=name):
            for value in assigned.get(name, []):
                yield from texts(value, assigned)


def reasons_of(function: ast.FunctionDef) -> Iterator[str]:
    """Texts that a function of the translation gives as a reason to pass through, or to begin a rebalance."""
    assigned: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            assigned.setdefault(node.targets[0].id, []).append(node.value)
    for node in ast.walk(function):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func).rpartition(".")[2]
        begins = called in ("emit_group", "change_state", "change") and any(
            word in ast.unparse(node)
            for word in (
                "PASSED_THROUGH",
                "ASSIGNMENT_CHANGED",
                "WITHHOLDING",
                "ADOPTED",
                "JOIN_FORWARDED",
            )
        )
        if begins or called in ("PassesThrough", "_relay_until_policy_change"):
            for argument in node.args:
                yield from texts(argument, assigned)


def test_every_reason_that_the_code_gives_has_a_category_of_its_own() -> None:
    found = {
        text
        for file in Path(translation.__file__).parent.rglob("*.py")
        for function in ast.walk(ast.parse(file.read_text()))
        if isinstance(function, ast.FunctionDef)
        for text in reasons_of(function)
    }
    without = {text for text in found if category(text).endswith(Reason.OTHER)}
    assert without == {"observed: …"}, "what follows it has a category of its own"
    given = {category(text) for text in found} | {
        Reason.TRANSLATABLE,
        Reason.CONVERSION_REFUSED,
        Reason.OTHER,
        *Refusal,  # the first test here
    }
    assert {str(one) for one in Reason} <= {str(one) for one in given}, "and each category is used"
