"""One entry of `methods:`: a name, or a name with options, checked against the methods there are."""

from __future__ import annotations

import yaml

from onnx_ci.errors import OptionError
from onnx_ci.policy.kinds import Kind
from onnx_ci.policy.nodes import Place
from onnx_ci.policy.suggest import did_you_mean, nearest
from onnx_ci.util.scalars import number_or_text

TYPE_CHECKING = False  # `typing` takes longer to load than this package; checkers see it all the same
if TYPE_CHECKING:
    from onnx_ci.policy.schema import Scalar


def _read(place: Place) -> tuple[str, dict[str, Scalar]]:
    name, entry = _name(place)
    known = place.reading.methods.names()
    if name not in known:
        hint = f"for example: methods: [{nearest(name, known) or known[0]}]; `onnx-ci methods` lists them all"
        raise place.error(f"unknown method {name[:60]!r}, {did_you_mean(name, known)}", hint=hint)
    places = entry.entries("a mapping of options") if entry and entry.tag != "null" else {}
    options = {key: _option(value) for key, value in places.items()}
    try:
        place.reading.methods.check_options(name, options)
    except OptionError as error:
        sentence = str(error) if name in str(error) else f"{name}: {error}"
        line = places[error.option].key_line if error.option in places else place.line
        hint = "for example: methods: [dedupe, {int8-weights: {min_elements: 4096}}]; see `onnx-ci methods`"
        raise place.error(sentence, hint=hint, line=line) from None
    return name, options


def _name(place: Place) -> tuple[str, Place | None]:
    if not isinstance(place.node, yaml.MappingNode):
        return place.scalar("the name of a method"), None
    entries = list(place.entries("a method").items())
    if len(entries) != 1:
        names = ", ".join(f"{{{name}: …}}" for name, _ in entries) or "nothing"
        hint = "give each its own entry, for example: methods: [dedupe, {int8-weights: {min_elements: 4096}}]"
        raise place.error(f"found {names[:80]} in one entry, expected one method", hint=hint)
    return entries[0]


def _option(place: Place) -> Scalar:
    if isinstance(place.node, yaml.SequenceNode):
        return [item.scalar("text") for item in place.items("a list")]
    if place.tag == "null":
        return None
    text = place.scalar("one value or a list of words")
    if place.tag == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return number_or_text(text) if place.plain else text


METHOD = Kind(_read, {"$ref": "#/$defs/method"})
