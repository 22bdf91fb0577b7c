"""One entry: a signed header with the facts, then files. What is not as it was signed counts as not there."""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from onnx_ci.cache import folder
from onnx_ci.model.hashing import file_sha256

MAGIC = b"onnx-ci outcome 1\n"
HEAD = struct.Struct("<32sI")  # the signature, and how long the header is
LONGEST = 1 << 24
CHUNK = 1 << 20


def load(name: str, key: bytes, scratch: Path) -> dict[str, Any] | None:
    """The facts of an entry. Its files are copied to `scratch` and compared there: nobody can change
    them after that."""
    with folder.opened(name) as file:
        header = _header(file, name, key) if file else None
        if file is None or header is None:
            return None
        for title, size, digest in header["files"]:
            if not _copy(file, scratch, title, size, digest):
                return None
    folder.used(name)
    facts: dict[str, Any] = header["facts"]
    return facts


def save(name: str, key: bytes, facts: Mapping[str, Any], files: Mapping[str, Path]) -> None:
    listed = [(title, path.stat().st_size, file_sha256(path)) for title, path in files.items()]
    header = json.dumps({"name": name, "facts": facts, "files": listed}).encode()
    start = MAGIC + HEAD.pack(_sign(key, header), len(header)) + header
    size = len(start) + sum(length for _, length, _ in listed)
    folder.put(name, [start, *files.values()], size)


def _sign(key: bytes, header: bytes) -> bytes:
    return hmac.digest(key, MAGIC + header, "sha256")


def _header(file: IO[bytes], name: str, key: bytes) -> Any:
    """Nothing of it is looked at before the signature has been found to be right."""
    start = file.read(len(MAGIC) + HEAD.size)
    if len(start) != len(MAGIC) + HEAD.size or not start.startswith(MAGIC):
        return None
    signature, length = HEAD.unpack(start[len(MAGIC) :])
    header = file.read(length) if length <= LONGEST else b""
    if not hmac.compare_digest(signature, _sign(key, header)):
        return None
    found = json.loads(header)
    return found if found["name"] == name else None


def _copy(source: IO[bytes], scratch: Path, title: str, size: int, digest: str) -> bool:
    """Whether as many bytes were there as there should be, and the right ones."""
    found = hashlib.sha256()
    target = scratch / title
    if not target.resolve().is_relative_to(scratch.resolve()):
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        for chunk in _chunks(source, size):
            found.update(chunk)
            file.write(chunk)
    return found.hexdigest() == digest


def _chunks(source: IO[bytes], size: int) -> Iterator[bytes]:
    while size and (chunk := source.read(min(CHUNK, size))):
        size -= len(chunk)
        yield chunk
