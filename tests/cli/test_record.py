"""`record`: what a real program feeds to real sessions becomes samples that rules find by themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import onnx_ci
from onnx_ci.model.store import file_sha256
from tests.support.cli import Done, plain_environment
from tests.support.cli import onnx_ci as command
from tests.support.git_repo import Repository, write_policy
from tests.support.models import bloated, lean

pytestmark = pytest.mark.sampled(15)

WIDTH = 64
HEAD = "import numpy as np, onnxruntime as ort\ndef x(n, rows=2): return np.full((rows, 64), n, np.float32)\n"
ONE_RUN = "ort.InferenceSession('models/a.onnx').run(None, {'x': x(1)})\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "repository")
    (repository.root / "models").mkdir()
    onnx.save(bloated(), repository.root / "models/a.onnx")
    onnx.save(lean(), repository.root / "models/b.onnx")
    write_policy(repository.root, "    methods: [dedupe]\n")
    repository.commit_all("models")
    return repository


def record(repository: Repository, code: str, *options: str, **env: str) -> Done:
    (repository.root / "program.py").write_text(HEAD + code)
    call = ("record", *options, "--", sys.executable, "program.py")
    return command(*call, cwd=repository.root, env=env)


def samples(repository: Repository, model: str, folder: str = ".onnx-ci/samples") -> list[Path]:
    return sorted((repository.root / folder / model).glob("*.npz"))


def first_values(repository: Repository, model: str) -> list[float]:
    return sorted(float(np.load(path)["x"].flat[0]) for path in samples(repository, model))


def test_every_way_to_feed_a_session_is_seen(repository: Repository) -> None:
    done = record(
        repository,
        "import threading\n"
        "s = ort.InferenceSession('models/a.onnx')\n"
        "s.run(None, {'x': x(1)})\n"
        "s.run(output_names=None, input_feed={'x': x(2)})\n"
        "s.run_with_ort_values(None, {'x': ort.OrtValue.ortvalue_from_numpy(x(3))})\n"
        "b = s.io_binding(); b.bind_output('y')\n"
        "array = x(4); b.bind_cpu_input('x', array); s.run_with_iobinding(b)\n"
        "array[:] = 5; s.run_with_iobinding(b)\n"
        "b.bind_ortvalue_input('x', ort.OrtValue.ortvalue_from_numpy(x(6))); s.run_with_iobinding(b)\n"
        "array[:] = 7; b.bind_input('x', 'cpu', 0, np.float32, (2, 64), array.ctypes.data)\n"
        "s.run_with_iobinding(b)\n"
        "ended = threading.Event()\n"
        "s.run_async(None, {'x': x(8)}, lambda *_: ended.set(), None); assert ended.wait(20)\n"
        "print('its own output')\n",
        "--count",
        "20",
    )
    assert (done.code, done.out) == (0, "its own output\n"), done.err
    assert "models/a.onnx: 8 runs seen, 8 samples kept" in done.err
    assert "may be private" in done.err
    assert first_values(repository, "models/a") == [1, 2, 3, 4, 5, 6, 7, 8]
    assert not samples(repository, "models/b")


@pytest.mark.parametrize(
    "start",
    [
        "subprocess.run([sys.executable, __file__, 'child'], check=True)",
        "p = mp.get_context('spawn').Process(target=job, args=(5,)); p.start(); p.join()",
        "p = mp.get_context('fork').Process(target=job, args=(5,)); p.start(); p.join()",
        "pid = os.fork()\n    if not pid: job(5); os._exit(0)\n    os.waitpid(pid, 0)",
        "subprocess.run([sys.executable, '-c', 'import runpy; runpy.run_path(\"program.py\")'], check=True)",
    ],
    ids=["program", "spawn", "fork", "plain fork", "another program"],
)
def test_children_are_seen(repository: Repository, start: str) -> None:
    done = record(
        repository,
        "import multiprocessing as mp, os, subprocess, sys\n"
        "def job(n): ort.InferenceSession('models/a.onnx').run(None, {'x': x(n)})\n"
        "if __name__ != '__main__' or 'child' in sys.argv:\n"
        "    job(5) if __name__ != '__mp_main__' else None\n"
        f"else:\n    {start}\n",
    )
    assert done.code == 0, done.err
    assert first_values(repository, "models/a") == [5]


def test_a_fork_of_a_process_that_recorded_leaves_its_samples_alone(repository: Repository) -> None:
    done = record(
        repository,
        "import os\ns = ort.InferenceSession('models/a.onnx')\ns.run(None, {'x': x(1)})\n"
        "pid = os.fork()\n"
        "if not pid:\n"
        "    for n in range(40): ort.InferenceSession('models/a.onnx').run(None, {'x': x(n)})\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)\ns.run(None, {'x': x(100)})\n",
    )
    assert done.code == 0, done.err
    assert "42 runs seen, 8 samples kept" in done.err
    assert 100 in first_values(repository, "models/a")


def test_a_second_recording_changes_nothing(repository: Repository) -> None:
    code = (
        "r = np.random.default_rng(0)\ns = ort.InferenceSession('models/a.onnx')\n"
        "for n in range(100): s.run(None, {'x': r.standard_normal((1 + n % 4, 64)).astype('f4') * n})\n"
    )
    assert record(repository, code).code == 0
    first = {path.name: path.stat().st_mtime_ns for path in samples(repository, "models/a")}
    contents = [path.read_bytes() for path in samples(repository, "models/a")]
    assert len(first) == 8
    assert record(repository, code).code == 0
    assert {path.name: path.stat().st_mtime_ns for path in samples(repository, "models/a")} == first
    assert [path.read_bytes() for path in samples(repository, "models/a")] == contents
    shapes = {np.load(path)["x"].shape[0] for path in samples(repository, "models/a")}
    assert len(shapes) > 2


def test_what_was_recorded_is_replaced_or_added_to(repository: Repository) -> None:
    assert record(repository, ONE_RUN).code == 0
    (repository.root / ".onnx-ci/samples/models/a/by-hand.npz").write_bytes(b"mine")
    again = ONE_RUN.replace("x(1)", "x(9)")
    assert record(repository, again, "--add").code == 0
    (repository.root / ".onnx-ci/samples/models/a/by-hand.npz").unlink()
    assert first_values(repository, "models/a") == [1, 9]
    assert record(repository, again).code == 0
    assert first_values(repository, "models/a") == [9]


def test_models_from_bytes_and_from_elsewhere_are_known_by_their_content(
    repository: Repository, tmp_path: Path
) -> None:
    onnx.save(lean(seed=7), tmp_path / "other.onnx")
    done = record(
        repository,
        "import os, shutil\n"
        "ort.InferenceSession(open('models/b.onnx', 'rb').read()).run(None, {'x': x(1)})\n"
        "shutil.copy('models/b.onnx', '../copy.onnx')\n"
        "s = ort.InferenceSession('../copy.onnx'); os.unlink('../copy.onnx'); s.run(None, {'x': x(2)})\n"
        "for _ in range(3): ort.InferenceSession('../other.onnx').run(None, {'x': x(3)})\n",
    )
    assert done.code == 0, done.err
    assert first_values(repository, "models/b") == [1, 2]
    assert "other.onnx: 3 runs seen, and no model of this repository" in done.err


def test_a_model_that_was_shrunk_stands_for_its_original(repository: Repository, tmp_path: Path) -> None:
    shrunk = command("shrink", "models/a.onnx", tmp_path / "shipped.onnx", cwd=repository.root)
    assert shrunk.code == 0, shrunk.err
    assert record(repository, ONE_RUN.replace("models/a", "../shipped")).code == 0
    assert first_values(repository, "models/a") == [1]


def test_a_rule_finds_them_and_says_so(repository: Repository) -> None:
    write_policy(repository.root, "    methods: [dedupe, fp16-weights]\n")
    before = command("check", "--all", "--format", "json", cwd=repository.root).json["models"]
    assert {model["verification"]["inputs"] for model in before} == {"generated"}
    assert record(repository, ONE_RUN).code == 0
    report = command("check", "--all", "--format", "json", cwd=repository.root).json
    found = {model["path"]: model["verification"] for model in report["models"]}
    assert found["models/a.onnx"]["inputs"] == "samples"
    assert found["models/a.onnx"]["samples"] == 1
    assert found["models/a.onnx"]["recorded"] == ".onnx-ci/samples/models/a"
    assert found["models/b.onnx"]["inputs"] == "generated"
    assert record(repository, ONE_RUN + ONE_RUN.replace("x(1)", "x(4)")).code == 0
    explained = command("explain", "models/a.onnx", cwd=repository.root)
    assert "inputs: samples .onnx-ci/samples/models/a/*.npz (recorded" in explained.out
    assert "2 samples recorded in .onnx-ci/samples/models/a" in explained.out


def test_a_rule_that_names_samples_uses_those(repository: Repository) -> None:
    made = command("samples", "models/a.onnx", "--output", "mine.npz", "--count", "1", cwd=repository.root)
    assert made.code == 0, made.err
    write_policy(repository.root, "    methods: [dedupe, fp16-weights]\n    inputs: {samples: [mine.npz]}\n")
    done = record(repository, ONE_RUN + ONE_RUN.replace("x(1)", "x(2)"))
    assert "its rule names samples of its own" in done.err
    report = command("check", "models/a.onnx", "--format", "json", cwd=repository.root).json
    assert report["models"][0]["verification"]["samples"] == 1
    assert "recorded" not in report["models"][0]["verification"]


def test_a_recorded_sample_that_fits_no_more_says_what_to_do(repository: Repository) -> None:
    assert record(repository, ONE_RUN).code == 0
    onnx.save(bloated(width=32), repository.root / "models/a.onnx")
    done = command("check", "models/a.onnx", cwd=repository.root)
    assert done.code == 1
    assert "record again" in done.out


def test_another_folder(repository: Repository) -> None:
    done = record(repository, ONE_RUN, "--output", "tests/data")
    assert done.code == 0, done.err
    assert len(samples(repository, "models/a", "tests/data")) == 1
    assert 'inputs: {samples: ["tests/data/models/a/*.npz"]}' in done.err


def test_the_exit_code_is_the_commands_own(repository: Repository) -> None:
    done = record(repository, ONE_RUN + "raise SystemExit(7)\n")
    assert done.code == 7
    assert "1 run seen, 1 sample kept" in done.err
    assert "exit code 7" in done.err
    killed = record(repository, ONE_RUN + "import os; os.kill(os.getpid(), 9)\n")
    assert killed.code == 137
    assert "1 run seen, 1 sample kept" in killed.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "there is no command to record"),
        (("--",), 2, "there is no command to record"),
        (("--", "no-such-program"), 2, "'no-such-program' can't be run"),
        (("--", "python -c 1"), 2, "not in quotes"),
        (("--count", "0", "--", "true"), 2, "whole number"),
        (("--limit", "much", "--", "true"), 2, "--limit"),
        (("--", "true"), 3, "started no Python"),
        (("--", sys.executable, "-I", "program.py"), 3, "python -I"),
        (("--", sys.executable, "-c", "1"), 3, "no InferenceSession ran"),
    ],
)
def test_what_can_be_wrong(repository: Repository, arguments: tuple[str, ...], code: int, said: str) -> None:
    (repository.root / "program.py").write_text(HEAD + ONE_RUN)
    done = command("record", *arguments, cwd=repository.root)
    assert done.code == code, done.err
    assert said in done.err
    assert not (repository.root / ".onnx-ci").exists()


def test_the_program_does_not_notice(repository: Repository) -> None:
    """Failing runs fail the same way and are not kept; subclasses and the user's own sitecustomize work."""
    site = repository.root / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import builtins; builtins.theirs = True\n")
    done = record(
        repository,
        "import inspect, sitecustomize\n"
        "assert theirs and sitecustomize.__file__.endswith('/repository/site/sitecustomize.py')\n"
        "class Mine(ort.InferenceSession):\n"
        "    def run(self, *call): return [2 * y for y in super().run(*call)]\n"
        "s = Mine('models/a.onnx', providers=['CPUExecutionProvider'])\n"
        "assert isinstance(s, ort.InferenceSession) and isinstance(s, Mine)\n"
        "assert list(inspect.signature(ort.InferenceSession.run).parameters)[1] == 'output_names'\n"
        "for wrong in ({'x': np.zeros((2, 3), 'f4')}, {}, {'x': x(1).astype('f8')}, {'x': 'text'}):\n"
        "    try: s.run(None, wrong)\n"
        "    except Exception as error: print(type(error).__name__)\n"
        "    else: raise SystemExit('it ran')\n"
        "print(s.run(None, {'x': x(1)})[0].sum())\n",
        PYTHONPATH="site",
    )
    assert done.code == 0, done.err
    plain = subprocess.run(
        [sys.executable, "program.py"],
        cwd=repository.root,
        env={**plain_environment(), "PYTHONPATH": "site"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.out == plain.stdout
    assert first_values(repository, "models/a") == [1]


def test_trouble_is_told_and_changes_nothing(repository: Repository) -> None:
    """A program that makes our folder unusable still runs."""
    done = record(
        repository,
        "import os, shutil\ns = ort.InferenceSession('models/a.onnx')\ns.run(None, {'x': x(1)})\n"
        "site = os.environ['PYTHONPATH'].split(os.pathsep)[0]\n"
        "import zipfile; zipfile.ZipFile = None\n"
        "print(s.run(None, {'x': x(2)})[0].shape)\n",
    )
    assert (done.code, done.out) == (0, "(2, 64)\n"), done.err
    assert "2 runs seen, 1 sample kept" in done.err
    assert done.err.count("warning: recording went wrong") == 1


def test_large_inputs_are_left_out(repository: Repository) -> None:
    done = record(repository, ONE_RUN + ONE_RUN.replace("x(1)", "x(2, rows=4000)"), "--limit", "100kB")
    assert done.code == 0, done.err
    assert "larger inputs were left out, up to 1.02 MB" in done.err
    many = "s = ort.InferenceSession('models/a.onnx')\nfor n in range(9): s.run(None, {'x': x(n, 100)})\n"
    assert record(repository, many, "--limit", "100kB").code == 0
    assert len(samples(repository, "models/a")) == 3
    nothing = record(repository, ONE_RUN, "--limit", "1")
    assert nothing.code == 3
    assert "allow inputs of that size: --limit " in nothing.err


def test_pytest_in_parallel(repository: Repository) -> None:
    code = "def test(n=1): ort.InferenceSession('models/a.onnx').run(None, {'x': x(1)})\n"
    code += "def test_too(): ort.InferenceSession('models/b.onnx').run(None, {'x': x(1)})\n"
    (repository.root / "test_it.py").write_text(HEAD + code)
    call = ("-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "test_it.py")
    done = command("record", "--", sys.executable, *call, cwd=repository.root)
    assert done.code == 0, done.out + done.err
    assert len(samples(repository, "models/a")) == len(samples(repository, "models/b")) == 1


def test_the_outcome_cache_notices_new_samples(repository: Repository) -> None:
    write_policy(repository.root, "    methods: [dedupe, fp16-weights]\n")
    assert record(repository, ONE_RUN).code == 0
    call = ("check", "models/a.onnx", "--format", "json")
    assert command(*call, cwd=repository.root).json["models"][0]["verification"]["samples"] == 1
    assert record(repository, ONE_RUN.replace("x(1)", "x(2)"), "--add").code == 0
    assert command(*call, cwd=repository.root).json["models"][0]["verification"]["samples"] == 2


def test_a_policy_further_down_has_its_samples_beside_it(repository: Repository) -> None:
    write_policy(repository.root / "models", "    methods: [dedupe, fp16-weights]\n")
    assert record(repository, ONE_RUN).code == 0
    assert len(samples(repository, "a", "models/.onnx-ci/samples")) == 1
    report = command("check", "models/a.onnx", "--format", "json", cwd=repository.root).json
    assert report["models"][0]["verification"]["recorded"] == ".onnx-ci/samples/a"


def test_in_python(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    monkeypatch.chdir(repository.root)
    run = onnxruntime.InferenceSession.run
    opened_before = onnxruntime.InferenceSession("models/b.onnx")
    with onnx_ci.record(count=2) as recording:
        session = onnxruntime.InferenceSession("models/a.onnx")
        for number in range(5):
            session.run(None, {"x": np.full((1, WIDTH), number, np.float32)})
        opened_before.run(None, {"x": np.full((1, WIDTH), 3, np.float32)})
    assert onnxruntime.InferenceSession.run is run
    kept = {model.model: (model.state, model.runs, len(model.samples)) for model in recording.models}
    assert kept == {"models/a.onnx": ("kept", 5, 2), "models/b.onnx": ("kept", 1, 1)}
    session.run(None, {"x": np.full((1, WIDTH), 50, np.float32)})
    assert max(first_values(repository, "models/a")) < 50


def test_an_error_inside_the_block_is_the_users(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnxruntime

    monkeypatch.chdir(repository.root)

    def fail() -> None:
        onnxruntime.InferenceSession("models/a.onnx").run(None, {"x": np.zeros((1, WIDTH), np.float32)})
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), onnx_ci.record():
        fail()
    assert first_values(repository, "models/a") == [0]


def test_models_are_only_read(repository: Repository) -> None:
    before = file_sha256(repository.root / "models/a.onnx")
    assert record(repository, ONE_RUN).code == 0
    assert file_sha256(repository.root / "models/a.onnx") == before
    changed = repository.git("status", "--porcelain", "--untracked-files=all").split("\n")
    assert [line[3:] for line in changed if line] == [
        os.path.relpath(samples(repository, "models/a")[0], repository.root),
        "program.py",
    ]


def test_inputs_of_every_type(repository: Repository) -> None:
    """Text, a sequence and a map come back; an input with a value of its own is not part of a sample."""
    text = (
        '<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 3]>\n'
        "g (string[N] words, float[1] listed, float[2] mapped, float[2] w)"
        " => (string[N] a, float[2] b, float[1,2] c)"
        " <float[2] w = {1, 1}> { a = Identity(words) i = Constant<value_int=0>() d = SequenceAt(listed, i)"
        ' b = Mul(d, w) c = ai.onnx.ml.DictVectorizer<string_vocabulary=["p","q"]>(mapped) }'
    )
    proto = onnx.parser.parse_model(text)
    _, listed, mapped, _ = proto.graph.input
    listed.type.CopyFrom(onnx.helper.make_tensor_sequence_value_info("l", onnx.TensorProto.FLOAT, [2]).type)
    mapped.type.Clear()
    mapped.type.map_type.key_type = onnx.TensorProto.STRING
    mapped.type.map_type.value_type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    onnx.save(proto, repository.root / "models/a.onnx")
    done = record(
        repository,
        "ort.InferenceSession('models/a.onnx').run(None, {'words': np.array(['one', 'two'], object),"
        " 'listed': [np.ones(2, 'f4'), np.zeros(2, 'f4')], 'mapped': {'q': 3.0}, 'w': np.zeros(2, 'f4')})\n",
    )
    assert done.code == 0, done.err
    (path,) = samples(repository, "models/a")
    with np.load(path) as sample:
        assert set(sample) == {"words", "listed[0]", "listed[1]", "mapped{keys}", "mapped{values}"}
        assert sample["words"].tolist() == ["one", "two"]
    same = command("compare", "models/a.onnx", "models/a.onnx", "--samples", path, cwd=repository.root)
    assert same.code == 0, same.out + same.err


def test_a_folder_that_leads_outside_is_not_written_to(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (repository.root / ".onnx-ci").symlink_to(tmp_path / "elsewhere")
    done = record(repository, ONE_RUN)
    assert done.code == 3
    assert "leads outside of the repository" in done.err
    assert not list((tmp_path / "elsewhere").rglob("*.npz"))


def test_a_folder_is_named_as_its_rule_would(repository: Repository, tmp_path: Path) -> None:
    (repository.root / "program.py").write_text(HEAD + ONE_RUN.replace("models/a", "a"))
    call = ("record", "--output", "../rec", "--", sys.executable, "../program.py")
    done = command(*call, cwd=repository.root / "models")
    assert 'inputs: {samples: ["rec/models/a/*.npz"]}' in done.err
    outside = record(repository, ONE_RUN, "--output", str(tmp_path / "away"))
    assert "no rule can name them" in outside.err


def test_inputs_that_tell_nothing_are_left_out(repository: Repository) -> None:
    session = "s = ort.InferenceSession('models/a.onnx')\n"
    runs = "s.run(None, {'x': x(np.nan)})\ns.run(None, {'x': x(1, rows=0)})\ns.run(None, {'x': x(1)})\n"
    done = record(repository, session + runs)
    assert "empty, or hold no number" in done.err
    assert first_values(repository, "models/a") == [1.0]


def test_lists_are_kept_in_the_type_of_the_input(repository: Repository) -> None:
    done = record(repository, "ort.InferenceSession('models/a.onnx').run(None, {'x': [[0.5] * 64]})\n")
    assert done.code == 0, done.err
    (path,) = samples(repository, "models/a")
    assert np.load(path)["x"].dtype == np.float32


def test_an_input_that_has_a_value_is_told(repository: Repository) -> None:
    model = onnx.load(repository.root / "models/a.onnx")
    weight = model.graph.initializer[0]
    model.graph.input.append(onnx.helper.make_tensor_value_info(weight.name, weight.data_type, weight.dims))
    onnx.save(model, repository.root / "models/a.onnx")
    fed = f"np.zeros({tuple(weight.dims)}, np.float32)"
    code = f"ort.InferenceSession('models/a.onnx').run(None, {{'x': x(1), {weight.name!r}: {fed}}})\n"
    done = record(repository, code)
    assert done.code == 0, done.err
    assert f'{{freeze-inputs: {{skip: ["{weight.name}"]}}}}' in done.err


def test_a_place_that_can_not_be_written_is_told_before_the_program_runs(repository: Repository) -> None:
    code = "open('ran', 'w').close()\n" + ONE_RUN
    for output in ("models/a.onnx/samples", "models/a.onnx", "/proc/samples"):
        done = record(repository, code, "--output", output)
        assert done.code == 3, done.err
        assert f"samples can't be written to {output}" in done.err
        assert not (repository.root / "ran").exists()
    (repository.root / ".onnx-ci").write_text("a file")
    done = record(repository, code)
    assert done.code == 3, done.err
    assert "samples can't be written to .onnx-ci/samples" in done.err
    assert not (repository.root / "ran").exists()


def test_runs_that_all_failed_are_not_called_unseen(repository: Repository) -> None:
    wrong = "s = ort.InferenceSession('models/a.onnx')\ntry: s.run(None, {'x': x(1)[:, :3]})\n"
    done = record(repository, wrong + "except Exception: pass\n")
    assert done.code == 3, done.err
    assert "every run that was seen failed: models/a.onnx" in done.err
    assert "no onnxruntime session was seen" not in done.err
    ended = record(repository, wrong + "except Exception: raise SystemExit(5)\n")
    assert ended.code == 5
    assert "exit code 5; every run that was seen failed: models/a.onnx" in ended.err


def test_samples_of_a_model_that_was_renamed_are_missed(repository: Repository) -> None:
    assert record(repository, ONE_RUN).code == 0
    (repository.root / "program.py").unlink()
    repository.commit_all("samples")
    assert "OCI058" not in command("check", "--all", cwd=repository.root).out
    (repository.root / "nets").mkdir()
    repository.git("mv", "models/a.onnx", "nets/new.onnx")
    old, new = ".onnx-ci/samples/models/a", ".onnx-ci/samples/nets/new"
    for how in (("--staged",), ("--all",), ("nets/new.onnx",)):
        done = command("check", *how, "--format", "json", cwd=repository.root)
        (finding,) = [one for one in done.json["findings"] if one["code"] == "OCI058"]
        assert finding["severity"] == "warning"
        said = f"{old}: recorded samples of models/a, which is not there: they are not used"
        assert finding["message"] == said
        assert finding["command"] == f"mkdir -p .onnx-ci/samples/nets && mv {old} {new}"
    repository.commit_all("renamed")
    done = command("check", "--all", cwd=repository.root)
    assert "warning OCI058 .onnx-ci/samples/models/a" in done.out
    assert "called as the model is now" in done.out
    assert repository.run("sh", "-c", finding["command"]).returncode == 0
    assert "OCI058" not in command("check", "--all", cwd=repository.root).out
    told = command("explain", "nets/new.onnx", cwd=repository.root)
    assert new in told.out
