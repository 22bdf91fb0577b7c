"""What a method is: a row of the catalogue. Its options and its code are loaded when they are needed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

TYPE_CHECKING = False  # `typing` takes longer to load than this package; checkers see it all the same
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    from onnx_ci.methods.applied import Applied
    from onnx_ci.methods.weights import Encode
    from onnx_ci.model.container import Model

    Feeds: TypeAlias = Callable[[], Sequence[Mapping[str, Any]]]


class Method:
    """`options` names a dataclass in options.py; the code is in the module named like the method.

    A plain class, and both loaded on first use: reading a policy must not load numpy or onnx.
    """

    __slots__ = ("changes", "fidelity", "gains", "name", "options", "stage", "summary", "wants_feeds")

    def __init__(
        self,
        *,
        name: str,
        fidelity: str,
        summary: str,
        options: str = "NoOptions",
        stage: int,
        gains: str = "size",
        changes: tuple[str, ...] = (),
        wants_feeds: bool = False,
    ) -> None:
        self.name = name
        self.fidelity = fidelity
        # "exact" | "exact*" (the same mathematics, other rounding) | "approximate" | "changes inputs"
        self.summary = summary
        self.options = options
        self.stage = stage  # methods run in this order, whatever order a policy lists them in
        self.gains = (
            gains  # "size", "compressed", or "layout" (where bytes are): what makes a step worth keeping
        )
        self.changes = changes  # parts of the model's interface that it is meant to change
        self.wants_feeds = wants_feeds  # apply() takes inputs to calibrate on as well

    @property
    def exact(self) -> bool:
        """Nothing is lost: what it gives may stand in for the original."""
        return self.fidelity != "approximate"

    @property
    def bitwise(self) -> bool:
        """Not a single bit of an output may move."""
        return self.fidelity == "exact"

    @property
    def option_class(self) -> type[Any]:
        from onnx_ci.methods import options

        found: type[Any] = getattr(options, self.options)
        return found

    def read_options(self, given: Mapping[str, object]) -> Any:
        """The options as a dataclass; a ValueError says in plain words what is wrong with them."""
        from dataclasses import fields

        from onnx_ci.methods.option_kinds import check_option

        known = {item.name: item for item in fields(self.option_class)}
        for name, value in given.items():
            if name not in known:
                raise ValueError(_unknown_option(self.name, name, list(known)))
            check_option(f"{self.name}: {name}", value, known[name].metadata)
        return self.option_class(**given)

    def apply(self, model: Model, given: Mapping[str, object], feeds: Feeds) -> Applied:
        """Edit the model in place. `feeds` gives inputs that run it, to methods that want some."""
        extra = (feeds,) if self.wants_feeds else ()
        applied: Applied = self._module.apply(model, self.read_options(given), *extra)
        return applied

    def encoding(self, model: Model, given: Mapping[str, object]) -> Encode | None:
        """How one weight is stored, of methods that store them one by one; None if a model can't."""
        found: Encode | None = self._module.encoding(model, self.read_options(given))
        return found

    @property
    def _module(self) -> Any:
        return importlib.import_module(f"onnx_ci.methods.{self.name.replace('-', '_')}")


def _unknown_option(method: str, name: str, known: list[str]) -> str:
    if not known:
        return f"{method} takes no options, found {name!r}"
    import difflib

    near = difflib.get_close_matches(name, known, 1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    return f"{method} has no option {name!r}; {guess}it takes {', '.join(known)}"
