"""Generates the encoder of a message in one version from its declaration.

The function collects byte pieces and joins them once. Fields of fixed width that follow each other, lengths and counts
of the legacy form included, make one piece by one ``struct`` call (a *run*). As in decoders, the generated function
tracks no errors: on failure the reference codec finds out what is wrong.
"""

from collections.abc import Callable
from typing import Any

from protocol_codecs import kinds, reference
from protocol_codecs.compiler import rows, runtime
from protocol_codecs.compiler.source import Source, identifier
from protocol_codecs.kinds import Kind
from protocol_codecs.message import Message
from protocol_codecs.schema import Field

_ZERO_BYTE = ("x", "")


class EncoderBuilder:
    """Generates the encoder of one message in one version."""

    def __init__(self, message_type: type[Message], version: int) -> None:
        self.source = Source()
        self._message_type = message_type
        self._version = version
        self._flexible = version in message_type.__schema__.flexible
        self._run: list[tuple[str, str]] = []
        self._pieces: list[str] = []
        self._spilled = False

    def build(self) -> Callable[[Any], bytes]:
        """Compile the function; its source stays in ``source``."""
        version = self._version
        self.source.name("ask_reference", lambda message: reference.encode(message, version))
        self.source.name("GIVE_UP", runtime.GIVE_UP)
        self.source.name("join", b"".join)
        with self.source.block("def encode(message):"):
            with self.source.block("try:"):
                self._struct(self._message_type, "message", "")
                self._flush()
                if self._spilled:
                    self._spill()
                    self.source.add("return join(parts)")
                else:
                    self.source.add(f"return join({_tuple(self._pieces)})")
            with self.source.block("except GIVE_UP:"):
                self.source.add("return ask_reference(message)")
        return self.source.function("encode", f"encoder of {self._message_type.__name__} v{version}")

    # -- pieces and runs ----------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Turn the run into a piece."""
        run, self._run = self._run, []
        codes = "".join(code for code, _ in run)
        values = [value for _, value in run if value]
        if values:
            pack = self.source.name(f"pack_{identifier(codes)}", runtime.packer(codes))
            self._pieces.append(f"{pack}({', '.join(values)})")
        elif run:
            self._pieces.append(repr(bytes(len(run))))

    def _piece(self, expression: str) -> None:
        self._flush()
        self._pieces.append(expression)

    def _spill(self) -> None:
        """Emit code that moves the pieces into the list of parts, so that statements may follow."""
        self._flush()
        pieces, self._pieces = self._pieces, []
        if not self._spilled:
            self.source.add(f"parts = [{', '.join(pieces)}]")
        elif len(pieces) == 1:
            self.source.add(f"parts.append({pieces[0]})")
        elif pieces:
            self.source.add(f"parts += {_tuple(pieces)}")
        self._spilled = True

    def _helper(self, function: Any) -> str:
        return self.source.name(function.__name__, function)

    def _give_up_if(self, condition: str) -> None:
        with self.source.block(f"if {condition}:"):
            self.source.add(f"raise {self._helper(runtime.GiveUpError)}")

    # -- structs and fields -------------------------------------------------------------------------------

    def _struct(self, message_type: type[Message], owner: str, prefix: str) -> None:
        fields = message_type.__schema__.fields
        for field in fields:
            if field.plain_in(self._version):
                variable = self.source.variable(prefix, message_type.__name__, field.name)
                self._field(field, f"{owner}.{field.name}", variable)
            elif not field.tagged_in(self._version) and not field.ignorable:
                self._give_up_if(self._differs(message_type, field, f"{owner}.{field.name}"))
        if self._flexible and not message_type.__schema__.fragment:
            tagged = [field for field in fields if field.tagged_in(self._version)]
            if tagged:
                self._tagged_fields(message_type, tagged, owner, prefix)
            else:
                self._run.append(_ZERO_BYTE)

    def _differs(self, message_type: type[Message], field: Field, value: str) -> str:
        if field.default is None:
            return f"{value} is not None"
        if field.default == () or isinstance(field.default, int | str):
            return f"{value} != {field.default!r}"
        default = self.source.name(f"{message_type.__name__}_{field.name}_default", field.default)
        return f"{value} != {default}"

    def _field(self, field: Field, value: str, variable: str) -> None:
        compact = self._flexible and not field.legacy_form
        self._value(field.kind, value, variable, compact=compact, nullable=self._version in field.nullable)

    def _value(self, kind: Kind, value: str, variable: str, *, compact: bool, nullable: bool) -> None:
        """Emit code that writes the value of an expression; ``variable`` is free for its use."""
        match kind:
            case kinds.Number() | kinds.Boolean():
                self._run.append((rows.code_of(kind), value))
            case kinds.Identifier():
                self.source.add(f"{variable} = {value}")
                self._give_up_if(f"len({variable}) != {kinds.UUID_SIZE}")
                self._run.append((rows.code_of(kind), variable))
            case kinds.Text() | kinds.Binary():
                self._content(kind, value, variable, compact=compact, nullable=nullable)
            case kinds.Array():
                self._array(kind.element, value, variable, compact=compact, nullable=nullable)
            case kinds.Nested():
                self._nested(kind.message_type, value, variable, nullable=nullable)

    def _content(
        self, kind: kinds.Text | kinds.Binary, value: str, variable: str, *, compact: bool, nullable: bool
    ) -> None:
        is_text = isinstance(kind, kinds.Text)
        legacy_code = "h" if is_text else "i"
        source, size, encode = self.source, f"{variable}_size", ".encode()" if is_text else ""
        if not nullable:
            source.add(f"{variable} = {value}{encode}")
            length = f"len({variable})"
            if compact:
                source.add(f"{size} = {length}")
                length = size
            self._length(length, legacy_code, compact=compact, is_text=is_text)
        else:
            source.add(f"{variable} = {value}")
            with source.block(f"if {variable} is None:"):
                source.add(f'{variable} = b""')
                source.add(f"{size} = -1")
            with source.block("else:"):
                if encode:
                    source.add(f"{variable} = {variable}{encode}")
                source.add(f"{size} = len({variable})")
            self._length(size, legacy_code, compact=compact, is_text=is_text)
        self._piece(variable)

    def _length(self, length: str, legacy_code: str, *, compact: bool, is_text: bool = False) -> None:
        """Emit code that writes a length or count, given as an expression; -1 stands for null."""
        if not compact:
            self._run.append((legacy_code, length))
            return
        table = self.source.name("COMPACT", runtime.COMPACT)
        long = self._helper(runtime.compact_text if is_text else runtime.compact_count)
        self._piece(f"{table}[{length}] if {length} < {runtime.KNOWN_LENGTHS} else {long}({length})")

    def _nested(
        self,
        message_type: type[Message],
        value: str,
        variable: str,
        *,
        nullable: bool,
        null: str = r'b"\xff"',
    ) -> None:
        self.source.add(f"{variable} = {value}")
        if not nullable:
            self._struct(message_type, variable, self.source.prefix(variable))
            return
        self._spill()
        with self.source.block(f"if {variable} is None:"):
            self.source.add(f"parts.append({null})")
        with self.source.block("else:"):
            self._run.append(("b", "1"))
            self._struct(message_type, variable, self.source.prefix(variable))
            self._spill()

    def _tagged_fields(
        self, message_type: type[Message], fields: list[Field], owner: str, prefix: str
    ) -> None:
        source, tagged, outer = self.source, f"{prefix}tagged", f"{prefix}outer"
        varint = self._helper(runtime.varint)
        self._spill()
        source.add(f"{tagged} = []")
        for field in sorted(fields, key=lambda f: f.tag or 0):
            value = f"{owner}.{field.name}"
            with source.block(f"if {self._differs(message_type, field, value)}:"):
                source.add(f"{outer}, parts = parts, []")
                variable = self.source.variable(prefix, message_type.__name__, field.name)
                if isinstance(field.kind, kinds.Nested) and self._version in field.nullable:
                    self._nested(field.kind.message_type, value, variable, nullable=True, null=r'b"\x00"')
                else:
                    self._field(field, value, variable)
                self._spill()
                source.add("content, parts = join(parts), " + outer)
                source.add(f"{tagged} += ({varint}({field.tag}), {varint}(len(content)), content)")
        source.add(f"parts.append({varint}(len({tagged}) // 3))")
        source.add(f"parts += {tagged}")

    # -- arrays -------------------------------------------------------------------------------------------

    def _array(self, element: Kind, value: str, variable: str, *, compact: bool, nullable: bool) -> None:
        self.source.add(f"{variable} = {value}")
        if not nullable:
            self._elements(element, variable, compact=compact)
            return
        self._spill()
        with self.source.block(f"if {variable} is None:"):
            self.source.add(f"parts.append({bytes(1) if compact else bytes([255] * 4)!r})")
        with self.source.block("else:"):
            self._elements(element, variable, compact=compact)
            self._spill()

    def _elements(self, element: Kind, variable: str, *, compact: bool) -> None:
        """Emit code that writes a non-null array."""
        if isinstance(element, kinds.Number):
            self._numbers(element, variable, compact=compact)
            return
        count = f"len({variable})"
        if compact:
            self.source.add(f"{variable}_count = {count}")
            count = f"{variable}_count"
        self._length(count, "i", compact=compact)
        self._spill()
        prefix = self.source.prefix(variable)
        item = prefix.removesuffix("_")
        if isinstance(element, kinds.Nested):
            row = rows.layout(element.message_type, self._version, flexible=self._flexible)
            if row is not None and row.text is None and self._needs_no_check(element.message_type):
                pack = self.source.name(f"pack_{identifier(row.codes)}", runtime.packer(row.codes))
                values = ", ".join(f"{item}.{name}" for name in row.names)
                self.source.add(f"parts += [{pack}({values}) for {item} in {variable}]")
                return
        with self.source.block(f"for {item} in {variable}:"):
            if isinstance(element, kinds.Nested):
                self._struct(element.message_type, item, prefix)
            else:
                self._value(element, item, f"{item}_content", compact=compact, nullable=False)
            self._spill()

    def _needs_no_check(self, message_type: type[Message]) -> bool:
        """Whether ``struct`` alone rejects every value that this version cannot carry."""
        return all(
            not isinstance(field.kind, kinds.Identifier)
            if self._version in field.versions
            else field.ignorable
            for field in message_type.__schema__.fields
        )

    def _numbers(self, element: kinds.Number, variable: str, *, compact: bool) -> None:
        source, count, packed = self.source, f"{variable}_count", f"{variable}_packed"
        source.add(f"{count} = len({variable})")
        table = source.name(f"array_{element.code}", runtime.number_packers(element.code))
        helper = self._helper(runtime.pack_numbers)
        with source.block(f"if {count} < {runtime.SHORT}:"):
            source.add(f"{packed} = {table}[{count}](*{variable})")
        with source.block("else:"):
            source.add(f'{packed} = {helper}("{element.code}", {variable})')
        self._length(count, "i", compact=compact)
        self._piece(packed)


def _tuple(pieces: list[str]) -> str:
    return f"({', '.join(pieces)},)" if len(pieces) == 1 else f"({', '.join(pieces)})"
