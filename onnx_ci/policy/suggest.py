"""The word that was probably meant; difflib is loaded only when something is wrong."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word most like this one, or nothing when none is."""
    from difflib import get_close_matches

    close = get_close_matches(word[:60].lower(), list(known), n=1, cutoff=0.5)
    return close[0] if close else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A clause to end a message with: the nearest word, or all of them."""
    words = list(known)
    close = nearest(word, words)
    return f"did you mean {close!r}?" if close else f"expected one of: {', '.join(words)}"
