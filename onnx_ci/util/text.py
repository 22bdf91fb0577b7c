"""Messages of others made fit for a report."""

from __future__ import annotations

import re

_LONGEST = 300
_READ = 2000  # patterns are not let loose on a hostile model's longest names
_PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_FOLDER = re.compile(r"(?<![\w./])/(?:[^\s/:'\"]+/)+")
_SIGNATURE = re.compile(r"[\w.]+\.(?:h|cc|cpp|hpp):\d+ [^\n]*?\)(?: const)? (?:\[[^\]]*\] )?")


def clean(message: str) -> str:
    """The first line without codes, folders and C++ signatures. Names in it come from a stranger's model:
    nothing that a terminal or a CI log would act on stays."""
    line = next((line for line in message.splitlines() if line.strip()), "")
    line = "".join(c if c.isprintable() else "?" for c in line[:_READ].replace("\t", " "))
    line = _SIGNATURE.sub("", _FOLDER.sub("", _PREFIX.sub("", line))).strip()
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
