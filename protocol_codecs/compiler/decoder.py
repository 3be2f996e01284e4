"""Generates the decoder of a message in one version from its declaration.

Fields of fixed width that follow each other, length prefixes included, are read by one ``struct`` call (a *run*). The
content of a string or of bytes is read together with the run after it, by a layout looked up by its length. Arrays
whose elements all have one layout are read as rows. The generated function tracks no error positions: whenever
something is unexpected, it calls the reference codec.

The generated function keeps its read position in the variable ``at``. The generator keeps in ``_skew`` how far the
actual position is ahead of ``at``, so that many reads share one addition.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import starmap
from typing import Any

from protocol_codecs import kinds, reference
from protocol_codecs.compiler import rows, runtime
from protocol_codecs.compiler.source import Source, identifier
from protocol_codecs.errors import TooManyElements
from protocol_codecs.kinds import Kind
from protocol_codecs.message import Message
from protocol_codecs.schema import Field

_MANY = 4
"""From this many optional fields at the end on, one comparison for their being absent pays."""
_FEW = 2
"""Up to here reading elements one by one is faster than reading rows."""


@dataclass(frozen=True, slots=True)
class _Content:
    """Bytes that have not been read yet; the variable ``size`` holds their length."""

    variable: str
    size: str
    is_text: bool
    compact: bool
    nullable: bool


class DecoderBuilder:
    """Generates the decoder of one message in one version.

    A ``whole`` decoder expects the message to end with the buffer and returns it; the other returns the
    message and where it ends. A ``bounded`` decoder, which is not whole, takes a third argument: how many elements the
    arrays and the tagged fields may have in all (:func:`protocol_codecs.decode_bounded`).
    """

    def __init__(
        self, message_type: type[Message], version: int, *, whole: bool, bounded: bool = False
    ) -> None:
        self.source = Source()
        self._message_type = message_type
        self._version = version
        self._whole = whole
        self._bounded = bounded
        self._flexible = version in message_type.__schema__.flexible
        self._in_array = 0
        self._skew = 0
        self._run: list[tuple[str, str]] = []
        self._content: _Content | None = None

    def build(self) -> Callable[..., Any]:
        """Compile the function; its source stays in ``source``."""
        message_type, version = self._message_type, self._version
        exact: Callable[..., Any] = reference.decode_whole if self._whole else reference.decode_prefix
        self.source.name("ask_reference", lambda *arguments: exact(message_type, version, *arguments))
        self.source.name("GIVE_UP", runtime.GIVE_UP)
        title = f"decoder of {message_type.__name__} v{version}"
        arguments = "buffer, start, most" if self._bounded else "buffer, start"
        with self.source.block(f"def decode({arguments}):"):
            with self.source.block("try:"):
                self.source.add("at, size = start, len(buffer)")
                if self._bounded:
                    self.source.add("left = most")
                message = self._struct(
                    message_type, "", tail=self._tail_of_defaults() if self._whole else None
                )
                if self._whole:
                    with self.source.block(f"if {self._place()} == size:"):
                        self.source.add(f"return {message}")
                else:
                    self.source.add(f"return {message}, {self._place()}")
            if self._bounded:
                with self.source.block(f"except {self.source.name('TooManyElements', TooManyElements)}:"):
                    self.source.add("raise")
            with self.source.block("except GIVE_UP:"):
                self.source.add("pass")
            with self.source.block("if type(buffer) is not bytes:"):
                self.source.add(f"return decode({arguments.replace('buffer', 'bytes(buffer)')})")
            if self._bounded:
                arguments += f" // {runtime.REFERENCE_SLOWNESS}"
            self.source.add(f"return ask_reference({arguments})")
        return self.source.function("decode", title)

    # -- the place, and runs ------------------------------------------------------------------------------

    def _place(self, behind: int = 0) -> str:
        offset = self._skew - behind
        if offset == 0:
            return "at"
        return f"at + {offset}" if offset > 0 else f"at - {-offset}"

    def _move(self, expression: str, offset: int) -> None:
        """Advance ``at`` by expression + offset."""
        parts = [part for part in (expression, str(abs(offset)) if offset else "") if part]
        self._skew = 0
        if parts:
            self.source.add(f"at += {(' - ' if offset < 0 else ' + ').join(parts)}")

    def _settle(self) -> None:
        """Read what is pending and advance ``at`` to the actual position."""
        self._flush()
        self._move("", self._skew)

    def _fixed(self, code: str, variable: str) -> str:
        self._run.append((code, variable))
        return variable

    def _flush(self) -> None:
        """Emit the reads that are pending."""
        content, self._content = self._content, None
        run, self._run = self._run, []
        if content is not None:
            self._read_content(content, run)
        elif run:
            self._skew += self._read_run(run)

    def _read_run(self, run: list[tuple[str, str]]) -> int:
        """Emit the read of a run at the current position; returns its size."""
        codes = "".join(code for code, _ in run)
        if codes == "B":
            self.source.add(f"{run[0][1]} = buffer[{self._place()}]")
        elif run:
            read = self.source.name(f"read_{identifier(codes)}", runtime.unpacker(codes))
            self.source.add(f"{_targets([v for _, v in run])} = {read}(buffer, {self._place()})")
        return rows.size_of(codes)

    def _read_content(self, content: _Content, run: list[tuple[str, str]]) -> None:
        source, variable, size = self.source, content.variable, content.size
        codes = "".join(code for code, _ in run)
        skew = self._skew
        form = "compact" if content.compact else "legacy"
        table = source.name(
            f"{form}_s{identifier(codes)}", runtime.content_unpackers(codes, compact=content.compact)
        )
        short = f"{size} < {runtime.SHORT}" if content.compact else f"-1 < {size} < {runtime.SHORT}"
        if content.nullable:
            # Null or empty, which is what such a field most often is.
            empty = '""' if content.is_text else 'b""'
            with source.block(f"if {size} < 2:" if content.compact else f"if -2 < {size} < 1:"):
                values = f"{empty} if {size} else None" if content.compact else f"None if {size} else {empty}"
                source.add(f"{variable} = {values}")
                self._move("", skew + self._read_run(run))
        self._skew = skew
        with source.block(f"elif {short}:" if content.nullable else f"if {short}:"):
            targets = _targets([variable, *(v for _, v in run)])
            source.add(f"{targets} = {table}[{size}](buffer, {self._place()})")
            self._decode_text(content)
            self._move(size, skew + rows.size_of(codes) - content.compact)
        self._skew = skew
        with source.block("else:"):
            if content.compact:
                helper = runtime.read_long_text if content.is_text else runtime.read_compact_content
                source.add(f"{variable}, at = {self._helper(helper)}(buffer, {self._place(behind=1)})")
            else:
                helper_name = self._helper(runtime.read_content)
                source.add(f"{variable}, at = {helper_name}(buffer, {self._place()}, {size})")
            self._skew = 0
            self._decode_text(content)
            self._move("", self._read_run(run))

    def _decode_text(self, content: _Content) -> None:
        if content.is_text and content.nullable:
            self.source.add(f"{content.variable} = {content.variable}.decode()")

    def _helper(self, function: Any) -> str:
        return self.source.name(function.__name__, function)

    def _give_up_if(self, condition: str) -> None:
        with self.source.block(f"if {condition}:"):
            self.source.add(f"raise {self._helper(runtime.GiveUpError)}")

    def _count_elements(self, count: str) -> None:
        """Emit code that subtracts elements from the remaining limit, before any object is created."""
        if self._bounded:
            self.source.add(f"left -= {count}")
            with self.source.block("if left < 0:"):
                self.source.name("TooManyElements", TooManyElements)
                self.source.add(f'raise TooManyElements("{self._message_type.__name__}", {self._version})')

    # -- structs and fields -------------------------------------------------------------------------------

    def _struct(self, message_type: type[Message], prefix: str, tail: int | None = None) -> str:
        """Emit the read of a struct; returns the expression that constructs it.

        ``tail`` is the index of the first field of a tail that is usually all defaults, for which a shortcut is
        emitted.
        """
        values: list[str] = []
        fields = message_type.__schema__.fields
        for number, field in enumerate(fields):
            if number == tail:
                self._return_if_defaults(number, values)
            if field.plain_in(self._version):
                variable = self.source.variable(prefix, message_type.__name__, field.name)
                values.append(self._field(field, variable))
            elif field.tagged_in(self._version):
                values.append(self.source.variable(prefix, message_type.__name__, field.name))
            else:
                values.append(self._default(message_type, field))
        if self._flexible and not message_type.__schema__.fragment:
            tagged = [field for field in fields if field.tagged_in(self._version)]
            self._tagged_fields(message_type, tagged, prefix)
        else:
            self._flush()
        carried = [i for i, field in enumerate(fields) if self._version in field.versions]
        values = values[: carried[-1] + 1] if carried else []
        return f"{self.source.name(message_type.__name__, message_type)}({', '.join(values)})"

    def _tail_of_defaults(self) -> int | None:
        """Return the index of the first of several last fields that are usually null or at their default."""
        fields = self._message_type.__schema__.fields
        number = len(fields)
        while number and self._often_default(fields[number - 1]):
            number -= 1
        return number if number and len(fields) - number >= _MANY else None

    def _often_default(self, field: Field) -> bool:
        """Whether clients usually leave this field unset: it may be null, or -1 means unset."""
        if not field.plain_in(self._version):
            return False
        if field.default is None:
            return self._version in field.nullable
        return isinstance(field.kind, kinds.Number) and field.default == -1

    def _return_if_defaults(self, number: int, values: list[str]) -> None:
        fields = self._message_type.__schema__.fields[:number]
        size = sum(
            reference.minimum_size(field.kind, self._version, flexible=self._flexible)
            for field in fields
            if field.plain_in(self._version)
        )
        tail = reference.encode(self._message_type(), self._version)[size:]
        self._flush()
        name = self.source.name("TAIL_OF_DEFAULTS", tail)
        with self.source.block(f"if buffer[{self._place()} :] == {name}:"):
            constructor = self.source.name(self._message_type.__name__, self._message_type)
            self.source.add(f"return {constructor}({', '.join(values)})")

    def _default(self, message_type: type[Message], field: Field) -> str:
        if field.default is None or field.default == () or isinstance(field.default, int | str):
            return repr(field.default)
        return self.source.name(f"{message_type.__name__}_{field.name}_default", field.default)

    def _field(self, field: Field, variable: str) -> str:
        compact = self._flexible and not field.legacy_form
        return self._value(field.kind, variable, compact=compact, nullable=self._version in field.nullable)

    def _value(self, kind: Kind, variable: str, *, compact: bool, nullable: bool) -> str:
        """Emit the read of a value; returns the expression that gives it once everything pending is read."""
        match kind:
            case kinds.Text() | kinds.Binary():
                is_text = isinstance(kind, kinds.Text)
                size = self._length(f"{variable}_size", "h" if is_text else "i", compact=compact)
                self._content = _Content(variable, size, is_text, compact, nullable)
                return f"{variable}.decode()" if is_text and not nullable else variable
            case kinds.Array():
                return self._array(kind.element, variable, compact=compact, nullable=nullable)
            case kinds.Nested():
                return self._nested(kind, variable, nullable=nullable)
            case _:
                return self._fixed(rows.code_of(kind), variable)

    def _length(self, variable: str, legacy_code: str, *, compact: bool) -> str:
        """Emit reads up to and including a length or count."""
        self._fixed("B" if compact else legacy_code, variable)
        self._flush()
        return variable

    def _nested(self, kind: kinds.Nested, variable: str, *, nullable: bool, tagged: bool = False) -> str:
        if not nullable:
            return self._struct(kind.message_type, self.source.prefix(variable))
        self._fixed("b", f"{variable}_present")
        self._settle()
        if tagged:  # a varint; what is more than a byte is for the reference
            self._give_up_if(f"{variable}_present < 0")
        with self.source.block(f"if {variable}_present {'== 0' if tagged else '< 0'}:"):
            self.source.add(f"{variable} = None")
        with self.source.block("else:"):
            value = self._struct(kind.message_type, self.source.prefix(variable))
            self._settle()
            self.source.add(f"{variable} = {value}")
        return variable

    def _tagged_fields(self, message_type: type[Message], known: list[Field], prefix: str) -> None:
        tags = self._length(f"{prefix}tags", "", compact=True)
        if not known:
            with self.source.block(f"if {tags}:"):
                if self._bounded:
                    self._count_elements(f"{self._helper(runtime.count_at)}(buffer, {self._place()}, {tags})")
                skip = self._helper(runtime.skip_tagged_fields)
                back = f" - {self._skew}" if self._skew else ""
                self.source.add(f"at = {skip}(buffer, {self._place(behind=1)}){back}")
            return
        self._settle()
        for field in known:
            self.source.add(f"{prefix}{field.name} = {self._default(message_type, field)}")
        varint = self._helper(runtime.read_varint)
        with self.source.block(f"if {tags}:"):
            self.source.add(f"{tags}, at = {varint}(buffer, at - 1)")
            self._count_elements(tags)
            with self.source.block(f"for _ in range({tags}):"):
                self.source.add(f"tag, at = {varint}(buffer, at)")
                self.source.add(f"tag_size, at = {varint}(buffer, at)")
                self.source.add("tag_end = at + tag_size")
                self._give_up_if("tag_end > size")
                for position, field in enumerate(known):
                    with self.source.block(f"{'elif' if position else 'if'} tag == {field.tag}:"):
                        value = self._tagged_field(field, prefix + field.name)
                        self._settle()
                        if value != prefix + field.name:
                            self.source.add(f"{prefix}{field.name} = {value}")
                with self.source.block("else:"):
                    self.source.add("at = tag_end")
                self._give_up_if("at != tag_end")

    def _tagged_field(self, field: Field, variable: str) -> str:
        if isinstance(field.kind, kinds.Nested) and self._version in field.nullable:
            return self._nested(field.kind, variable, nullable=True, tagged=True)
        return self._field(field, variable)

    # -- arrays -------------------------------------------------------------------------------------------

    def _array(self, element: Kind, variable: str, *, compact: bool, nullable: bool) -> str:
        count = self._length(f"{variable}_count", "i", compact=compact)
        self._settle()
        if not nullable:
            return self._elements(element, variable, count, compact=compact)
        with self.source.block(f"if not {count}:" if compact else f"if {count} == -1:"):
            self.source.add(f"{variable} = None")
        with self.source.block("else:"):
            value = self._elements(element, variable, count, compact=compact)
            if value != variable:
                self.source.add(f"{variable} = {value}")
        return variable

    def _elements(self, element: Kind, variable: str, count: str, *, compact: bool) -> str:
        """Emit the read of a non-null array at ``at``, and advance ``at`` behind it."""
        if self._bounded:
            self._count_elements(
                f"{self._helper(runtime.count_at)}(buffer, at, {count}) - 1" if compact else count
            )
        if isinstance(element, kinds.Number):
            self._numbers(element, variable, count, compact=compact)
            return variable
        number = f"{count} - 1" if compact else count
        row = None
        if isinstance(element, kinds.Nested):
            row = rows.layout(element.message_type, self._version, flexible=self._flexible)
        if not isinstance(element, kinds.Nested) or (row is None and self._in_array):
            self._long_count(count, compact=compact)
            self._loop(element, variable, count, number, compact=compact)
            return variable
        # One element is the most common number of all, and then a loop costs more than what is in it.
        self._in_array += 1
        with self.source.block(f"if {count} == {1 + compact}:"):
            self.source.add(f"{variable} = ({self._element(element, variable, compact=compact)},)")
        with self.source.block("else:"):
            self._long_count(count, compact=compact)
            if row is None:
                self._loop(element, variable, count, number, compact=compact)
            else:
                self._rows_or_loop(row, element, variable, count, number, compact=compact)
        self._in_array -= 1
        return variable

    def _numbers(self, element: kinds.Number, variable: str, count: str, *, compact: bool) -> None:
        form = "compact" if compact else "legacy"
        table = self.source.name(
            f"{form}_array_{element.code}", runtime.number_unpackers(element.code, compact=compact)
        )
        number = f"{count} - 1" if compact else count
        short = f"{count} < {runtime.SHORT}" if compact else f"-1 < {count} < {runtime.SHORT}"
        with self.source.block(f"if {short}:"):
            self.source.add(f"{variable} = {table}[{count}](buffer, at)")
        with self.source.block("else:"):
            if compact:
                self.source.add(f"{count}, at = {self._helper(runtime.read_varint)}(buffer, at - 1)")
            helper = self._helper(runtime.read_numbers)
            self.source.add(f'{variable} = {helper}(buffer, at, "{element.code}", {number})')
        self.source.add(f"at += {element.size} * len({variable})")

    def _loop(self, element: Kind, variable: str, count: str, number: str, *, compact: bool) -> None:
        """Emit a loop that reads elements one by one."""
        self._give_up_if(f"not {count}" if compact else f"{count} < 0")
        self.source.add(f"{variable} = []")
        with self.source.block(f"for _ in range({number}):"):
            self.source.add(f"{variable}.append({self._element(element, variable, compact=compact)})")
        self.source.add(f"{variable} = tuple({variable})")

    def _long_count(self, count: str, *, compact: bool) -> None:
        """Emit the read of the remaining bytes of a count that has more than one byte."""
        if compact:
            with self.source.block(f"if {count} >= {runtime.SHORT}:"):
                self.source.add(f"{count}, at = {self._helper(runtime.read_varint)}(buffer, at - 1)")

    def _element(self, element: Kind, variable: str, *, compact: bool) -> str:
        """Emit the complete read of one element; returns the expression that makes it."""
        if isinstance(element, kinds.Nested):
            value = self._struct(element.message_type, self.source.prefix(variable))
        else:
            item = self.source.prefix(variable).removesuffix("_")
            if item == variable:  # a list whose name is no plural
                item += "_item"
            value = self._value(element, item, compact=compact, nullable=False)
        self._settle()
        return value

    def _rows_or_loop(
        self, row: rows.Row, element: kinds.Nested, variable: str, count: str, number: str, *, compact: bool
    ) -> None:
        """Read as rows if no element has tagged fields or a non-empty string, else in a loop."""
        source, end = self.source, f"{variable}_end"
        length = f"{row.size} * {f'({number})' if compact else number}"
        condition = f"{count} > {_FEW + compact} and ({end} := at + {length}) <= size"
        if row.tags_offset is not None:
            condition += f" and {self._all_are(0, _column(row.tags_offset, end, row.size), count)}"
        if row.text is None:
            with source.block(f"if {condition}:"):
                source.add(f"{variable} = {self._row_tuple(row, element, variable, None)}")
                source.add(f"at = {end}")
            head = "else:"
        else:
            source.add(f"{variable} = None")
            with source.block(f"if {condition}:"):
                self._rows_with_text(row, element, variable, count, compact=compact)
            head = f"if {variable} is None:"
        with source.block(head):
            self._loop(element, variable, count, number, compact=compact)

    def _rows_with_text(
        self, row: rows.Row, element: kinds.Nested, variable: str, count: str, *, compact: bool
    ) -> None:
        source, column = self.source, f"{variable}_{row.text}_size"
        source.add(f"{column} = {_column(row.text_offset, f'{variable}_end', row.size)}")
        if compact:
            empty, null = self._all_are(1, column, count), self._all_are(0, column, count)
        else:
            # Both bytes of the length are alike in both cases, and there is no table by legacy counts.
            source.add(f"{column} += {_column(row.text_offset + 1, f'{variable}_end', row.size)}")
            is_column_of = self._helper(runtime.is_column_of)
            empty, null = f"{is_column_of}(0, {column})", f"{is_column_of}(255, {column})"
        for head, text in ((f"if {empty}:", ""), (f"elif {null}:", None)):
            with source.block(head):
                source.add(f"{variable} = {self._row_tuple(row, element, variable, text)}")
                source.add(f"at = {variable}_end")

    def _all_are(self, value: int, column: str, count: str) -> str:
        """Return the condition that a column of a compact array holds only this value."""
        table = self.source.name(f"ALL_{value}", runtime.columns_of(value))
        helper = self._helper(runtime.is_column_of)
        return f"({column} == {table}[{count}] if {count} < {runtime.SHORT} else {helper}({value}, {column}))"

    def _row_tuple(self, row: rows.Row, element: kinds.Nested, variable: str, text: str | None) -> str:
        """Return the expression that reads rows up to ``{variable}_end``."""
        message_type = element.message_type
        constructor = self.source.name(message_type.__name__, message_type)
        read = self.source.name(f"rows_{identifier(row.codes)}", runtime.row_unpacker(row.codes))
        values = f"{read}(buffer[at:{variable}_end])"
        prefix = self.source.prefix(variable)
        fields = message_type.__schema__.fields
        given = [
            field.name in row.names or (field.name == row.text and text != field.default) for field in fields
        ]
        fields = fields[: max((i + 1 for i, is_given in enumerate(given) if is_given), default=0)]
        if tuple(field.name for field in fields) == row.names:
            return f"tuple({self.source.name('starmap', starmap)}({constructor}, {values}))"
        arguments = [
            f"{prefix}{field.name}"
            if field.name in row.names
            else repr(text)
            if field.name == row.text
            else self._default(message_type, field)
            for field in fields
        ]
        targets = _targets([f"{prefix}{name}" for name in row.names])
        return f"tuple([{constructor}({', '.join(arguments)}) for {targets} in {values}])"


def _column(offset: int, end: str, size: int) -> str:
    """Return the expression for the bytes at one offset of all rows."""
    return f"buffer[at + {offset} : {end} : {size}]"


def _targets(names: list[str]) -> str:
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)
