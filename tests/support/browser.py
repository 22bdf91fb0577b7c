"""A page in a real browser, and what a script in it saw."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync --allow-file-access-from-files --enable-logging=stderr"
)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


def seen_in(page: Path, *flags: str) -> tuple[Any, str]:
    """The JSON that the page wrote into its element `seen`, and the browser's log."""
    profile = f"--user-data-dir={page.parent / 'profile'}"
    command = [str(CHROMIUM), *FLAGS.split(), *flags, profile, "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    found = re.search(r'<pre id="seen">(.+?)</pre>', done.stdout, re.DOTALL)
    assert found, f"{done.stdout}\n{done.stderr}"
    return json.loads(unescape(found[1])), done.stderr
