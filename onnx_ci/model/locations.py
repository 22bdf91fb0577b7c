"""Where a model's other files may be: a model is not trusted, so neither are the names in it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath, PureWindowsPath

from onnx_ci.util.text import TEMPORARY_SUFFIX

TYPE_CHECKING = False  # `typing` takes longer to load than this package; checkers see it all the same
if TYPE_CHECKING:
    from typing import Literal

    Keeper = Literal["Git LFS", "DVC"]

DATA_ENDINGS = (".data", "_data", ".bin", ".weights", ".weight", ".dat", ".raw", ".pb")
LFS_HEADER = "version https://git-lfs.github.com/spec/v1"
LARGEST = 1024  # git-lfs itself takes nothing longer for a pointer
_OID = r"(?m)^oid sha256:([0-9a-f]{64})$"
_SIZE = r"(?m)^size ([0-9]{1,18})$"


def is_inside(name: str) -> bool:
    """Whether a location stays in the model's folder, and out of what is hidden there, `.git` above all."""
    pure = PurePosixPath(name)
    hidden = any(part.startswith(".") and not part.endswith(TEMPORARY_SUFFIX) for part in pure.parts)
    strange = "\\" in name or "\0" in name or PureWindowsPath(name).drive
    return bool(name) and not (pure.is_absolute() or hidden or strange)


class Pointer:
    """Where the content is kept, its digest there, and how many bytes it has."""

    def __init__(self, keeper: Keeper, digest: str, size: int) -> None:
        self.keeper = keeper
        self.digest = digest
        self.size = size


def read_pointer(text: str) -> Pointer | None:
    """The pointer of Git LFS in a text, or None: then it is the content itself, or broken."""
    if not text.startswith(LFS_HEADER) or len(text) > LARGEST:
        return None
    digest, size = re.search(_OID, text), re.search(_SIZE, text)
    return Pointer("Git LFS", digest[1], int(size[1])) if digest and size else None
