"""Models run in the worker: what comes back, and what never does."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_ci.policy.schema import Limits
from onnx_ci.sandbox.exchange import numpy_dtype
from onnx_ci.sandbox.runner import RunFailed, Runner
from tests.support.known import known
from tests.support.text_models import LINEAR, model, save

pytestmark = pytest.mark.cold

LIMITS = Limits(seconds=30)
X = np.arange(8, dtype=np.float32).reshape(2, 4)


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner() as one:
        yield one


def exotic(code: int) -> np.dtype:
    pytest.importorskip("ml_dtypes")
    return known(numpy_dtype(code))


def run(runner: Runner, folder: Path, proto: onnx.ModelProto, *feeds: dict[str, Any]) -> list[dict[str, Any]]:
    return runner.run(save(proto, folder / "model.onnx"), feeds, limits=LIMITS)


def test_one_dict_a_sample(runner: Runner, tmp_path: Path) -> None:
    weight = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
    outputs = run(runner, tmp_path, model(LINEAR), {"x": X}, {"x": X[:1]})
    assert [list(sample) for sample in outputs] == [["y"], ["y"]]
    np.testing.assert_allclose(outputs[0]["y"], X @ weight)
    assert outputs[1]["y"].shape == (1, 3)


def test_the_worker_is_reused(runner: Runner, tmp_path: Path) -> None:
    run(runner, tmp_path, model(LINEAR), {"x": X})
    pid = runner.pid
    run(runner, tmp_path, model(LINEAR), {"x": X})
    assert runner.pid == pid


def test_large_outputs_outlive_their_files(runner: Runner, tmp_path: Path) -> None:
    proto = model("g (float[N] x) => (float[N] y) { y = Neg(x) }")
    (sample,) = run(runner, tmp_path, proto, {"x": np.ones(1 << 20, np.float32)})
    assert not any(entry.is_dir() for entry in known(runner.host.temp).iterdir())
    gc.collect()
    assert sample["y"].sum() == -(1 << 20)


def test_scalars_and_empty_arrays(runner: Runner, tmp_path: Path) -> None:
    proto = model("g (float x, float[N] e) => (float y, float[N] z) { y = Neg(x) z = Neg(e) }")
    (sample,) = run(runner, tmp_path, proto, {"x": np.array(2, np.float32), "e": np.zeros(0, np.float32)})
    assert sample["y"].shape == ()
    assert sample["z"].shape == (0,)


def test_strings(runner: Runner, tmp_path: Path) -> None:
    proto = model("g (string[N] s) => (string[N] y) { y = Identity(s) }")
    (sample,) = run(runner, tmp_path, proto, {"s": np.array(["a", "longer", "ü"])})
    assert sample["y"].tolist() == ["a", "longer", "ü"]


@pytest.mark.parametrize("code", [16, 17, 18, 19, 20])
def test_types_that_numpy_lacks(runner: Runner, tmp_path: Path, code: int) -> None:
    dtype = exotic(code)
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["f"], to=1), helper.make_node("Cast", ["f"], ["y"], to=code)],
        "g",
        [helper.make_tensor_value_info("x", code, [3])],
        [helper.make_tensor_value_info("y", code, [3]), helper.make_tensor_value_info("f", 1, [3])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    (sample,) = run(runner, tmp_path, proto, {"x": np.array([1, -2, 0.5]).astype(dtype)})
    assert sample["y"].dtype == dtype
    assert sample["y"].astype(np.float32).tolist() == sample["f"].tolist() == [1, -2, 0.5]


@pytest.mark.parametrize("code", [TensorProto.INT4, TensorProto.UINT4])
def test_packed_types(runner: Runner, tmp_path: Path, code: int) -> None:
    dtype = exotic(code)
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["f"], to=1), helper.make_node("Cast", ["f"], ["y"], to=code)],
        "g",
        [helper.make_tensor_value_info("x", code, [5])],
        [helper.make_tensor_value_info("y", code, [5]), helper.make_tensor_value_info("f", 1, [5])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    values = [1, 7, 0, 5, 3]
    try:
        (sample,) = run(runner, tmp_path, proto, {"x": np.array(values, np.int8).astype(dtype)})
    except RunFailed as error:
        assert "implementation" in str(error)  # noqa: PT017 - the only other answer that is right
        pytest.skip("this onnxruntime has no Cast for it")
    assert sample["f"].tolist() == values
    assert sample["y"].astype(np.int8).tolist() == values


def test_sequences_in_and_out(runner: Runner, tmp_path: Path) -> None:
    proto = model("g (seq(float[2]) s) => (seq(float[2]) y) { y = Identity(s) }")
    items = [np.ones(2, np.float32), np.zeros(2, np.float32)]
    (sample,) = run(runner, tmp_path, proto, {"s": items})
    assert list(sample) == ["y.length", "y[0]", "y[1]"]
    assert sample["y[0]"].tolist() == [1, 1]


def test_optionals(runner: Runner, tmp_path: Path) -> None:
    proto = model("g (optional(float[2]) o) => (optional(float[2]) y) { y = Identity(o) }")
    full, empty = run(runner, tmp_path, proto, {"o": np.ones(2, np.float32)}, {"o": None})
    assert full["y"].tolist() == [1, 1]
    assert empty == {}


def test_maps_become_keys_and_values(runner: Runner, tmp_path: Path) -> None:
    proto = model(
        "g (float[N,2] x) => (seq(map(int64, float)) y)"
        " { y = ai.onnx.ml.ZipMap<classlabels_int64s=[5, 6]>(x) }",
        '<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 2]>',
    )
    (sample,) = run(runner, tmp_path, proto, {"x": np.eye(2, dtype=np.float32)})
    assert sample["y.keys"].tolist() == [5, 6]
    assert sample["y.values"].tolist() == [[1, 0], [0, 1]]
    assert sample["y.length"] == 2


def test_names_may_hold_anything(runner: Runner, tmp_path: Path) -> None:
    proto = model(LINEAR)
    odd = "../../x\n'\"%s/ü"
    proto.graph.input[0].name = proto.graph.node[0].input[0] = odd
    (sample,) = run(runner, tmp_path, proto, {odd: X})
    assert sample["y"].shape == (2, 3)


@pytest.mark.parametrize("name", ["with space.onnx", "qu'ote\".onnx", "line\nbreak.onnx", "ümläut.onnx"])
def test_paths_may_hold_anything(runner: Runner, tmp_path: Path, name: str) -> None:
    assert runner.run(save(model(LINEAR), tmp_path / name), [{"x": X}], limits=LIMITS)


def test_relative_paths(runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(model(LINEAR), tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    assert runner.run(Path("model.onnx"), [{"x": X}], limits=LIMITS)


def test_external_data(runner: Runner, tmp_path: Path) -> None:
    proto = model("g (float[N] x) => (float[N] y) { y = Add(x, w) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(4, np.float32), "w"))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.data", size_threshold=0)
    (sample,) = runner.run(tmp_path / "m.onnx", [{"x": np.ones(4, np.float32)}], limits=LIMITS)
    assert sample["y"].tolist() == [2, 2, 2, 2]


def test_optimization_can_be_turned_off(runner: Runner, tmp_path: Path) -> None:
    path = save(model(LINEAR), tmp_path / "model.onnx")
    (sample,) = runner.using(optimize=False).run(path, [{"x": X}], limits=LIMITS)
    assert sample["y"].shape == (2, 3)


@pytest.mark.parametrize(
    ("data", "feeds", "stage"),
    [
        (b"junk", {"x": X}, "load"),
        (b"", {"x": X}, "load"),
        (None, {"x": X[:, :3]}, "run"),
        (None, {"x": X.astype(np.float64)}, "run"),
        (None, {}, "run"),
        (None, {"x": X, "z": X}, "run"),
        (None, {"x": np.array(["a"])}, "run"),
    ],
)
def test_refusals_are_short_and_leave_the_worker_alive(
    runner: Runner, tmp_path: Path, data: bytes | None, feeds: dict[str, Any], stage: str
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model(LINEAR).SerializeToString() if data is None else data)
    runner.run(save(model(LINEAR), tmp_path / "good.onnx"), [{"x": X}], limits=LIMITS)
    pid = runner.pid
    with pytest.raises(RunFailed) as caught:
        runner.run(path, [feeds], limits=LIMITS)
    assert (caught.value.kind, caught.value.stage, caught.value.code) == ("error", stage, "OCI005")
    assert 0 < len(str(caught.value)) <= 300
    assert "\n" not in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
    runner.run(tmp_path / "good.onnx", [{"x": X}], limits=LIMITS)
    assert runner.pid == pid


def test_a_model_that_is_not_there(runner: Runner, tmp_path: Path) -> None:
    with pytest.raises(RunFailed):
        runner.run(tmp_path / "gone" / "model.onnx", [{}], limits=LIMITS)


def test_custom_operators_are_refused(runner: Runner, tmp_path: Path) -> None:
    proto = model(
        "g (float[2] x) => (float[2] y) { y = my.Op(x) }", '<ir_version: 8, opset_import: ["my": 1]>'
    )
    with pytest.raises(RunFailed) as caught:
        run(runner, tmp_path, proto, {"x": np.zeros(2, np.float32)})
    assert caught.value.stage == "load"
    assert "my" in str(caught.value)


def test_time(runner: Runner, tmp_path: Path) -> None:
    path = save(model(LINEAR), tmp_path / "model.onnx")
    found = runner.time(path, path, [{"x": X}], limits=LIMITS)
    assert 0 < found.before < 1
    assert 0 < found.after < 1
    assert 0 < found.low <= found.ratio <= found.high


LEAVING = """
import sys, tempfile
from pathlib import Path
import numpy as np
from onnx_ci.policy.schema import Limits
from onnx_ci.sandbox.runner import Runner
with Runner() as one:
    one.run(Path(sys.argv[1]), [{"x": np.ones((1, 4), np.float32)}], limits=Limits(seconds=30))
    print(one.pid, len(list(Path(tempfile.gettempdir()).iterdir())))
"""


@pytest.mark.sampled(0)
def test_nothing_stays_behind(tmp_path: Path) -> None:
    (tmp_path / "temp").mkdir()
    path = save(model(LINEAR), tmp_path / "m.onnx")
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temp")}
    command = [sys.executable, "-c", LEAVING, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    pid, there = done.stdout.split()
    assert int(there)
    assert {path.name for path in (tmp_path / "temp").iterdir()} <= {".ses"}  # onnxruntime's own
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_an_unused_runner_starts_nothing() -> None:
    with Runner() as one:
        assert one.pid is None


@pytest.mark.sampled(0)
def test_our_process_does_not_load_onnxruntime(tmp_path: Path) -> None:
    save(model(LINEAR), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", X)
    code = (
        "import sys; from pathlib import Path; import numpy as np\n"
        "from onnx_ci.policy.schema import Limits; from onnx_ci.sandbox.runner import Runner\n"
        "with Runner() as runner: runner.run(Path('m.onnx'), [{'x': np.load('x.npy')}], limits=Limits())\n"
        "sys.exit('onnxruntime' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode == 0
