"""The child that runs other libraries: one request names a tool, a model to read and a model to write."""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path
from typing import Any

from onnx_ci.child.serve import limit, private_channel, requests, runtime_errors, send

# What bad models lead to. Anything else ends the process, which is an answer as well.
ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


def main(memory: int) -> None:
    """Answer requests until stdin ends. `memory` is in bytes."""
    channel = private_channel()
    limit(memory)
    waiting = requests()
    warnings.simplefilter("ignore")
    while True:
        send(channel, answer(waiting.get()))


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """What came of one request; `note` is what the tool has to say about its result."""
    try:
        loads = importlib.import_module("onnx_ci.tools.loads")  # first: it turns telemetry off
        tool = importlib.import_module(f"onnx_ci.tools.{request['tool']}")
        source, target = Path(request["source"]), Path(request["target"])
        note = tool.run(source, target, request["options"])
        loads.refuse_broken(source, target)
        return {"kind": "ok", "note": note}
    except ImportError as error:
        return {"kind": "missing", "message": error.name or str(error)}
    except MemoryError:
        return {"kind": "memory", "message": "needs more memory than the limit allows"}
    except runtime_errors(*ERRORS) as error:
        return {"kind": "error", "message": _words(error)[:4000]}


def _words(error: Exception) -> str:
    plain = isinstance(error, runtime_errors()) or type(error) is RuntimeError
    return str(error) if plain and str(error) else f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main(int(sys.argv[1]))
