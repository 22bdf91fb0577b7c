"""Harmless rewrites that a check has to let pass. Add one as a function, and a line in its file's tuple."""

from __future__ import annotations

from rewrites.base import Rewrite
from rewrites.identities import IDENTITIES
from rewrites.naming import NAMING
from rewrites.tools import PEERS, TOOLS

REWRITES: tuple[Rewrite, ...] = (*NAMING, *IDENTITIES, *TOOLS)

__all__ = ["PEERS", "REWRITES", "Rewrite"]
