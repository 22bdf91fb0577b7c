"""How often, and after how long, a call to GitHub is made once more."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from onnx_ci.errors import ApiFault

MOST_TRIES = 4
LONGEST_WAIT = 60.0


@dataclass(kw_only=True)
class Patience:
    """One for each call. What creates something is repeated only where GitHub surely did not do it yet."""

    method: str
    sleep: Callable[[float], None]
    tries: int = 0

    def wait_or_raise(self, fault: ApiFault) -> None:
        self.tries += 1
        repeatable = fault.passing and (self.method != "POST" or fault.limited)
        seconds = waiting(fault, self.tries)
        if not repeatable or self.tries >= MOST_TRIES:
            raise fault
        if seconds > LONGEST_WAIT:
            raise ApiFault(
                f"{fault.message}; it asks to come back in {seconds:.0f} s, which is not waited for",
                status=fault.status,
            )
        self.sleep(seconds)


def waiting(fault: ApiFault, tries: int) -> float:
    """What GitHub asks for, or else 1, 2, 4 seconds."""
    asked = fault.headers.get("retry-after", "")
    if asked.isdecimal():
        return float(asked[:9])
    renewed = fault.headers.get("x-ratelimit-reset", "")
    if fault.headers.get("x-ratelimit-remaining") == "0" and renewed.isdecimal():
        return max(1.0, float(renewed[:12]) - time.time())
    return float(2 ** (tries - 1))
