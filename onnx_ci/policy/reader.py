"""Reads the YAML of a policy, maybe a stranger's: bounded in size and depth, every value with its line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import yaml

from onnx_ci.errors import PolicyError

TYPE_CHECKING = False  # light start: CONTRIBUTING.md
if TYPE_CHECKING:
    from typing import Protocol

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
        message = f"found the byte 0x{data[error.start]:02x}, expected UTF-8 text"
        raise PolicyError(file, line, message, hint="save the file as UTF-8; " + HINT) from None


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

    match = Reader.NON_PRINTABLE.search(text)
    start, letter = (match.start(), match[0]) if match else (0, "")
    line = text.count("\n", 0, start) + 1
    return PolicyError(file, line, f"found the control character {letter!r}, expected text", hint=HINT)


_YAML = "tag:yaml.org,2002:"
_TYPES = ("bool", "float", "int", "map", "merge", "null", "seq", "str", "timestamp", "value")
_TAGS = {_YAML + name for name in _TYPES}
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
        if self.visited > MOST_NODES:
            message = f"found more than {MOST_NODES:,} values behind aliases, expected a policy"
            hint = "write out what they stand for; for example: path: m.onnx"
        elif node.tag not in _TAGS:
            message = f"found the tag {node.tag.replace(_YAML, '!!')!r}, expected plain YAML"
            hint = "leave the tag out, for example: path: model.onnx"
        else:
            return
        raise PolicyError(self.file, node.start_mark.line + 1, message, hint=hint)


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
                both = f"on lines {own[key].key_line} and {line}"
                hint = f"keep one of them, for example: {_shown(key)}: …"
                raise self.error(f"found {key[:60]!r} twice, {both}, expected it once", hint=hint, line=line)
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


def _shown(name: str) -> str:
    """A name of the user's own, fit for a message."""
    return name if name.isprintable() and len(name) <= 60 else repr(name[:60])
