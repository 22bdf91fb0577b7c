"""A child that does to itself what libraries do to a process."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from onnx_ci.sandbox.server import serve


def main(memory: int) -> None:
    def answer(request: dict[str, Any]) -> dict[str, Any]:
        print("chatter that must not be taken for an answer", flush=True)
        if request["do"] == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if request["do"] == "hang":
            time.sleep(600)
        if request["do"] == "memory":
            bytearray(memory)
        if request["do"] == "raise":
            raise LookupError("no such thing")
        return {"pid": os.getpid(), "order": list({"a", "b", "c", "d", "e", "f"})}

    serve(memory, lambda: answer)
