"""The base of all messages, and the metaclass that turns a class body into a schema."""

from dataclasses import replace
from typing import Any, ClassVar, TypeVar, dataclass_transform

import msgspec

from protocol_codecs.schema import Field, Schema
from protocol_codecs.version_range import VersionRange


class MessageMeta(msgspec.StructMeta):
    """Collects the :class:`Field` objects of a class body into ``__schema__``."""

    def __new__(  # noqa: PYI034 - mypy refuses Self in a metaclass
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        api_key: int | None = None,
        versions: str = "0+",
        flexible: str = "none",
        beginning_of: "type[Message] | None" = None,
        **options: Any,
    ) -> "MessageMeta":
        """Make the class; ``api_key``, ``versions`` and ``flexible`` are those of a top-level message.

        ``beginning_of`` declares the first fields of another message, whose name, key and versions it takes. A
        subclass of a declared message adds fields behind those of its base, and declares key and versions anew.
        """
        fields = tuple(replace(v, name=k) for k, v in namespace.items() if isinstance(v, Field))
        for field in fields:
            namespace[field.name] = field.default
        fields = (*(field for base in bases for field in _fields_of(base)), *fields)
        schema = Schema(name, fields, api_key, VersionRange.parse(versions), VersionRange.parse(flexible))
        if beginning_of is not None:
            schema = replace(beginning_of.__schema__, fields=fields, fragment=True)
        namespace["__schema__"] = schema
        return super().__new__(mcls, name, bases, namespace, **options)


def _fields_of(base: type) -> tuple[Field, ...]:
    schema: Schema | None = getattr(base, "__schema__", None)
    return () if schema is None else schema.fields


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Message(msgspec.Struct, frozen=True, gc=False, metaclass=MessageMeta):
    """An immutable Kafka message or a part of one.

    Construct it by keywords; every field has a default. (Positions work at run time and are what the
    compiled decoders use; they are no interface, because a new version's field may come between.) Frozen
    values made of tuples cannot form cycles, so the garbage collector does not track them.
    """

    __schema__: ClassVar[Schema]


M = TypeVar("M", bound=Message)
