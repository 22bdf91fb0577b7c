"""Libraries of custom operators: files that the policy or the user names, never the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnx_ci.model.graph import bodies
from onnx_ci.model.proto import ModelProto
from onnx_ci.util.text import clean


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
NAME_IT = (
    "name the library that has them, a file inside the repository:"
    ' libraries: ["ops/libmyops.so"] in the rule, or --library'
)
REPLACE_IT = "name one that is there and was built for this system and this onnxruntime: libraries: [...]"
# Domains whose operators come with onnxruntime.
_KNOWN = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training", "org.pytorch.aten")
_KNOWN_FAMILIES = ("com.microsoft", "com.ms.")
_SHOWN = 3


def custom_operators(proto: ModelProto) -> list[str]:
    """The operators that neither onnxruntime nor the model itself brings along, each with its domain."""
    own = {(function.domain, function.name) for function in proto.functions}
    nodes = ((node.domain, node.op_type) for body in bodies(proto) for node in body.node)
    custom = dict.fromkeys(one for one in nodes if not _is_known(one[0]) and one not in own)
    return [f"{domain}.{op}" for domain, op in custom]


def needs_library(operators: Sequence[str]) -> str:
    more = len(operators) - _SHOWN
    named = ", ".join(operators[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"it has custom operators, and no library was given for them: {clean(named)}"


def _is_known(domain: str) -> bool:
    return domain in _KNOWN or domain.startswith(_KNOWN_FAMILIES)
