"""A first policy, written from the models that are there: budgets from their present sizes."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_ci.policy.glob import escape
from onnx_ci.policy.ratchet import exact_size
from onnx_ci.sizes import SIZE_UNITS, format_size

FEW = 10
EVERY_MODEL = "**/*.onnx"
_HEAD = """\
# What the ONNX models here may weigh, and how onnx-ci may make them smaller.
#   onnx-ci check          says what is wrong, and changes nothing
#   onnx-ci fix            shrinks what can be shrunk
#   onnx-ci explain PATH   says which rule holds for a model, and why
version: 1

defaults:
  methods: [dedupe, drop-unused]  # exact; `onnx-ci methods` lists more, such as fp16-weights
  tolerance: {cosine: 0.999}  # how far outputs may move when a method is not exact

# Patterns as in .gitignore, relative to this file; the last match wins.
models:
"""
_EXACT = """\
  # A model without a rule is an error (unmatched: error); `onnx-ci ratchet` adds one for it.
"""
_TAIL = """\
  # - path: "vendor/**"
  #   ignore: true
"""


def starter_policy(models: Sequence[tuple[str, int]], *, exact: bool = False) -> str:
    """The text of a policy for these (relative path, size) pairs: a rule each when few, else by folder.

    `exact`: always a rule each, with the size to the byte, so that none can grow unseen."""
    ordered = sorted(models)
    if exact and ordered:
        return _HEAD + _EXACT + "".join(exact_rule(*model) for model in ordered) + _TAIL
    rules = [_model_rule(*model) for model in ordered] if len(ordered) <= FEW else _folder_rules(ordered)
    return _HEAD + _catch_all(ordered) + "".join(rules) + _TAIL


def _catch_all(models: Sequence[tuple[str, int]]) -> str:
    """The first rule, so that every other one wins over it: no model is without a rule."""
    if not models:
        return f"  - path: {_quoted(EVERY_MODEL)}\n"
    largest = max(size for _, size in models)
    return _rule(EVERY_MODEL, largest, "any other model: not larger than the largest now")


def exact_rule(path: str, size: int) -> str:
    """A rule for one model, its budget at its size to the byte."""
    return f"  - path: {_quoted(escape(path))}\n    budget: {{size: {exact_size(max(size, 1))}}}\n"


def _model_rule(path: str, size: int) -> str:
    return _rule(escape(path), size, f"now {format_size(size)}")


def _folder_rules(models: Sequence[tuple[str, int]]) -> list[str]:
    folders = _folders(models)
    return [_folder_rule(folder, folders[folder]) for folder in sorted(folders)]


def _folder_rule(folder: tuple[str, ...], members: Sequence[tuple[str, int]]) -> str:
    largest = max(size for _, size in members)
    start = escape("/".join(folder) + "/") + "**/" if folder else "/"
    ending = ".onnx" if all(path.endswith(".onnx") for path, _ in members) else ""
    return _rule(f"{start}*{ending}", largest, f"the largest of {len(members)}, now {format_size(largest)}")


def _folders(models: Sequence[tuple[str, int]]) -> dict[tuple[str, ...], list[tuple[str, int]]]:
    """Models by folder, as deep as leaves few folders; sorted, inner folders come last and win."""
    depth = max(path.count("/") for path, _ in models)
    while True:
        folders: dict[tuple[str, ...], list[tuple[str, int]]] = {}
        for path, size in models:
            folders.setdefault(tuple(path.split("/")[:-1][:depth]), []).append((path, size))
        if len(folders) <= FEW or depth <= 1:
            return folders
        depth -= 1


def _rule(pattern: str, size: int, note: str) -> str:
    return f"  - path: {_quoted(pattern)}\n    budget: {{size: {_rounded_up(size)}}}  # {note}\n"


def _rounded_up(size: int) -> str:
    """The size with three digits, never less than it is."""
    size = max(size, 1)
    step = 10 ** max(len(str(size)) - 3, 0)
    size = -(-size // step) * step
    unit = next((name for name in ("TB", "GB", "MB", "kB") if size >= SIZE_UNITS[name]), "B")
    return f"{size / SIZE_UNITS[unit]:.10g} {unit}"


def _quoted(text: str) -> str:
    """A YAML string in double quotes; what an editor might not show is escaped."""
    return '"' + "".join(_quoted_letter(letter) for letter in text) + '"'


def _quoted_letter(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"
