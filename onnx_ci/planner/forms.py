"""The forms a tensor may be stored in: what the methods of a rule allow, each with its variants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from onnx_ci.methods.catalogue import method
from onnx_ci.methods.chain import Run
from onnx_ci.methods.options import Int4Weights, Int8Weights, WeightOptions
from onnx_ci.methods.weights import Encode
from onnx_ci.model.container import Model
from onnx_ci.policy.schema import MethodChoice

# What a planner may choose itself where the policy does not say: an option and its values.
VARIANTS: dict[str, tuple[str, tuple[object, ...]]] = {
    "int8-weights": ("granularity", ("channel", "block")),
    "int4-weights": ("bits", (4, 3, 5, 6, 7)),
}
SHORT = {"fp16-weights": "fp16", "int8-weights": "int8", "int4-weights": "int4"}


@dataclass(frozen=True)
class Form:
    """A method that stores single tensors in a smaller form, with options."""

    label: str
    run: Run
    options: WeightOptions
    variant: bool = False  # not what the method does by itself

    def encoding(self, model: Model) -> Encode | None:
        return self.run.method.encoding(model, self.run.options)

    def nbytes(self, elements: int, shape: tuple[int, ...]) -> float:
        """What a tensor takes in this form, without what surrounds it."""
        options = self.options
        if isinstance(options, Int8Weights):
            by_block = options.granularity == "block"
            return elements * (1 + 2 / options.block_size) if by_block else elements + 4 * max(shape)
        if isinstance(options, Int4Weights):
            return elements * (options.bits / 8 + 2 / options.block_size)
        return 2 * elements


def plannable(choice: MethodChoice) -> bool:
    """Whether a method is one whose tensors can be chosen one by one."""
    return choice.name in SHORT


def forms_of(choices: Sequence[MethodChoice]) -> list[Form]:
    """All forms that a rule's methods allow, mildest first as the rule has them."""
    return [form for choice in choices if plannable(choice) for form in _variants(choice)]


def _variants(choice: MethodChoice) -> Iterator[Form]:
    name, values = VARIANTS.get(choice.name, ("", ()))
    if not name or name in choice.options or choice.options.get("encoding") == "dq":
        yield _form(choice.name, choice.options, "")
        return
    for position, value in enumerate(values):
        # The first is the method's own default: naming it would make another receipt of the same thing.
        options = choice.options if position == 0 else {**choice.options, name: value}
        yield _form(
            choice.name, options, f" by {value}" if name == "granularity" else str(value), position > 0
        )


def _form(name: str, options: Mapping[str, object], grain: str, variant: bool = False) -> Form:
    chosen = method(name)
    label = f"int{grain}" if grain.isdigit() else SHORT[name] + grain
    return Form(label, Run(chosen, options), chosen.read_options(options), variant)
