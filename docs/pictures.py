"""Renew the pictures in docs/pictures: `python docs/pictures.py` runs the demo and takes what it shows.

The terminal becomes an SVG, the HTML report a PNG, which takes Chromium."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent / "pictures"
ONNX_CI = (sys.executable, "-m", "onnx_ci")
COLUMNS = 116
WIDTH, HEIGHT, MARGIN = 7.8, 18, 16  # of a letter, of a line, around the text
STYLES = {
    "1": 'font-weight="bold"',
    "2": 'opacity="0.6"',
    "31": 'fill="#ff7b72"',
    "32": 'fill="#7ee787"',
    "33": 'fill="#e3b341"',
    "36": 'fill="#79c0ff"',
}
WINDOW = "1100,920"
PAINT = re.compile(r"\x1b\[([0-9;]*)m")


def terminal(command: Sequence[str], folder: Path, environment: dict[str, str]) -> str:
    """What a program shows at a terminal, with its colours."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=theirs, stderr=subprocess.DEVNULL
    ) as running:
        os.close(theirs)
        shown = b"".join(_read(ours))
    if running.returncode:
        raise SystemExit(f"{' '.join(command)} ended with exit code {running.returncode}")
    return shown.decode().replace("\r\n", "\n")


def _read(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # how Linux says that nobody writes any more
            return
        if not piece:
            return
        yield piece


def svg(text: str) -> str:
    """A picture of a terminal. Each run of letters has its length, so that any font keeps the columns."""
    lines = [part for line in text.rstrip("\n").split("\n") for part in _wrapped(line)]
    width = max(len(PAINT.sub("", line)) for line in lines) * WIDTH + 2 * MARGIN
    height = len(lines) * HEIGHT + 2 * MARGIN
    drawn = [
        piece for row, line in enumerate(lines) for piece in _drawn(line, MARGIN + (row + 0.75) * HEIGHT)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}"'
            ' font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13" fill="#e6edf3">',
            '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>',
            *drawn,
            "</svg>\n",
        ]
    )


def _wrapped(line: str) -> list[str]:
    """What a line is at a terminal of this width; a colour goes on where it was cut."""
    hidden = len(line) - len(PAINT.sub("", line))
    if len(line) - hidden <= COLUMNS:
        return [line]
    cut = line.rindex(" ", 0, COLUMNS + hidden)
    paint = [found[0] for found in PAINT.finditer(line[:cut])]
    return [line[:cut], *_wrapped("".join(paint[-1:]) + line[cut + 1 :])]


def _drawn(line: str, y: float) -> Iterator[str]:
    column, codes = 0, ""
    for index, piece in enumerate(PAINT.split(line)):
        if index % 2:
            codes = piece
            continue
        start = len(piece) - len(piece.lstrip())
        words = piece.strip()
        if words:
            x, length = MARGIN + (column + start) * WIDTH, len(words) * WIDTH
            style = " ".join(STYLES[code] for code in codes.split(";") if code in STYLES)
            place = f'x="{x:.1f}" y="{y:.1f}" textLength="{length:.1f}" xml:space="preserve"'
            yield f"<text {place} {style}>{escape(words)}</text>".replace(" >", ">")
        column += len(piece)


def screenshot(page: Path, picture: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("Chromium is not installed, so there is no picture of a page")
    flags = f"--headless --no-sandbox --disable-gpu --hide-scrollbars --window-size={WINDOW}".split()
    profile = f"--user-data-dir={page.parent / 'profile'}"
    command = [browser, *flags, profile, f"--screenshot={picture}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def main() -> None:
    HERE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        demo = scratch / "demo"
        settings = {"COLUMNS": str(COLUMNS), "TERM": "xterm", "ONNX_CI_CACHE": str(scratch / "cache")}
        environment = {**os.environ, **settings}
        shown = terminal([*ONNX_CI, "demo", "--folder", str(demo)], scratch, environment)
        steps = re.split(r"\n(?=\x1b\[1m\$ )", shown)  # what came before, check, fix, check
        (HERE / "demo.svg").write_text(svg("\n".join(steps[1:3])))
        subprocess.run(["git", "checkout", "--quiet", "."], cwd=demo, check=True)  # noqa: S607
        report = scratch / "report.html"
        check = [*ONNX_CI, "check", "--all", "--output", str(report)]
        subprocess.run(check, cwd=demo, env=environment, check=False)
        screenshot(report, HERE / "report.png")


if __name__ == "__main__":
    main()
