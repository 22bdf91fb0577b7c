"""What one run of a method reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Applied:
    """How many tensors a method touched, and what it left alone and why.

    `failed` is for a library that broke down on the model: the model is as it was, and the report warns.
    """

    tensors: int
    note: str = ""
    failed: bool = False
