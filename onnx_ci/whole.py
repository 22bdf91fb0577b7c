"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from onnx_ci.errors import EnvironmentFault
from onnx_ci.scratch import LOCKS, create, sweep_files, temporary_name


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A path to write to; what is there takes the given name when all went well, and is gone if not."""
    temporary, held = temporary_name(path), ExitStack()
    try:
        sweep_files(path.parent, lambda _: False, of=path.name)
        held.callback(os.close, create(temporary))
        if not LOCKS:
            held.close()
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise EnvironmentFault(f"{path} could not be written: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)
        held.close()
