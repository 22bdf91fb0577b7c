"""What one run of a method reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Applied:
    """How many tensors a method touched, and what it left alone and why."""

    tensors: int
    note: str = ""
