"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onnx_ci.errors import EnvironmentFault


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A path to write to; what is there takes the given name when all went well, and is gone if not."""
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.onnx-ci-tmp")
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise EnvironmentFault(f"{path} could not be written: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)
