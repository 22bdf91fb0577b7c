"""The words and codes that a model knows: keys of its encoders and counters, for inputs that hold such."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from onnx_ci.inputs.graph import Op

_MOST = 256
_KEYS = {
    "LabelEncoder": ("keys_strings", "keys_int64s", "classes_strings"),
    "CategoryMapper": ("cats_strings", "cats_int64s"),
    "OneHotEncoder": ("cats_strings", "cats_int64s"),
    "DictVectorizer": ("string_vocabulary", "int64_vocabulary"),
    "TfIdfVectorizer": ("pool_strings", "pool_int64s"),
    "StringNormalizer": ("stopwords",),
}


def known_to(op: Op) -> list[Any]:
    """What this operator looks its input up in."""
    for name in _KEYS.get(op.type, ()):
        found: Sequence[Any] | None = op.attribute(name, None)
        if found:
            return [_text(item) for item in found[:_MOST]]
    return []


def of_type(words: Iterable[Any], kind: type) -> list[Any]:
    return [word for word in words if isinstance(word, kind)]


def _text(item: Any) -> Any:
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else item
