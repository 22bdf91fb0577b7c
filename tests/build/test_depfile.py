"""`shrink --policy` and `--depfile`, by themselves and in Makefiles, and `embed`."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_ci.cli.main import main
from onnx_ci.errors import EnvironmentFault
from onnx_ci.model.replace import data_of
from tests.support.build_projects import EXACT, FEED, POLICY, found_by_check, needs, run, tree
from tests.support.cli import Done, onnx_ci
from tests.support.models import bloated, lean
from tests.support.run_model import outputs

pytestmark = pytest.mark.real

MAKEFILE = """\
all: out/model.onnx
out/model.onnx: models/model.onnx .onnx-ci.yaml
\tonnx-ci shrink $< $@ --policy .onnx-ci.yaml --depfile out/model.d
-include out/model.d
"""


def project(
    folder: Path, policy: str = POLICY, external: str = "", model: onnx.ModelProto | None = None
) -> Path:
    for name in ("models", "out"):
        (folder / name).mkdir(parents=True)
    (folder / ".onnx-ci.yaml").write_text(policy)
    path = folder / "models" / "model.onnx"
    onnx.save(model or bloated(), path, save_as_external_data=bool(external), location=external or None)
    return path


def shrink(folder: Path, *more: str) -> Done:
    return onnx_ci(
        "shrink", "models/model.onnx", "out/model.onnx", "--policy", ".onnx-ci.yaml", *more, cwd=folder
    )


def test_the_rule_is_applied_and_the_source_stays(tmp_path: Path) -> None:
    model = project(tmp_path)
    before = tree(tmp_path / "models")
    done = shrink(tmp_path, "--format", "json")
    assert done.code == 0, done.err
    assert (done.json["verdict"], done.json["rule"]["line"]) == ("shrunk", 3)
    assert (tmp_path / "out" / "model.onnx").stat().st_size < model.stat().st_size / 4
    assert tree(tmp_path / "models") == before


def test_a_build_may_run_anywhere(tmp_path: Path) -> None:
    """Patterns are relative to the policy, not to the folder that the build runs in."""
    model = project(tmp_path / "p", POLICY.replace("**/*.onnx", "models/*.onnx"))
    (tmp_path / "elsewhere").mkdir()
    done = onnx_ci(
        "shrink", model, "m.onnx", "--policy", tmp_path / "p" / ".onnx-ci.yaml", "--format", "json",
        cwd=tmp_path / "elsewhere",
    )  # fmt: skip
    assert done.json["verdict"] == "shrunk"


def test_a_sandbox_of_links_is_as_good_as_the_tree(tmp_path: Path) -> None:
    """Bazel shows an action links to the files that it may read, in a folder of their own."""
    project(tmp_path / "p", POLICY.replace("**/*.onnx", "models/*.onnx"), "model.onnx.data")
    for name in ("models/model.onnx", "models/model.onnx.data", ".onnx-ci.yaml"):
        (tmp_path / "box" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "box" / name).symlink_to(tmp_path / "p" / name)
    (tmp_path / "box" / "out").mkdir()
    assert shrink(tmp_path / "box", "--format", "json").json["verdict"] == "shrunk"


@pytest.mark.parametrize("external", ["", "weights.bin"])
def test_what_the_rule_leaves_alone_is_copied_again_when_it_changes(tmp_path: Path, external: str) -> None:
    model = project(tmp_path, EXACT, external, lean())
    for seed in (0, 1):
        for file in model.parent.iterdir():
            file.unlink()  # onnx would append to the data that is there
        onnx.save(lean(seed=seed), model, save_as_external_data=bool(external), location=external or None)
        assert shrink(tmp_path).code == 0
        assert tree(tmp_path / "out") == tree(tmp_path / "models")


def test_data_of_an_earlier_build_goes_when_it_is_no_longer_needed(tmp_path: Path) -> None:
    project(tmp_path, external="model.onnx.data")
    assert shrink(tmp_path).code == 0
    assert sorted(tree(tmp_path / "out")) == ["model.onnx", "model.onnx.data"]
    (tmp_path / ".onnx-ci.yaml").write_text(POLICY.replace("s]", "s, {external-data: {embed: true}}]"))
    assert shrink(tmp_path).code == 0
    assert sorted(tree(tmp_path / "out")) == ["model.onnx"]


def test_a_clean_rebuild_works_nothing_out_again_and_gives_the_same_bytes(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(tmp_path)
    assert shrink(tmp_path).code == 0
    written = tree(tmp_path / "out")
    (tmp_path / "out" / "model.onnx").unlink()
    request.getfixturevalue("idle_gate")
    monkeypatch.chdir(tmp_path)
    command = ["shrink", "models/model.onnx", "out/model.onnx", "--policy", ".onnx-ci.yaml"]
    assert main(command) == 0
    assert tree(tmp_path / "out") == written
    assert main([*command, "--no-cache"]) == 4
    assert shrink(tmp_path, "--no-cache").code == 0
    assert tree(tmp_path / "out") == written


def test_builds_at_the_same_time_do_not_collide(tmp_path: Path) -> None:
    """Four at once, with one cache; two of them even write to the same place."""
    with ThreadPoolExecutor(4) as pool:
        folders = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
        list(map(project, folders))
        done = list(pool.map(shrink, [*folders, folders[0]]))
    assert [one.code for one in done] == [0, 0, 0, 0], [one.err for one in done]
    assert tree(folders[0] / "out") == tree(folders[1] / "out") == tree(folders[2] / "out")
    assert list(tree(folders[0] / "out")) == ["model.onnx"]


def test_a_broken_rule_writes_nothing_and_says_what_check_says(tmp_path: Path) -> None:
    project(tmp_path, f"{POLICY}    budget: {{size: 2 kB}}\n")
    done = shrink(tmp_path, "--depfile", "out/model.d")
    assert done.code == 1
    assert found_by_check(tmp_path, "OCI001") in done.out
    assert tree(tmp_path / "out") == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["models/no.onnx", "out/m.onnx", "--policy", ".onnx-ci.yaml"], "there is no file 'models/no.onnx'"),
        (["models/model.onnx", "out/m.onnx", "--policy", "no.yaml"], "there is no policy file 'no.yaml'"),
        (["models/model.onnx", "models/model.onnx", "--policy", ".onnx-ci.yaml"], "is the model itself"),
        (["models/model.onnx", "out/m.onnx", "--policy", "sub/p.yaml"], "is not below"),
        (["models/model.onnx", ".onnx-ci.yaml", "--policy", ".onnx-ci.yaml"], "is the policy"),
        (
            ["models/model.onnx", "out/m.onnx", "--policy", ".onnx-ci.yaml", "--methods", "dedupe"],
            "--methods and --policy can't be given together",
        ),
    ],
)
def test_wrong_calls(tmp_path: Path, arguments: list[str], message: str) -> None:
    project(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "p.yaml").write_text(POLICY)
    before = tree(tmp_path)
    done = onnx_ci("shrink", *arguments, cwd=tmp_path)
    assert (done.code, message in done.err) == (2, True), done.err
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("file", "what"),
    [
        ("models/model.onnx", "is the model"),
        ("link", "is the model"),
        ("models/model.onnx.data", "is data of models/model.onnx"),
        ("out/model.onnx", "is OUT"),
        (".onnx-ci.yaml", "is the policy"),
    ],
)
@pytest.mark.parametrize("option", ["--depfile", "--output"])
def test_nothing_is_written_over_what_is_needed(tmp_path: Path, option: str, file: str, what: str) -> None:
    model = project(tmp_path, external="model.onnx.data")
    (tmp_path / "link").hardlink_to(model)
    before = tree(tmp_path)
    done = shrink(tmp_path, "--format", "json", option, file)
    assert (done.code, what in done.err) == (2, True), done.err
    assert tree(tmp_path) == before


def test_nothing_is_written_over_any_of_several_data_files(tmp_path: Path) -> None:
    model = project(tmp_path)
    onnx.save(bloated(), model, save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=0)
    names = data_of(model)
    assert len(names) > 1
    before = tree(tmp_path)
    for name in names:
        done = shrink(tmp_path, "--depfile", f"models/{name}")
        assert (done.code, "is data of models/model.onnx" in done.err) == (2, True), done.err
    assert tree(tmp_path) == before


def test_without_its_depfile_there_is_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Make would take it for current, and never look at its data again."""
    project(tmp_path)
    assert shrink(tmp_path, "--depfile", "no/model.d").code == 3
    assert shrink(tmp_path, "--depfile", "out").code == 3
    assert tree(tmp_path / "out") == {}

    def full(*_: object) -> None:
        raise EnvironmentFault("the disk is full")

    monkeypatch.setattr("onnx_ci.cli.shrink.write_depfile", full)
    monkeypatch.chdir(tmp_path)
    command = ["shrink", "models/model.onnx", "out/model.onnx", "--policy", ".onnx-ci.yaml"]
    assert main([*command, "--depfile", "out/model.d"]) == 3
    assert "the disk is full" in capsys.readouterr().err
    assert tree(tmp_path / "out") == {}


@pytest.mark.parametrize("name", ["a=b.onnx", "a:b.onnx", "a;b.onnx", "a%b.onnx", "a\nb.onnx"])
def test_names_that_make_would_misread_are_refused_before_any_work(tmp_path: Path, name: str) -> None:
    model = project(tmp_path)
    done = onnx_ci("shrink", model, tmp_path / "out" / name, "--depfile", "m.d", cwd=tmp_path)
    assert (done.code, "Make would read otherwise" in done.err) == (2, True), done.err
    assert not tree(tmp_path / "out")


@pytest.mark.parametrize(("policy", "external"), [(POLICY, "model.onnx.data"), (EXACT, "weights.bin")])
def test_what_a_lost_output_left_is_not_in_the_way(tmp_path: Path, policy: str, external: str) -> None:
    """`clean` removes what a build system knows of: the model, but not its data."""
    for folder, seeds in ((tmp_path / "again", (0, 1)), (tmp_path / "fresh", (1,))):
        model = project(folder, policy)
        for seed in seeds:
            (folder / "models" / external).unlink(missing_ok=True)  # onnx would append to it
            onnx.save(lean(seed=seed), model, save_as_external_data=True, location=external)
            (folder / "out" / "model.onnx").unlink(missing_ok=True)
            assert shrink(folder).code == 0
    assert tree(tmp_path / "again" / "out") == tree(tmp_path / "fresh" / "out")


def test_the_depfile_names_all_that_counted_and_odd_names_are_escaped(tmp_path: Path) -> None:
    odd = "a b#c$d.onnx"
    policy = f"{EXACT[:-3]}, inputs: {{samples: ['in put.npz']}}}}]\n"
    model = project(tmp_path, policy, "model.onnx.data")
    model.rename(tmp_path / "models" / odd)
    np.savez(tmp_path / "in put.npz", **FEED)
    done = onnx_ci(
        "shrink",
        f"models/{odd}",
        f"out/{odd}",
        "--policy",
        ".onnx-ci.yaml",
        "--depfile",
        "out/d",
        cwd=tmp_path,
    )
    assert done.code == 0, done.out
    first, rules = (tmp_path / "out" / "d").read_text().split(".npz\n", 1)
    assert first.startswith(
        "out/a\\ b\\#c$$d.onnx: \\\n  models/a\\ b\\#c$$d.onnx \\\n  models/model.onnx.data \\\n"
    )
    assert ".onnx-ci.yaml" in first
    assert "in\\ put" in first
    assert "models/model.onnx.data:\n" in rules


def test_make_builds_again_only_what_has_to_be(tmp_path: Path) -> None:
    needs("make")
    model = project(tmp_path, external="model.onnx.data")
    (tmp_path / "Makefile").write_text(MAKEFILE)
    data = tmp_path / "models" / "model.onnx.data"

    def make() -> bool:
        """Whether the model was built."""
        done = run("make", cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return "onnx-ci shrink" in done.stdout

    assert make()
    ((given,),) = outputs(tmp_path / "out" / "model.onnx", [FEED])
    ((expected,),) = outputs(model, [FEED])
    assert np.abs(given - expected).max() < 0.05
    assert not make()
    for file in (model, data, tmp_path / ".onnx-ci.yaml"):
        later = (tmp_path / "out" / "model.onnx").stat().st_mtime + 10
        os.utime(file, (later, later))
        assert make(), file
        os.utime(file, (1, 1))
        assert not make(), file
    onnx.save(bloated(), model)  # without the data file, which then goes
    data.unlink()
    assert make()
    assert not make()


def test_a_new_sample_means_another_build(tmp_path: Path) -> None:
    needs("make")
    project(tmp_path, f"{EXACT[:-3]}, inputs: {{samples: ['feeds/*.npz']}}}}]\n")
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "feeds").mkdir()
    np.savez(tmp_path / "feeds" / "one.npz", **FEED)
    assert "onnx-ci shrink" in run("make", cwd=tmp_path).stdout
    assert "onnx-ci shrink" not in run("make", cwd=tmp_path).stdout
    np.savez(tmp_path / "feeds" / "two.npz", **FEED)
    os.utime(tmp_path / "feeds" / "two.npz", (1, 1))
    assert "onnx-ci shrink" in run("make", cwd=tmp_path).stdout


MESON = """\
project('demo', version: '1')
custom_target('model',
  input: 'models/model.onnx', output: 'model.onnx', depfile: 'model.d', build_by_default: true,
  command: [find_program('onnx-ci'), 'shrink', '@INPUT@', '@OUTPUT@',
            '--policy', files('.onnx-ci.yaml'), '--depfile', '@DEPFILE@'])
"""


def test_meson_builds_again_only_what_has_to_be(tmp_path: Path) -> None:
    project(tmp_path, external="model.onnx.data")
    (tmp_path / "meson.build").write_text(MESON)
    assert run("meson", "setup", "b", cwd=tmp_path).returncode == 0

    def again() -> bool:
        done = run("ninja", "-C", "b", cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return "no work to do" not in done.stdout

    assert again()
    assert (tmp_path / "b" / "model.onnx").stat().st_size < 10_000
    assert not again()
    for name in ("models/model.onnx.data", ".onnx-ci.yaml"):
        os.utime(tmp_path / name)
        assert again(), name
        assert not again(), name


def test_a_model_as_a_c_array(tmp_path: Path) -> None:
    needs("cc")
    onnx.save(bloated(), tmp_path / "my-model.onnx")
    assert onnx_ci("embed", "my-model.onnx", "m.c", cwd=tmp_path).code == 0
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "m.h"\n'
        "int main(void) { return fwrite(my_model_onnx, 1, my_model_onnx_size, stdout) == 0; }\n"
    )
    done = run("cc", "-Wall", "-Werror", "-pedantic", "main.c", "m.c", "-o", "main", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert run("sh", "-c", "./main > out.onnx", cwd=tmp_path).returncode == 0
    assert (tmp_path / "out.onnx").read_bytes() == (tmp_path / "my-model.onnx").read_bytes()


def test_what_can_not_be_embedded(tmp_path: Path) -> None:
    onnx.save(bloated(), tmp_path / "m.onnx", save_as_external_data=True, location="m.data")
    for arguments, message in (
        (["m.onnx", "m.c"], "keeps weights in 'm.data'"),
        (["no.onnx", "m.c"], "there is no file"),
        (["m.onnx", "m.cpp"], "is no C file"),
        (["m.onnx", "m.c", "--symbol", "a b"], "is no name for a C array"),
        (["m.onnx", "m.c", "--symbol", "int"], "is no name for a C array"),
    ):
        done = onnx_ci("embed", *arguments, cwd=tmp_path)
        assert (done.code, message in done.err) == (2, True), done.err
    assert not (tmp_path / "m.c").exists()
