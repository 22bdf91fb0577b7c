"""A cache in a folder: what actions/cache does, as far as we rely on it."""

import os
import shutil
import sys
from pathlib import Path

STORE = Path(os.environ["STUB_CACHE"])
CACHED = Path(os.environ["CACHED"])


def restore() -> None:
    key = os.environ["KEY"]
    beginnings = [key, *os.environ["RESTORE_KEYS"].split()]
    kept = sorted(STORE.glob("*"), key=lambda path: path.stat().st_mtime, reverse=True)
    named = [path for path in kept if path.name == key]
    found = named or [path for path in kept if path.name.startswith(tuple(beginnings))]
    matched = ""
    if found:
        shutil.copytree(found[0], CACHED, symlinks=True, dirs_exist_ok=True)
        matched = found[0].name
    with Path(os.environ["GITHUB_OUTPUT"]).open("a") as file:
        file.write(f"cache-hit={str(matched == key).lower()}\ncache-matched-key={matched}\n")


def save() -> None:
    target = STORE / os.environ["KEY"]
    if not target.exists():
        shutil.copytree(CACHED, target, symlinks=True)


{"restore": restore, "save": save}[sys.argv[1]]()
