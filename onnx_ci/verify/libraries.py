"""Libraries of custom operators: files that the policy or the user names, never the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Libraries:
    """Names relative to `home`; what they lead to has to be inside of it, whatever links are on the way."""

    names: tuple[str, ...] = ()
    home: Path = Path()

    def found(self) -> Iterator[Path]:
        """The files; a ValueError where one is missing or elsewhere."""
        home = self.home.resolve()
        for name in self.names:
            path = (home / name).resolve()
            if not path.is_relative_to(home):
                raise ValueError(f"the library {name!r} leads out of the folder it has to be in")
            if not path.is_file():
                raise ValueError(f"the library {name!r} is not there")
            yield path


NO_LIBRARIES = Libraries()
