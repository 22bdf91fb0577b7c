"""What peers make of a model in fewer bits, kept in the cache folder: it does not depend on our tree."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import harness
import peers
from environments import cache_folder

LONGEST = 1200  # seconds that a peer may take for one model
MODEL = "model.onnx"
CALIBRATION = 4  # inputs for settings that look at data


@dataclass(frozen=True, kw_only=True)
class Rounded:
    """One setting on one model: the file it wrote and the bytes of all its files, or its last words."""

    setting: str
    size: int = 0
    failure: str = ""
    file: Path | None = None  # only where it is smaller than the original


def rounded(source: Path, samples: Sequence[str]) -> Iterator[Rounded]:
    """What each setting makes of a model. `samples` is the command that writes inputs to a path added to it;
    it is asked once a model, so that settings that look at data see the same whatever tree is measured."""
    home = cache_folder() / "rounded" / _digest(source)[:16]
    home.mkdir(parents=True, exist_ok=True)
    ledger = home / "results.json"
    results = json.loads(ledger.read_text()) if ledger.is_file() else {}
    for name in peers.ROUNDING:
        inputs = calibration(home, source, samples) if peers.looks_at_data(name) else []
        digest = hashlib.sha256(peers.rounding_identity(name).encode())
        for file in inputs:
            digest.update(file.read_bytes())
        key = digest.hexdigest()[:16]
        if key not in results:
            results[key] = _run(name, source, home / key, inputs)
            _replace(ledger, json.dumps(results, indent=1))
        file = home / key / MODEL
        yield Rounded(**results[key], file=file if file.is_file() else None)


def calibration(home: Path, source: Path, samples: Sequence[str]) -> list[Path]:
    """Inputs for settings that look at data; none where they can't be made."""
    folder = home / "inputs"
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=home) as work:
            command = [
                *samples,
                str(source),
                "--count",
                str(CALIBRATION),
                "--output",
                f"{work}/made/input.npz",
            ]
            (Path(work) / "made").mkdir()
            subprocess.run(command, cwd=work, capture_output=True, check=False)
            (Path(work) / "made").replace(folder)
    return sorted(folder.glob("*.npz"))


def _run(name: str, source: Path, home: Path, inputs: Sequence[Path]) -> dict[str, str | int]:
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    target = home / MODEL
    try:
        words = _output_of(peers.rounding_command(name, source, target, inputs), home)
    except subprocess.TimeoutExpired:
        words = f"took more than {LONGEST} s"
    if not target.is_file():
        shutil.rmtree(home)
        return {"setting": name, "failure": words}
    for extra in (home / "shrink-ray-input", home / f"{MODEL}.prepared"):
        shutil.rmtree(extra, ignore_errors=True)
        extra.unlink(missing_ok=True)
    size = sum(file.stat().st_size for file in home.iterdir())
    if size >= source.stat().st_size:  # never the best, so it need not be kept
        shutil.rmtree(home)
    return {"setting": name, "size": size}


def _output_of(command: Sequence[str], home: Path) -> str:
    """The last line that a command prints; what it wrote is gone where it failed."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            command,
            cwd=folder,
            env=harness.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LONGEST,
            check=False,
        )
    if done.returncode:
        (home / MODEL).unlink(missing_ok=True)
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    return lines[-1][:200] if lines else f"ended with {done.returncode}"


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while piece := opened.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _replace(path: Path, text: str) -> None:
    beside = path.with_suffix(".part")
    beside.write_text(text)
    beside.replace(path)
