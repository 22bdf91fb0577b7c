"""What every command line does: completion, examples in help, did-you-mean, `-q`, `-v`, colours, progress."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import onnx
import pytest

from onnx_ci.cli.main import COMMANDS, SUBJECTS, _file_names, command_parser
from onnx_ci.cli.output import ProgressLine
from onnx_ci.util.text import Style
from tests.support.cli import call
from tests.support.git_repo import write_policy
from tests.support.models import lean

PROJECT = Path(__file__).resolve().parent.parent.parent


def examples() -> Iterator[list[str]]:
    for name in COMMANDS:
        for line in command_parser(name).format_help().partition("examples:\n")[2].splitlines():
            command = re.split(r"  +| && | \| | > ", line.strip())[0]
            if command.startswith("onnx-ci "):
                yield shlex.split(command)[1:]


def test_examples_in_help_can_be_typed() -> None:
    typed = list(examples())
    assert len(typed) > 15
    for command, *arguments in typed:
        assert command_parser(command).parse_args(arguments)
    for page in SUBJECTS:
        assert (PROJECT / page.partition("#")[0]).is_file()


def test_help_is_light() -> None:
    code = "import sys; from onnx_ci.cli.main import main; main(['--help']); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "examples:" in done.stdout
    assert not {"numpy", "onnx", "argparse", "typing"} & set(re.findall(r"'(\w+)'", done.stdout))


def test_misspelt_options_are_guessed(tmp_path: Path) -> None:
    done = call("check", "--onli-new", cwd=tmp_path)
    assert done.code == 2
    assert "did you mean '--only-new'?" in done.err
    assert "did you mean '--output'?" in call("samples", "m.onnx", "--outptu=x", cwd=tmp_path).err


def test_the_format_follows_from_the_ending(tmp_path: Path) -> None:
    write_policy(tmp_path, "    methods: []\n    load_check: off\n")
    onnx.save(lean(), tmp_path / "m.onnx")
    arguments = ["check", "--all"]
    done = call(*arguments, "--output", "r.html", "--output", "r.SARIF", cwd=tmp_path)
    assert "checked" in done.out, "beside what is shown otherwise"
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert json.loads((tmp_path / "r.SARIF").read_text())["runs"]
    done = call(*arguments, "--output", "r.md", "--format", "json", cwd=tmp_path)
    assert done.json["models"], "only what was asked for"
    assert (tmp_path / "r.md").exists()
    done = call(*arguments, "--output", "report", cwd=tmp_path)
    assert done.code == 2
    assert "--format" in done.err


def test_quiet_and_verbose(tmp_path: Path) -> None:
    write_policy(tmp_path, "    budget: {size: 40 kB}\n    methods: []\n    load_check: off\n")
    onnx.save(lean(layers=1), tmp_path / "good.onnx")
    onnx.save(lean(layers=3), tmp_path / "bad.onnx")
    quiet = call("check", "good.onnx", "-q", cwd=tmp_path)
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    assert "OCI001" in call("check", "bad.onnx", "--quiet", cwd=tmp_path).out
    compared = call("compare", "-v", "good.onnx", "good.onnx", cwd=tmp_path)
    assert "onnx-ci: good.onnx: running it and its original on the same inputs (0:0" in compared.err
    assert "onnx-ci: good.onnx: measuring latency" in compared.err


def test_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    assert not Style.of(io.StringIO()).colour
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert Style.of(io.StringIO()).colour
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Style.of(io.StringIO()).colour


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def close(self) -> None:
        """What was shown can still be looked at."""


def progress(stream: io.StringIO, *, seconds: float) -> str:
    """What is shown when 3 of 12 models are done."""
    with mock.patch.object(sys, "stderr", stream), ProgressLine() as line:
        line.began -= seconds
        line.last -= seconds
        line(3, 12, f"models/{'long' * 40}.onnx", "verifying")
        line(3, 12, "next.onnx", "verifying")
    return stream.getvalue()


def test_progress_fits_and_tells_the_time() -> None:
    line, cleared = re.findall(r"\r\x1b\[K([^\r]*)", progress(Terminal(), seconds=65))
    assert line.startswith("[###---------] 3/12 1:05, about 3:15 left  …")
    assert line.endswith("long.onnx: verifying")
    assert len(line) == 79
    assert cleared == ""


def test_progress_of_a_hook_is_below_its_line() -> None:
    """The runner keeps standard error to itself; the terminal shows the runner's own line, not ended yet."""
    terminal, kept = Terminal(), Terminal()
    with mock.patch("builtins.open", return_value=terminal), mock.patch.object(sys, "stderr", kept):
        line = ProgressLine(hook=True)
        with line:
            line.began = line.last = 0.0
            line(0, 1, "m.onnx", "verifying")
    assert kept.getvalue() == ""
    assert terminal.getvalue().startswith("\x1bD\x1b[A\x1b7\r\n\x1b[K")
    assert "  m.onnx: verifying\x1b8" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\n\x1b[K\x1b8"), "nothing stays"


def test_logs_get_a_line_now_and_then() -> None:
    (line,) = progress(io.StringIO(), seconds=65).splitlines()
    assert line.endswith("long.onnx: verifying (3/12, 1:05, about 3:15 left)")
    assert progress(io.StringIO(), seconds=5) == ""


def test_names_that_look_like_options() -> None:
    given = ["check", "--hook", "--jobs", "2", "-x.onnx", "--policy=lax.bin"]
    assert _file_names(given) == [*given[:4], "./-x.onnx", "./--policy=lax.bin"]
    assert _file_names(["check", "--", "-x.onnx"]) == ["check", "--", "-x.onnx"]


BASH = 'source c; COMP_WORDS=(onnx-ci %s); COMP_CWORD=%d; _onnx_ci; echo "${COMPREPLY[@]}"'
COMPLETED = [
    ("c", {"check", "compare", "completion", "cmake-dir"}),
    ("check --form", {"--format"}),
    ("check --format sa", {"sarif"}),
    ("check --since ma", {"main"}),
    ("completion z", {"zsh"}),
]


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_completion_in_the_shell_itself(shell: str, tmp_path: Path) -> None:
    """zsh completes in an editor only: there, what it reads is all that is seen."""
    if not (program := shutil.which(shell)):
        pytest.skip(f"no {shell} here")
    (tmp_path / "c").write_text(call("completion", shell, cwd=tmp_path).out)
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=tmp_path, check=True)
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *who, "commit", "-q", "--allow-empty", "-m", "x"], cwd=tmp_path, check=True)
    if shell == "zsh":
        code = "autoload -Uz compinit; compinit -u -D; source ./c; print $_comps[onnx-ci]"
        done = subprocess.run(
            [program, "-fc", code], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert (done.stdout, done.stderr) == ("_onnx_ci\n", "")
        return
    for words, expected in COMPLETED:
        code = BASH % (words, len(words.split()))
        if shell == "fish":
            code = f"source c; complete -C 'onnx-ci {words}' | string replace -r '\\t.*' ''; true"
        environment = {**os.environ, "HOME": str(tmp_path)}
        done = subprocess.run(
            [program, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        assert set(done.stdout.split()) == expected, (words, done.stderr)
