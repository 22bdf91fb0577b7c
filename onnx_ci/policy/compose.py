"""Text to YAML nodes, each with its line; refuses what is not YAML or was made to do harm."""

from __future__ import annotations

import yaml

from onnx_ci.errors import PolicyError

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
