"""Reads the Java exceptions behind the errors of Spark."""

from typing import Any

_DEEPEST = 20
"""So many causes of an error are looked at."""


def of(error: BaseException) -> Any:
    """Return the Java exception behind one of py4j or PySpark; None for others."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def chain(error: BaseException) -> list[Any]:
    """Return the Java exception and its causes, the innermost last."""
    found, one = list[Any](), of(error)
    while one is not None and len(found) < _DEEPEST:
        found.append(one)
        one = one.getCause()
    return found


def classes(error: BaseException) -> set[str]:
    """Return the names of the classes in the chain, without packages."""
    return {one.getClass().getSimpleName() for one in chain(error)}


def messages(error: BaseException) -> list[str]:
    """Return the first line of each message, the innermost last."""
    said = (str(one.getMessage() or one.getClass().getName()) for one in chain(error))
    return [text.strip().partition("\n")[0] for text in said]
