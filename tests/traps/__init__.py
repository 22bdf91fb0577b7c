"""Small models, built on the spot, that methods, the verifier and the writer have to survive.

Add one as a function whose docstring says what it catches, and a line in the tuple of its file.
"""

from __future__ import annotations

from traps.attention import ATTENTION
from traps.axes import AXES
from traps.bad_files import FILE_TRAPS, NAMES
from traps.base import FILE, Feed, FileTrap, Trap, feeds_for
from traps.good_files import GOOD_FILES
from traps.hostile import HOSTILE
from traps.huge_files import HUGE_FILES
from traps.noisy import NOISY
from traps.running import RUNNING
from traps.shrunk import SHRUNK
from traps.storage import STORAGE
from traps.structure import STRUCTURE
from traps.values import VALUES

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
