"""Fuzz for as long as one likes: python tests/fuzz/run.py --seconds 60 [--target container]

Needs atheris (pip install -e '.[fuzz]'). What crashes is written to crash-… in the folder that is named.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
NAMES = ("container", "policy")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default: %(default)s)")
    parser.add_argument("--target", choices=NAMES, help="this one alone")
    parser.add_argument("--here", help=argparse.SUPPRESS)  # the folder of one target, in a process of its own
    options = parser.parse_args()
    if options.here:
        _fuzz(options.target, options.seconds, Path(options.here))
        return 0
    failed = 0
    for name in [options.target] if options.target else NAMES:
        home = tempfile.mkdtemp(prefix=f"onnx-ci-fuzz-{name}-")
        sys.stdout.write(f"{name}: {options.seconds} s, in {home}\n")
        sys.stdout.flush()
        arguments = ["--target", name, "--seconds", str(options.seconds), "--here", home]
        failed |= subprocess.run([sys.executable, __file__, *arguments], check=False).returncode
    return int(bool(failed))


def _fuzz(name: str, seconds: int, home: Path) -> None:
    import atheris

    with atheris.instrument_imports(include=["onnx_ci"]):
        from tests.fuzz.targets import TARGETS

    from tests.fuzz import seeds

    corpus = home / "corpus"
    corpus.mkdir(exist_ok=True)
    starts = {"container": seeds.models, "policy": seeds.policies}[name]()
    for number, data in enumerate([*starts, *seeds.crashes()[name]]):
        (corpus / f"seed-{number}").write_bytes(data)
    flags = [f"-max_total_time={seconds}", "-max_len=20000", "-timeout=20", "-rss_limit_mb=2048"]
    flags += [f"-artifact_prefix={home}/", "-print_final_stats=1", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *flags, str(corpus)], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
