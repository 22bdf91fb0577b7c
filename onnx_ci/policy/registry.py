"""What the policy needs to know of the methods, without knowing the methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class MethodRegistry(Protocol):
    """The methods a policy may name."""

    def names(self) -> Sequence[str]:
        """All names, in the order in which they are worth reading."""

    def check_options(self, name: str, options: Mapping[str, object]) -> None:
        """Raise OptionError, with a plain sentence, where the method would not take these options."""
