"""What a method is: a row of the catalogue. Its options and its code are loaded when they are needed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

TYPE_CHECKING = False  # `typing` takes longer to load than this package; checkers see it all the same
if TYPE_CHECKING:
    from typing import Any

    from onnx_ci.methods.applied import Applied
    from onnx_ci.model.container import Model


class Method:
    """`options` names a dataclass in options.py; the code is in the module named like the method.

    A plain class, and both loaded on first use: reading a policy must not load numpy or onnx.
    """

    __slots__ = ("fidelity", "name", "options", "summary")

    def __init__(self, *, name: str, fidelity: str, summary: str, options: str = "NoOptions") -> None:
        self.name = name
        self.fidelity = fidelity  # "exact" | "approximate"
        self.summary = summary
        self.options = options

    @property
    def exact(self) -> bool:
        return self.fidelity == "exact"

    @property
    def option_class(self) -> type[Any]:
        from onnx_ci.methods import options

        found: type[Any] = getattr(options, self.options)
        return found

    def read_options(self, given: Mapping[str, object]) -> Any:
        """The options as a dataclass; a ValueError says in plain words what is wrong with them."""
        from dataclasses import fields

        known = {item.name: item for item in fields(self.option_class)}
        for name, value in given.items():
            if name not in known:
                raise ValueError(_unknown_option(self.name, name, list(known)))
            _check_value(f"{self.name}: {name}", value, known[name].metadata)
        return self.option_class(**given)

    def apply(self, model: Model, given: Mapping[str, object]) -> Applied:
        """Edit the model in place."""
        module = importlib.import_module(f"onnx_ci.methods.{self.name.replace('-', '_')}")
        applied: Applied = module.apply(model, self.read_options(given))
        return applied


def _unknown_option(method: str, name: str, known: list[str]) -> str:
    if not known:
        return f"{method} takes no options, found {name!r}"
    import difflib

    near = difflib.get_close_matches(name, known, 1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    return f"{method} has no option {name!r}; {guess}it takes {', '.join(known)}"


def _check_value(what: str, value: object, allowed: Mapping[str, Any]) -> None:
    choices = allowed.get("choices")
    if choices and value not in choices:
        raise ValueError(f"{what}: expected one of {', '.join(choices)}, found {value!r}")
    minimum = allowed.get("minimum")
    if minimum is not None and (isinstance(value, bool) or not isinstance(value, int) or value < minimum):
        raise ValueError(f"{what}: expected a whole number from {minimum}, found {value!r}")
