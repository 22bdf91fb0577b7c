"""Names as words of a command that can be pasted, whatever is in them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path


def shell_path(path: Path) -> str:
    """A file as a command would name it from here."""
    text = os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
    return shell_word(option_free(text))


def option_free(text: str) -> str:
    return f"./{text}" if text.startswith("-") else text


def shell_word(text: str) -> str:
    """Quoted where a shell needs it. What can't be shown is written in bash's own way: $'a\\nb'; so is `##`,
    which a log would not show as it is, since CI services look for commands there."""
    if text.isprintable() and "##" not in text:
        return shlex.quote(text)
    return "$'" + "".join(map(_escaped, text)).replace("##", "#\\x23") + "'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))
