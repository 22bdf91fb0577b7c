"""Reads `.dvc` files: DVC keeps a file out of git, and its digest and size in git."""

from __future__ import annotations

from pathlib import Path

import yaml

from onnx_ci.errors import PolicyError
from onnx_ci.model.pointers import Pointer
from onnx_ci.policy.compose import compose

ENDING = ".dvc"


def read_dvc(text: str, name: str) -> Pointer | None:
    """What a `.dvc` file says of the file called `name`; None where it says nothing that can be used."""
    try:
        outputs = _child(compose(text, name), "outs")
    except PolicyError:
        return None
    for output in outputs.value if isinstance(outputs, yaml.SequenceNode) else []:
        size = _text(output, "size")
        if _text(output, "path") == name and size.isdecimal() and len(size) < 19:
            return Pointer("DVC", _text(output, "md5"), int(size))
    return None


def _child(node: yaml.Node, key: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for name, value in pairs if name.value == key), None)


def _text(node: yaml.Node, key: str) -> str:
    child = _child(node, key)
    return str(child.value) if isinstance(child, yaml.ScalarNode) else ""


def cached(repository: Path, pointer: Pointer) -> Path | None:
    """The content in the cache of this repository, where it was not moved elsewhere."""
    digest = pointer.digest
    if len(digest) != 32 or not set(digest) <= set("0123456789abcdef"):
        return None
    caches = (repository / ".dvc/cache/files/md5", repository / ".dvc/cache")
    found = (cache / digest[:2] / digest[2:] for cache in caches)
    return next((path for path in found if path.is_file()), None)
