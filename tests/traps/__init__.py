"""Small models, built on the spot, that methods, the verifier and the writer have to survive.

Add one as a function whose docstring says what it catches, and a line in the tuple of its file.
"""

from __future__ import annotations

from tests.traps.attention import ATTENTION
from tests.traps.axes import AXES
from tests.traps.bad_files import FILE_TRAPS, NAMES
from tests.traps.base import FILE, Feed, FileTrap, Trap, feeds_for
from tests.traps.good_files import GOOD_FILES
from tests.traps.hostile import HOSTILE
from tests.traps.huge_files import HUGE_FILES
from tests.traps.noisy import NOISY
from tests.traps.running import RUNNING
from tests.traps.shrunk import SHRUNK
from tests.traps.storage import STORAGE
from tests.traps.structure import STRUCTURE
from tests.traps.values import VALUES

TRAPS: tuple[Trap, ...] = (*STRUCTURE, *STORAGE, *VALUES, *SHRUNK, *AXES, *RUNNING, *NOISY, *ATTENTION)

__all__ = [
    "ATTENTION",
    "AXES",
    "FILE",
    "FILE_TRAPS",
    "GOOD_FILES",
    "HOSTILE",
    "HUGE_FILES",
    "NAMES",
    "NOISY",
    "RUNNING",
    "SHRUNK",
    "STORAGE",
    "STRUCTURE",
    "TRAPS",
    "VALUES",
    "Feed",
    "FileTrap",
    "Trap",
    "feeds_for",
]
