"""One entry of `methods:`: a name, or a name with options, checked against the methods there are."""

from __future__ import annotations

import re

import yaml

from onnx_ci.errors import PolicyError
from onnx_ci.policy.kinds import Kind
from onnx_ci.policy.nodes import Place
from onnx_ci.policy.suggest import did_you_mean, nearest

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
    except ValueError as error:
        raise _bad_option(place, name, places, str(error)) from None
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
    return _number(text) if place.plain else text


def _number(text: str) -> int | float | str:
    """A plain word that is a decimal number; 1e-2 counts as one, 1:30 and 0x10 do not."""
    digits = text.replace("_", "")
    if re.fullmatch(r"[-+]?[0-9]{1,19}", digits):
        return int(digits)
    if re.fullmatch(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?", digits):
        return float(digits)
    return text


def _bad_option(place: Place, name: str, places: dict[str, Place], sentence: str) -> PolicyError:
    # The methods know nothing of lines: blame the option that their sentence names first.
    words = re.findall(r"[\w-]+", sentence)
    line = next((places[word].key_line for word in words if word in places), place.line)
    sentence = sentence if name in words else f"{name}: {sentence}"
    hint = "for example: methods: [dedupe, {int8-weights: {min_elements: 4096}}]; see `onnx-ci methods`"
    return place.error(sentence, hint=hint, line=line)


METHOD = Kind(_read, {"$ref": "#/$defs/method"})
