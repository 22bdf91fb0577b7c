"""The key that signs entries. It is kept apart from them: whoever can write entries can't sign any."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from onnx_ci.places import state_home
from onnx_ci.scratch import create, sweep_files, temporary_name

NAME = "ONNX_CI_CACHE_KEY"
LENGTH = 32


def signing_key() -> bytes | None:
    """The key that was given, or this user's own on this machine; None where none can be kept."""
    given = os.environ.get(NAME)
    if given:
        return given.encode(errors="surrogateescape")
    try:
        path = state_home() / "cache.key"
        return _read(path) or _make(path)
    except (OSError, RuntimeError):  # no home folder, or it can't be written
        return None


def _read(path: Path) -> bytes | None:
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        return None
    return found if len(found) == LENGTH else None


def _make(path: Path) -> bytes | None:
    """Of two runs that make one at once, one may sign what nobody believes: that costs time, no more."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    sweep_files(path.parent, lambda _: False, of=path.name)
    temporary = temporary_name(path)
    with os.fdopen(create(temporary, 0o600), "wb", buffering=0) as file:
        file.write(secrets.token_bytes(LENGTH))
    temporary.replace(path)
    return _read(path)
