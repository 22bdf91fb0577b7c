"""`samples --from`: real pictures, sounds and text in the form that a model takes."""

from __future__ import annotations

import json
import sys
import wave
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser
from PIL import Image

from tests.support.cli import Done
from tests.support.cli import call as onnx_ci

pytestmark = pytest.mark.sampled(3)

HEAD = '<ir_version: 8, opset_import: ["": 17]>\n'
FIRST = HEAD + "g (float[N,3,16,24] x) => (float[N,3] y) { y = ReduceMean<axes=[2,3], keepdims=0>(x) }"
LAST = HEAD + "g (float[1,H,W,3] x) => (float[1,3] y) { y = ReduceMean<axes=[1,2], keepdims=0>(x) }"
BYTES = HEAD + "g (uint8[1,3,H,W] x) => (float[1,3,H,W] y) { y = Cast<to=1>(x) }"
SOUND = (
    HEAD
    + "g (float[N,T] audio, int64 sr, float[1] gain) => (float[N,T] y) { z = Mul(audio, gain) y = Abs(z) }"
)
FRAME = HEAD + "g (float[1,1,512] audio) => (float[1,1,512] y) { y = Abs(audio) }"
TEXT = (
    HEAD + "g (int64[N,S] input_ids, int64[N,S] attention_mask, int32[N,S] token_type_ids)"
    " => (float[N,S] y) { a = Cast<to=1>(input_ids) b = Cast<to=1>(attention_mask)"
    " c = Cast<to=1>(token_type_ids) d = Mul(a, b) y = Add(d, c) }"
)


def save(folder: Path, text: str) -> None:
    onnx.save(parser.parse_model(text), folder / "m.onnx")


def picture(folder: Path, name: str, height: int = 40, width: int = 60, red: int = 255) -> None:
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[..., 0] = red
    Image.fromarray(pixels).save(folder / name)


def sound(folder: Path, name: str, seconds: float = 0.5, rate: int = 8000) -> None:
    times = np.arange(int(seconds * rate)) / rate
    values = (np.sin(2 * np.pi * 440 * times) * 16000 * (times > seconds / 2)).astype("<i2")
    with wave.open(str(folder / name), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(values.tobytes())


def make(folder: Path, *arguments: str) -> Done:
    return onnx_ci("samples", "m.onnx", "--output", "s.npz", *arguments, cwd=folder)


def test_pictures(tmp_path: Path) -> None:
    save(tmp_path, FIRST)
    picture(tmp_path, "b.png", red=255)
    picture(tmp_path, "a.jpg", red=0)
    done = make(tmp_path, "--from", "*.jpg", "b.png", "--mean", "0.5", "--std", "0.25,0.5,0.5")
    assert done.code == 0, done.err
    with np.load(tmp_path / "s.npz") as first, np.load(tmp_path / "s-1.npz") as second:
        assert second["x"].shape == (1, 3, 16, 24)
        assert np.allclose(first["x"][0, 0], -2.0, atol=0.05)
        assert np.allclose(second["x"][0, :, 3, 3], [2.0, -1.0, -1.0])
    assert "b.png, 16x24 NCHW, --mean and --std as given" in done.out
    same = onnx_ci("compare", "m.onnx", "m.onnx", "--samples", "s*.npz", cwd=tmp_path)
    assert same.code == 0, same.err


def test_channels_last_and_sizes(tmp_path: Path) -> None:
    save(tmp_path, LAST)
    picture(tmp_path, "a.png", 100, 1000)
    assert make(tmp_path, "--from", "a.png").code == 0
    assert np.load(tmp_path / "s.npz")["x"].shape == (1, 64, 640, 3)
    done = make(tmp_path, "--from", "a.png", "--size", "8x10", "--force")
    assert done.code == 0
    assert np.load(tmp_path / "s.npz")["x"].shape == (1, 8, 10, 3)
    assert "0 to 1, a guess" in done.out


def test_bytes_stay_bytes(tmp_path: Path) -> None:
    save(tmp_path, BYTES)
    picture(tmp_path, "a.png", red=200)
    done = make(tmp_path, "--from", "a.png")
    assert done.code == 0, done.err
    array = np.load(tmp_path / "s.npz")["x"]
    assert (array.dtype, array[0, :, 0, 0].tolist()) == (np.uint8, [200, 0, 0])
    assert "0 to 255, by its type" in done.out


def test_the_models_own_range_is_found(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((8, 3, 3, 3)).astype(np.float32) / 255
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Conv", ["x", "w", "b"], ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 16, 16])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 8, 14, 14])],
        [
            onnx.numpy_helper.from_array(weights, "w"),
            onnx.numpy_helper.from_array(rng.standard_normal(8).astype(np.float32), "b"),
        ],
    )
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "m.onnx",
    )
    picture(tmp_path, "a.png")
    done = make(tmp_path, "--from", "a.png")
    assert done.code == 0, done.err
    assert "0 to 255, by its first convolution" in done.out
    assert np.load(tmp_path / "s.npz")["x"].max() == 255


def test_sound(tmp_path: Path) -> None:
    save(tmp_path, SOUND)
    sound(tmp_path, "a.wav")
    done = make(tmp_path, "--from", "a.wav", "--rate", "16000")
    assert done.code == 0, done.err
    with np.load(tmp_path / "s.npz") as sample:
        assert sample["audio"].shape == (1, 8000)
        assert int(sample["sr"]) == 16000
        assert 0.4 < np.abs(sample["audio"]).max() < 0.6
        assert sample["gain"].shape == (1,)
    assert "a.wav, 0.5 s at 16000 Hz" in done.out
    assert "(made up)" in done.out


def test_the_loudest_part_of_a_sound(tmp_path: Path) -> None:
    save(tmp_path, FRAME)
    sound(tmp_path, "a.wav")
    assert make(tmp_path, "--from", "a.wav", "--rate", "8000").code == 0
    array = np.load(tmp_path / "s.npz")["audio"]
    assert array.shape == (1, 1, 512)
    assert np.abs(array).max() > 0.4


def test_text(tmp_path: Path) -> None:
    save(tmp_path, TEXT)
    vocabulary = {"[UNK]": 0, "a": 1, "line": 2, "of": 3, "text": 4}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    (tmp_path / "lines.txt").write_text("a line of text\n\nother text\n")
    done = make(tmp_path, "--from", "lines.txt", "--tokenizer", "tokenizer.json")
    assert done.code == 0, done.err
    with np.load(tmp_path / "s.npz") as first, np.load(tmp_path / "s-1.npz") as second:
        assert first["input_ids"].tolist() == [[1, 2, 3, 4]]
        assert first["attention_mask"].tolist() == [[1, 1, 1, 1]]
        assert second["input_ids"].tolist() == [[0, 4]]
        assert second["token_type_ids"].dtype == np.int32
    assert "lines.txt:3, 2 tokens" in done.out
    assert make(tmp_path, "--from", "lines.txt").code == 2


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--from", "none/*.jpg"), 2, "no file matches 'none/*.jpg'"),
        (("--from", "bad.png"), 2, "can't be read"),
        (("--from", "notes.md"), 2, "no picture, sound or text by its ending"),
        (("--from", "a.png", "a.wav"), 2, "files of several kinds"),
        (("--from", "a.wav"), 1, "no input of the model takes a sound"),
        (("--from", "lines.txt"), 2, "text needs a tokenizer"),
        (("--from", "a.png", "--mean", "x"), 2, "expected a number"),
        (("--from", "a.png", "--std", "0"), 2, "divided by 0"),
        (("--from", "a.png", "--size", "ax2"), 2, "whole number"),
        (("--from", "a.png", "--layout", "NHWC"), 2, "24 channels"),
    ],
)
def test_what_can_be_wrong(tmp_path: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    save(tmp_path, FIRST)
    picture(tmp_path, "a.png")
    sound(tmp_path, "a.wav")
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\nno")
    (tmp_path / "notes.md").write_text("x")
    (tmp_path / "lines.txt").write_text("x")
    done = make(tmp_path, *arguments)
    assert done.code == code, done.err
    assert said in done.err
    assert not (tmp_path / "s.npz").exists()


def test_a_package_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, FIRST)
    picture(tmp_path, "a.png")
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    done = make(tmp_path, "--from", "a.png")
    assert done.code == 3
    assert "pip install 'onnx-ci[samples]'" in done.err


def test_sizes_that_run_are_found(tmp_path: Path) -> None:
    """An open length that has to be 64 all the same, and a batch that is always 3."""
    weights = "{" + ",".join(["1"] * 64) + "}"
    save(
        tmp_path,
        HEAD
        + f"g (float[3,T] audio) => (float[3,1] y) <float[64,1] w = {weights}> {{ y = MatMul(audio, w) }}",
    )
    sound(tmp_path, "a.wav")
    done = make(tmp_path, "--from", "a.wav")
    assert done.code == 0, done.err
    assert np.load(tmp_path / "s.npz")["audio"].shape == (3, 64)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--mean", "0.5"), "--mean is for samples from files"),
        (("--tokenizer", "t.json", "--rate", "8000"), "--rate and --tokenizer are for samples from files"),
        (("--from", "a.png", "--rate", "8000"), "--rate says nothing about a picture"),
        (
            ("--from", "a.wav", "--std", "1", "--layout", "NCHW"),
            "--std and --layout say nothing about a sound",
        ),
        (("--from", "l.txt", "--size", "8"), "--size says nothing about a text"),
        (("--from", "a.png", "--mean", "1,2,3,4"), "--mean has 4 numbers, and 'x' has 3 channels"),
    ],
)
def test_options_that_would_be_ignored_are_refused(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    save(tmp_path, FIRST)
    picture(tmp_path, "a.png")
    sound(tmp_path, "a.wav")
    (tmp_path / "l.txt").write_text("a line\n")
    done = make(tmp_path, *arguments)
    assert done.code == 2, done.out
    assert said in done.err
    assert not (tmp_path / "s.npz").exists()


def test_messages_name_the_users_files(tmp_path: Path) -> None:
    save(tmp_path, FIRST)
    picture(tmp_path, "a.png")
    done = make(tmp_path, "--from", "a.png", "--size", "8x10")
    assert done.code != 0
    assert "a.png: input 'x' needs float[N,3,16,24]" in done.err
    assert "--size" in done.err
    assert ".npz" not in done.err


def test_samples_of_an_earlier_call_are_not_taken_for_these(tmp_path: Path) -> None:
    save(tmp_path, FIRST)
    for number in range(3):
        picture(tmp_path, f"{number}.png", red=number)
    assert make(tmp_path, "--from", "*.png").code == 0
    (tmp_path / "s.npz").unlink()
    refused = make(tmp_path, "--from", "0.png")
    assert refused.code == 2
    assert "s-1.npz, s-2.npz: there already" in refused.err
    forced = make(tmp_path, "--from", "0.png", "--force")
    assert forced.code == 0, forced.err
    assert (
        "s-1.npz, s-2.npz: from before, and not of these samples: 's*.npz' would name them too" in forced.err
    )
    assert (tmp_path / "s-2.npz").exists()
