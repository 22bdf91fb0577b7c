"""A child that does to itself what libraries do to a process."""

from __future__ import annotations

import os
import signal
import time

from onnx_ci.sandbox.server import limit, private_channel, requests, send


def main(memory: int) -> None:
    channel = private_channel()
    limit(memory)
    waiting = requests()
    while True:
        request = waiting.get()
        print("chatter that must not be taken for an answer", flush=True)
        if request["do"] == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if request["do"] == "hang":
            time.sleep(600)
        if request["do"] == "memory":
            bytearray(memory)
        if request["do"] == "raise":
            raise LookupError("no such thing")
        send(channel, {"pid": os.getpid(), "order": list({"a", "b", "c", "d", "e", "f"})})
