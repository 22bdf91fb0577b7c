"""Kinds of damage that a check has to notice. Add one as a function, and a line in the tuple of its file."""

from __future__ import annotations

from damages.base import PLACES, Damage, damaged
from damages.graph import GRAPH
from damages.layout import LAYOUT
from damages.numbers import NUMBERS
from damages.recurrent import RECURRENT
from damages.small import SMALL

DAMAGES: tuple[Damage, ...] = (*NUMBERS, *LAYOUT, *SMALL, *GRAPH, *RECURRENT)

__all__ = ["DAMAGES", "PLACES", "Damage", "damaged"]
