"""Pictures, sounds and spectra that are made up, and the range that a model takes pictures in."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from onnx_ci.inputs import scenes, sounds
from onnx_ci.inputs.generate import FIRST, deriver_of
from onnx_ci.inputs.graph import UseDef
from onnx_ci.inputs.normalization import BYTES, IMAGENET, RANGES, SIGNED, UNIT, PictureRange, picture_ranges
from onnx_ci.policy.schema import InputSpec

pytestmark = pytest.mark.sampled(2)

Floats = NDArray[np.float64]


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def photo(number: int) -> Floats:
    """A picture that had no part in finding ranges: blocks of colours with a gradient over them."""
    rng = generator(100 + number)
    blocks = np.kron(rng.random((3, 12, 12)), np.ones((8, 8)))
    return np.clip(blocks * np.linspace(0.4, 1.2, 96) + 0.05 * rng.standard_normal((3, 96, 96)), 0, 1)


def trained(taken: PictureRange, *, norm: bool, before: str = "") -> onnx.ModelProto:
    """A convolution whose batch normalization, or bias, was fitted to pictures of one range."""
    rng = generator(3)
    weights = rng.standard_normal((16, 3, 3, 3)) * 0.3
    pictures = np.stack([taken.apply(photo(number)) for number in range(4)])
    if before == "Div":
        pictures = pictures / 255.0
    windows = np.lib.stride_tricks.sliding_window_view(pictures, (3, 3), axis=(2, 3))
    answers = np.einsum("nchwij,ocij->onhw", windows, weights).reshape(16, -1)
    mean, deviation = answers.mean(axis=1), answers.std(axis=1)
    stored = {"w": weights}
    nodes = [helper.make_node("Conv", ["given", "w"], ["c"])]
    if norm:
        stored |= {"gamma": np.ones(16), "beta": np.zeros(16), "mean": mean, "variance": deviation**2}
        inputs = ["c", "gamma", "beta", "mean", "variance"]
        nodes.append(helper.make_node("BatchNormalization", inputs, ["y"]))
    else:
        stored = {"w": weights, "b": np.sign(rng.standard_normal(16)) * 1.5 * deviation}
        nodes = [helper.make_node("Conv", ["given", "w", "b"], ["y"])]
    if before:
        stored["of"] = np.array(255.0)
        nodes.insert(0, helper.make_node(before, ["x", "of"], ["given"]))
    else:
        nodes.insert(0, helper.make_node("Identity", ["x"], ["given"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 64, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in stored.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def found(proto: onnx.ModelProto) -> tuple[PictureRange, ...]:
    return picture_ranges(UseDef(proto), "x", numpy_helper.to_array)


@pytest.mark.parametrize("taken", RANGES, ids=lambda taken: taken.name)
def test_a_batch_normalization_tells_the_range(taken: PictureRange) -> None:
    assert found(trained(taken, norm=True)) == (taken,)


@pytest.mark.parametrize("taken", [BYTES, IMAGENET], ids=lambda taken: taken.name)
def test_a_bias_tells_ranges_that_are_far_apart(taken: PictureRange) -> None:
    assert found(trained(taken, norm=False)) == (taken,)


def test_a_bias_leaves_two_ranges_that_are_near_each_other() -> None:
    assert set(found(trained(UNIT, norm=False))) <= {UNIT, SIGNED}


def test_what_stands_before_the_convolution_is_looked_through() -> None:
    assert found(trained(BYTES, norm=True, before="Div")) == (BYTES,)


@pytest.mark.parametrize("taken", [BYTES, UNIT], ids=lambda taken: taken.name)
def test_every_other_pixel_as_channels_is_looked_through(taken: PictureRange) -> None:
    """How the first layer of many detectors halves a picture."""
    weights = generator(3).standard_normal((16, 12, 3, 3)) * 0.3
    pictures = np.stack([taken.apply(photo(number)) for number in range(4)])
    halves = np.concatenate([pictures[:, :, y::2, x::2] for x in (0, 1) for y in (0, 1)], axis=1)
    windows = np.lib.stride_tricks.sliding_window_view(halves, (3, 3), axis=(2, 3))
    answers = np.einsum("nchwij,ocij->onhw", windows, weights).reshape(16, -1)
    stored = {"w": weights, "one": np.ones(16), "zero": np.zeros(16)}
    stored |= {"mean": answers.mean(axis=1), "variance": answers.var(axis=1)}
    tensors = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in stored.items()]
    ends = {"0": 0, "1": 1, "2": 2, "3": 3, "end": 1 << 30}
    tensors += [numpy_helper.from_array(np.array([value]), name) for name, value in ends.items()]
    nodes = []
    for x, y in ("00", "01", "10", "11"):
        nodes.append(helper.make_node("Slice", ["x", y, "end", "2", "2"], [f"rows{x}{y}"]))
        nodes.append(helper.make_node("Slice", [f"rows{x}{y}", x, "end", "3", "2"], [f"part{x}{y}"]))
    nodes.append(helper.make_node("Concat", [node.output[0] for node in nodes[1::2]], ["given"], axis=1))
    nodes.append(helper.make_node("Conv", ["given", "w"], ["c"]))
    nodes.append(helper.make_node("BatchNormalization", ["c", "one", "zero", "mean", "variance"], ["y"]))
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 64, 64])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [given], [made], tensors)
    assert found(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])) == (taken,)


def test_no_range_is_made_up_where_none_can_be_told() -> None:
    proto = trained(UNIT, norm=False)
    del proto.graph.node[-1].input[2]
    assert found(proto) == ()


def test_a_kernel_larger_than_a_picture_tells_no_range() -> None:
    """A pitch detector reshapes 1,024 samples of sound and has a kernel of 512 by 1."""
    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node("Conv", ["x", "w", "b"], ["y"])],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 1024, 1])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [
                numpy_helper.from_array(generator().random((4, 1, 512, 1)).astype(np.float32), "w"),
                numpy_helper.from_array(np.ones(4, np.float32), "b"),
            ],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    assert found(proto) == ()


def test_pictures_are_in_the_range_that_was_found_and_that_is_said() -> None:
    deriver = deriver_of(trained(BYTES, norm=True), InputSpec(count=4), numpy_helper.to_array)
    pictures = [sample["x"] for sample in deriver.feeds(FIRST)]
    assert all(isinstance(picture, np.ndarray) and picture.max() > 150 for picture in pictures)
    assert "from 0 to 255" in deriver.reasons(FIRST)["x"]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("shape", [(64, 64), (224, 224), (48, 320), (1, 1), (3, 500), (700, 640), (7, 7)])
@pytest.mark.parametrize("index", range(4))
def test_pictures_are_the_same_each_time_and_within_bounds(shape: tuple[int, int], index: int) -> None:
    first, second = (scenes.picture(generator(5), *shape, index) for _ in range(2))
    assert first.shape == (3, *shape)
    assert np.array_equal(first, second)
    assert first.min() >= 0.0
    assert first.max() <= 1.0


def test_scenes_have_detail_at_every_scale() -> None:
    """The spectrum of a photograph falls with frequency; that of noise does not, that of a blob at once."""
    grey = scenes.scene(generator(1), 256, 256, people=1).mean(axis=0)
    power = np.abs(np.fft.fft2(grey - grey.mean())) ** 2
    radius = np.hypot(*np.meshgrid(np.fft.fftfreq(256), np.fft.fftfreq(256)))
    bands = [power[(radius >= low) & (radius < 2 * low)].mean() for low in (0.01, 0.02, 0.04, 0.08, 0.16)]
    assert all(first > second for first, second in pairwise(bands))
    assert bands[-1] > 1e-7 * bands[0]


def test_rows_of_many_sounds_differ() -> None:
    rows = sounds.sound(np.random.default_rng(0), (3, 20, 500), 0)
    assert len(np.unique(rows.reshape(60, 500), axis=0)) == 60


@pytest.mark.parametrize("shape", [(16000,), (2, 512), (1, 1, 8000), (3, 1)])
@pytest.mark.parametrize("index", range(8))
def test_sounds_are_the_same_each_time_and_bounded(shape: tuple[int, ...], index: int) -> None:
    first, second = (sounds.sound(generator(2), shape, index) for _ in range(2))
    assert first.shape == shape
    assert np.array_equal(first, second)
    assert np.abs(first).max() < 4.0


@pytest.mark.parametrize(("frames", "bands"), [(76, 32), (800, 80), (98, 513), (1, 40)])
def test_spectra_have_the_size_that_was_asked_for(frames: int, bands: int) -> None:
    standard, raw = (sounds.spectra(generator(4), frames, bands, index) for index in (0, 1))
    assert standard.shape == raw.shape == (frames, bands)
    assert abs(float(standard.mean())) < 1.0
    assert np.isfinite(raw).all()


def test_a_voice_has_pauses_and_is_loud_or_soft() -> None:
    """A denoiser takes what never pauses for noise, and recordings are not all equally loud."""
    voices = sounds.sound(generator(3), (16, 16000), 0).reshape(16, 100, 160)
    loudness = np.sqrt(np.square(voices).mean(axis=2))
    softest, loudest = np.quantile(loudness, 0.1, axis=1), np.quantile(loudness, 0.9, axis=1)
    assert np.median(loudest / softest) > 10
    assert loudest.max() > 4 * loudest.min()


def test_a_short_sound_of_a_voice_is_no_pause() -> None:
    voices = sounds.sound(generator(3), (16, 512), 0)
    assert voices.std(axis=1).min() > 0.005


def test_spectra_with_many_bands_reach_beyond_a_voice() -> None:
    """513 bands are of 20 ms at 48 kHz: a voice is in the lowest of them."""
    for bands, part in ((257, 2), (513, 6)):
        voice = np.concatenate([sounds.spectra(generator(seed), 100, bands, 0) for seed in range(4)])
        lowest, highest = voice[:, : bands // part], voice[:, -bands // part :]
        assert np.quantile(lowest, 0.9) > np.quantile(highest, 0.9) + 0.5


@pytest.mark.parametrize("bands", [40, 257, 513])
def test_spectra_are_weak_where_recordings_are(bands: int) -> None:
    """A denoiser that is fed nothing but even noise is sure of all of it, and hides what rounding does."""
    falls = []
    for seed in range(8):
        noise = sounds.spectra(generator(seed), 100, bands, 2)
        falls.append(float(noise[:, 0].mean() - noise[:, -1].mean()))
    assert min(falls) > -0.5
    assert 1.0 < np.mean(falls) < 3.0  # powers of ten
    assert max(falls) - min(falls) > 1.5


def test_spectra_are_in_several_units_for_every_kind_of_sound() -> None:
    """By which logarithm, and whether it is normalized, a model does not say."""
    drawn = [sounds.spectra(generator(1), 100, 80, index) for index in range(12)]
    voices = [drawn[index] for index in (0, 3, 4)]
    assert len({round(float(voice.mean())) for voice in voices}) == 3
    assert abs(float(drawn[0].mean())) < 1e-6 < abs(float(drawn[3].mean()))


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ([1, 3, 64, 64], "a picture, by its shape"),
        ([1, 64, 64, 3], "a picture, by its shape"),
        ([1, 1, 28, 28], "a picture, by its shape"),
        ([1, 80, 300], "spectra of sounds, by its name or shape"),
        ([1, 76, 32, 1], "spectra of sounds, by its name or shape"),
        ([1, 43844, 1], "speech, music and noise, by its name or shape"),
        ([1, 16000], "speech, music and noise, by its name or shape"),
        ([1, 13], "noise"),
    ],
)
def test_kinds_are_told_by_shape(shape: list[int], why: str) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [output])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert deriver_of(proto, InputSpec()).reasons(FIRST)["x"] == why


def test_frames_of_sound_are_parts_of_one() -> None:
    """A voice detector takes frames in a row: a few of them, each beginning where the last one ended."""
    value = helper.make_tensor_value_info("input", TensorProto.FLOAT, ["seq_len", 576])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["seq_len", 576])
    graph = helper.make_graph([helper.make_node("Relu", ["input"], ["y"])], "g", [value], [output])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    drawn = deriver_of(proto, InputSpec(count=1)).feeds(FIRST)[0]["input"]
    assert isinstance(drawn, np.ndarray)
    assert 8 <= len(drawn) <= 200
    steps = np.abs(np.diff(drawn.reshape(-1)))
    assert steps[575::576].mean() < 3 * steps.mean()
