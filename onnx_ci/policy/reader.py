"""Kinds of single values: how each is read from the file, and how the same is described to an editor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from math import isfinite

import yaml

from onnx_ci.errors import PolicyError
from onnx_ci.policy.glob import check_pattern
from onnx_ci.util import scalars
from onnx_ci.util.sizes import NUMBER, parse_count, parse_fraction, parse_size
from onnx_ci.util.text import did_you_mean, nearest

TYPE_CHECKING = False  # light start: CONTRIBUTING.md
if TYPE_CHECKING:
    from typing import Any, Protocol, TypeAlias

    class MethodRegistry(Protocol):
        """The methods a policy may name."""

        def names(self) -> Sequence[str]:
            """All names, in the order in which they are worth reading."""

        def check_options(self, name: str, options: Mapping[str, object]) -> None:
            """Raise OptionError, with a plain sentence, where the method would not take these options."""


LARGEST = 2**20
MOST_NODES = 100_000
DEEPEST = 50
EXAMPLE = 'version: 1\nmodels:\n  - path: "models/**/*.onnx"\n    budget: {size: 25 MB}'
HINT = f"for example:\n{EXAMPLE}"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def decode(data: bytes, file: str) -> str:
    """The text of a policy file."""
    check_length(len(data), file)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = f"found the byte 0x{data[error.start]:02x}, expected UTF-8 text"
        raise PolicyError(file, line, found, hint="save the file as UTF-8; " + HINT) from None


def compose(text: str, file: str) -> yaml.Node:
    """The root node of the one document in the text."""
    check_length(len(text), file)
    try:
        _check_shape(text, file)
        root: yaml.Node | None = yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        raise _syntax_error(error, text, file) from None
    if root is None:
        raise PolicyError(file, 1, "found an empty file, expected a policy", hint=HINT)
    return root


def check_length(length: int, file: str) -> None:
    if length > LARGEST:
        raise PolicyError(file, 1, "found more than 1 MiB, expected a policy", hint=HINT)


def _check_shape(text: str, file: str) -> None:
    """Bound the depth before composing: libyaml composes by recursion, and overflows the stack."""
    depth = nodes = 0
    for event in yaml.parse(text, Loader=_LOADER):
        nodes += isinstance(event, yaml.NodeEvent)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST or nodes > MOST_NODES:
            limit = f"{DEEPEST} levels" if depth > DEEPEST else f"{MOST_NODES:,} values"
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise PolicyError(file, line, f"found more than {limit}, expected a policy", hint=HINT)


def _syntax_error(error: yaml.YAMLError, text: str, file: str) -> PolicyError:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return _forbidden_character(text, file)
    line = int(mark.line) + 1
    problem = str(getattr(error, "problem", error))
    if "another document" in problem:
        hint = "keep one document: no second `---`; " + HINT
        return PolicyError(file, line, "found a second YAML document, expected one", hint=hint)
    lines = text.splitlines()
    if line <= len(lines) and lines[line - 1].lstrip(" ").startswith("\t"):
        hint = "indent with spaces, " + HINT
        return PolicyError(file, line, "found a tab, expected spaces: YAML allows no tab here", hint=hint)
    return PolicyError(file, line, f"not valid YAML: {problem}", hint=HINT)


def _forbidden_character(text: str, file: str) -> PolicyError:
    from yaml.reader import Reader

    found = Reader.NON_PRINTABLE.search(text)
    start, letter = (found.start(), found[0]) if found else (0, "")
    line = text.count("\n", 0, start) + 1
    return PolicyError(file, line, f"found the control character {letter!r}, expected text", hint=HINT)


_YAML = "tag:yaml.org,2002:"
_TAGS = {
    _YAML + name
    for name in ("bool", "float", "int", "map", "merge", "null", "seq", "str", "timestamp", "value")
}
_DEEPEST_MERGE = 10


class Reading:
    """One reading of one file: what every place in it needs to know."""

    def __init__(self, file: str, methods: MethodRegistry, folder: str = "") -> None:
        self.file = file
        self.methods = methods
        self.folder = folder  # where the file is, as an absolute path with `/`
        self.visited = 0

    def visit(self, node: yaml.Node) -> None:
        """Count: a few aliases of aliases can stand for millions of values."""
        self.visited += 1
        line = node.start_mark.line + 1
        if self.visited > MOST_NODES:
            message = f"found more than {MOST_NODES:,} values behind aliases, expected a policy"
            raise PolicyError(
                self.file, line, message, hint="write out what they stand for; for example: path: m.onnx"
            )
        if node.tag not in _TAGS:
            message = f"found the tag {node.tag.replace(_YAML, '!!')!r}, expected plain YAML"
            raise PolicyError(
                self.file, line, message, hint="leave the tag out, for example: path: model.onnx"
            )


class Place:
    """One value of the file."""

    __slots__ = ("example", "key_line", "name", "node", "reading")

    def __init__(
        self, reading: Reading, node: yaml.Node, name: str, *, example: str, key_line: int = 0
    ) -> None:
        reading.visit(node)
        self.reading = reading
        self.node = node
        self.name = name
        self.example = example  # a line or more of YAML that would be right here
        self.key_line = key_line or self.line

    @property
    def line(self) -> int:
        return int(self.node.start_mark.line) + 1

    @property
    def tag(self) -> str:
        """YAML's word for the type: "int", "str", "null", "map" …"""
        return str(self.node.tag).removeprefix(_YAML)

    @property
    def plain(self) -> bool:
        """Whether the value stands there without quotes."""
        return isinstance(self.node, yaml.ScalarNode) and not self.node.style

    @property
    def found(self) -> str:
        if isinstance(self.node, yaml.ScalarNode):
            text = str(self.node.value)
            if self.tag == "null":
                return "nothing"
            return _shown(text) if self.tag in ("bool", "float", "int") else repr(text[:60])
        return "a list" if isinstance(self.node, yaml.SequenceNode) else "a mapping"

    def error(self, message: str, *, hint: str = "", line: int = 0) -> PolicyError:
        message = f"{_shown(self.name)}: {message}" if self.name else message
        hint = hint or f"for example: {self.example}"
        return PolicyError(self.reading.file, line or self.line, message, hint=hint)

    def expected(self, what: str) -> PolicyError:
        return self.error(f"found {self.found}, expected {what}")

    def scalar(self, what: str) -> str:
        """The text as it stands in the file: YAML 1.1 would make a number of 1:30, a truth of `on`."""
        if not isinstance(self.node, yaml.ScalarNode) or self.tag == "null":
            raise self.expected(what)
        return str(self.node.value)

    def items(self, what: str) -> list[Place]:
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.expected(what)
        return [self.inside(node) for node in self.node.value]

    def entries(self, what: str, *, merges: int = 0) -> dict[str, Place]:
        """The values of a mapping by their keys; `<<` fills in what the mapping does not say itself."""
        if not isinstance(self.node, yaml.MappingNode) or merges > _DEEPEST_MERGE:
            raise self.expected(what)
        own: dict[str, Place] = {}
        merged: dict[str, Place] = {}
        for key_node, value_node in self.node.value:
            if key_node.tag == _YAML + "merge":
                merged = {**self._merged(value_node, merges + 1), **merged}
                continue
            key = self.inside(key_node).scalar("a key that is a word")
            line = key_node.start_mark.line + 1
            if key in own:
                raise self._twice(key, own[key].key_line, line)
            own[key] = Place(self.reading, value_node, key, example=self.example, key_line=line)
        return {**merged, **own}

    def inside(self, node: yaml.Node) -> Place:
        return Place(self.reading, node, self.name, example=self.example)

    def _merged(self, node: yaml.Node, merges: int) -> dict[str, Place]:
        sources: Sequence[yaml.Node] = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Place] = {}
        for source in sources:
            merged = {**self.inside(source).entries("a mapping for <<, no deeper", merges=merges), **merged}
        return merged

    def _twice(self, key: str, first: int, second: int) -> PolicyError:
        message = f"found {key[:60]!r} twice, on lines {first} and {second}, expected it once"
        return self.error(message, hint=f"keep one of them, for example: {_shown(key)}: …", line=second)


def _shown(name: str) -> str:
    """A name of the user's own, fit for a message."""
    return name if name.isprintable() and len(name) <= 60 else repr(name[:60])


Schema: TypeAlias = "dict[str, Any]"
_LARGEST = 2**63 - 1
_ROOTS = ("etc", "home", "mnt", "opt", "root", "tmp", "usr", "var", "Users")
_ELSEWHERE = ("//", "\\\\", "~/", *(f"/{root}/" for root in _ROOTS))


class Kind:
    """One kind of value."""

    __slots__ = ("read", "schema")

    def __init__(self, read: Callable[[Place], Any], schema: Schema) -> None:
        self.read = read
        self.schema = schema


def _text(place: Place) -> str:
    text = place.scalar("text")
    if not text.strip():
        raise place.expected("text")
    # `on`, `yes` and 1:30 are text to YAML 1.2 and to who reads the file; 42 and true are not.
    number = place.tag in ("int", "float") and ":" not in text
    if number or (place.tag == "bool" and text.lower() in ("true", "false")):
        hint = f'quote what is meant as text, for example: {place.name}: "{place.found}"'
        raise place.error(f"found {place.found}, expected text", hint=hint)
    return text


def _boolean(place: Place) -> bool:
    text = place.scalar("true or false").lower()
    if place.tag != "bool" or text not in ("true", "yes", "on", "false", "no", "off"):
        raise place.expected("true or false")
    return text in ("true", "yes", "on")


def whole(low: int, high: int = _LARGEST) -> Kind:
    """An integer, always read as decimal: YAML 1.1 would make 8 of 010 and 90 of 1:30."""
    what = f"a whole number, at least {low}" + (f" and at most {high}" if high < _LARGEST else "")
    scalar = scalars.whole(low, high)

    def read(place: Place) -> int:
        value = scalars.number_or_text(place.scalar(what))
        if place.tag != "int" or not isinstance(value, int) or value < low:
            raise place.expected(what)
        if not scalar.fits(value):
            raise place.expected(what if high < _LARGEST else "a smaller number")
        return value

    return Kind(read, scalar.schema)


def number(low: float | None = None, high: float | None = None, *, above: float | None = None) -> Kind:
    """A finite number. 1e-2 is text to YAML 1.1, and a number to everybody else."""
    bounds = {"minimum": low, "maximum": high, "exclusiveMinimum": above}
    words = {"from": low, "above": above, "up to": high}
    what = " ".join(
        ["a number", *(f"{word} {bound:g}" for word, bound in words.items() if bound is not None)]
    )

    def read(place: Place) -> float:
        text = place.scalar(what)
        if place.tag not in ("int", "float") and not (place.tag == "str" and "e" in text.lower()):
            raise place.expected(what)
        value = _float(text)
        too_low = (low is not None and value < low) or (above is not None and value <= above)
        if not isfinite(value) or too_low or (high is not None and value > high):
            raise place.expected(what)
        return value

    scientific = {"type": "string", "pattern": r"^[-+]?[0-9.]+[eE][-+]?[0-9]+$"}
    plain = {"type": "number", **{name: bound for name, bound in bounds.items() if bound is not None}}
    return Kind(read, {"anyOf": [plain, scientific]})


def _float(text: str) -> float:
    try:
        return float(text.replace("_", "")) if text.isascii() else float("nan")
    except ValueError:
        return float("nan")


def _quantity(parse: Callable[[str], int], what: str, units: str, high: int = _LARGEST) -> Kind:
    def read(place: Place) -> int:
        try:
            value = parse(place.scalar(what))
        except ValueError as error:
            raise place.error(str(error)) from None
        if value == 0:
            raise place.expected(f"{what} above zero")
        if value > high:
            raise place.expected(what)
        return value

    written = {"type": "string", "pattern": f"^{NUMBER} *(?:{units})?$"}
    return Kind(read, {"anyOf": [{"type": "integer", "minimum": 1, "maximum": high}, written]})


def fraction(high: float | None = None, *, plain: float = 1.0, above_zero: bool = False) -> Kind:
    """A percentage, or the fraction itself up to `plain`: beyond that the % was forgotten."""
    what = (
        "a percentage"
        + (" above 0%" if above_zero else "")
        + (f" up to {high:.0%}" if high is not None else "")
    )

    def read(place: Place) -> float:
        text = place.scalar(what).strip()
        try:
            value = parse_fraction(text)
        except ValueError as error:
            raise place.error(str(error)) from None
        if "%" not in text and value > plain:
            raise place.error(f"found {text}, expected {what}: did you mean {text}%?")
        if (high is not None and value > high) or (above_zero and value == 0):
            raise place.expected(what)
        return value

    least = {"exclusiveMinimum": 0} if above_zero else {"minimum": 0}
    written = {"type": "string", "pattern": f"^{NUMBER} *%?$"}
    return Kind(read, {"anyOf": [{"type": "number", **least, "maximum": plain}, written]})


def word(choices: Sequence[str]) -> Kind:
    """One of a few words."""
    scalar = scalars.choice(choices)

    def read(place: Place) -> str:
        text = place.scalar(f"one of: {', '.join(choices)}")
        if not scalar.fits(text):
            raise place.error(f"found {place.found}, {did_you_mean(text, choices)}")
        return text

    return Kind(read, scalar.schema)


def _pattern(place: Place) -> str:
    text = _text(place)
    if _absolute(text, place.reading.folder):
        raise place.error(f"found the absolute {place.found}, expected a pattern relative to the policy file")
    try:
        check_pattern(text)
    except ValueError as error:
        raise place.error(f"the pattern {place.found} {error}") from None
    return text


def _absolute(text: str, folder: str) -> bool:
    """A leading `/` means the policy's folder, so only what is surely from elsewhere is absolute."""
    drive = text[1:3] in (":/", ":\\") and text[0].isalpha()
    below = folder.rstrip("/") + "/"
    return drive or text.startswith(_ELSEWHERE) or (below != "/" and text.startswith(below))


def _file(place: Place) -> str:
    text = _text(place)
    if text.startswith(("/", "\\")) or _absolute(text, place.reading.folder):
        raise place.error(f"found the absolute {place.found}, expected a path relative to the policy file")
    if ".." in text.replace("\\", "/").split("/"):
        raise place.error(f"found {place.found}, expected a path that stays below the policy file: no `..`")
    return text


def is_release(text: str) -> bool:
    """Whether it is a version as `1.20` or `1.23.2`, and nothing that an installer could take for more."""
    numbers = text.split(".")
    return len(numbers) in (2, 3) and all(n.isascii() and n.isdigit() and len(n) <= 4 for n in numbers)


def _release(place: Place) -> str:
    what = "a version as 1.20 or 1.23.2, in quotes"  # to YAML, 1.20 is the number 1.2
    text = place.scalar(what)
    if place.tag != "str" or not is_release(text):
        raise place.expected(what)
    return text


def _variable(place: Place) -> str:
    what = "the name of an environment variable"
    text = place.scalar(what)
    if not (text.isascii() and text.isidentifier()):
        raise place.expected(what)
    return text


def _sha256(place: Place) -> str:
    text = place.scalar("a sha256: 64 hexadecimal digits").lower()
    if len(text) != 64 or not set(text) <= set("0123456789abcdef"):
        raise place.error(
            f"found {place.found} of length {len(text)}, expected a sha256: 64 hexadecimal digits"
        )
    return text


def _date(place: Place) -> date:
    what = "a day that exists, as year-month-day"
    text = place.scalar(what)
    try:
        if len(text) != 10 or text[4] + text[7] != "--":
            raise place.expected(what)
        return date.fromisoformat(text)
    except ValueError:
        raise place.expected(what) from None


FILE = Kind(
    _file,
    {
        "type": "string",
        "pattern": r"\S",
        "not": {"pattern": r"(^|[/\\])\.\.([/\\]|$)|^[/\\]|^~/|^[A-Za-z]:[/\\]"},
    },
)
RELEASE = Kind(_release, {"type": "string", "pattern": r"^[0-9]{1,4}\.[0-9]{1,4}(?:\.[0-9]{1,4})?$"})
VARIABLE = Kind(_variable, {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"})
TEXT = Kind(_text, {"type": "string", "pattern": r"\S"})
BOOLEAN = Kind(_boolean, scalars.FLAG.schema)
SIZE = _quantity(parse_size, "a size", "(?:[kKmMgGtT][iI]?)?[bB]")
MEMORY = _quantity(parse_size, "a size up to 1 TiB", "(?:[kKmMgGtT][iI]?)?[bB]", 1 << 40)
COUNT = _quantity(parse_count, "a count", "[kKmMbBtT]")
PATTERN = Kind(
    _pattern, {"type": "string", "minLength": 1, "not": {"pattern": r"(^|/)\.\.(/|$)|^//|^[A-Za-z]:[/\\]"}}
)
SHA256 = Kind(_sha256, {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"})
DATE = Kind(_date, {"type": "string", "format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"})


class Field:
    """What may stand under one key: its kind, an example, and a sentence for the editor."""

    __slots__ = ("about", "example", "kind", "required")

    def __init__(self, kind: Kind, example: str, about: str, *, required: bool = False) -> None:
        self.kind = kind
        self.example = example
        self.about = about
        self.required = required


Table = dict[str, Field]
Check: TypeAlias = "Callable[[Place, dict[str, Any]], None]"


def list_of(kind: Kind, *, least: int = 0) -> Kind:
    def read(place: Place) -> tuple[Any, ...]:
        items = place.items("a list")
        if len(items) < least:
            raise place.error("found an empty list, expected at least one entry")
        return tuple(kind.read(item) for item in items)

    return Kind(read, {"type": "array", "items": kind.schema, **({"minItems": least} if least else {})})


def map_of(kind: Kind) -> Kind:
    """A mapping whose keys are the user's own names."""

    def read(place: Place) -> dict[str, Any]:
        return {key: kind.read(entry) for key, entry in place.entries("a mapping").items()}

    return Kind(read, {"type": "object", "additionalProperties": kind.schema})


def table_of(
    table: Table, *, check: Check | None = None, also: Schema | None = None, lined: bool = False
) -> Kind:
    """A mapping with known keys, read as a dict of what was given, with its line where that is wanted.

    `also` tells editors, as far as a schema can, what `check` makes sure of."""

    def read(place: Place) -> dict[str, Any]:
        values = read_table(place, table)
        if check:
            check(place, values)
        return {**values, "line": place.line} if lined else values

    return Kind(read, {**table_schema(table), **(also or {})})


def read_table(place: Place, table: Table) -> dict[str, Any]:
    entries = place.entries(f"a mapping with the keys {', '.join(table)}")
    values = {}
    for key, entry in entries.items():
        if key not in table:
            raise _unknown_key(place, entry, table)
        entry.example = f"{key}: {table[key].example}"
        values[key] = table[key].kind.read(entry)
    for key, field in table.items():
        if field.required and key not in values:
            raise place.error(
                f"found no {key!r}, expected it here", hint=f"for example: {key}: {field.example}"
            )
    return values


def table_schema(table: Table) -> Schema:
    schema: Schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            key: {"description": f"{field.about}, for example: {field.example}", **field.kind.schema}
            for key, field in table.items()
        },
    }
    required = [key for key, field in table.items() if field.required]
    return {**schema, "required": required} if required else schema


def _unknown_key(place: Place, entry: Place, table: Table) -> PolicyError:
    meant = nearest(entry.name, table) or next(iter(table))
    return place.error(
        f"unknown key {entry.name[:60]!r}, {did_you_mean(entry.name, table)}",
        hint=f"known keys: {', '.join(table)}; for example: {meant}: {table[meant].example}",
        line=entry.key_line,
    )
