"""What an input looks like decides what it is fed: text, measurements, spectra, films."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_ci.inputs import patterns, scenes
from onnx_ci.inputs.generate import FIRST, deriver_of
from onnx_ci.inputs.sounds import series
from onnx_ci.policy.schema import InputSpec
from tests.support.inputs import Samples, first
from tests.support.text_models import model

SERIES = "heartbeats, movements and noise, by its name or shape"
SPECTRA = "spectra of sounds, by its name or shape"


def reason(declared: str, name: str = "x") -> str:
    proto = model(f"g (float[{declared}] {name}) => (float[{declared}] y) {{ y = Relu({name}) }}")
    return deriver_of(proto, InputSpec()).reasons(FIRST)[name]


@pytest.mark.parametrize(
    ("declared", "name", "why"),
    [
        ("B,12,1000", "x", SERIES),
        ("1,500,3", "x", SERIES),
        ("1,300", "ecg", SERIES),
        ("1,8,40", "x", "noise"),
        ("2,B,128", "h", "noise"),
        ("2,B,128", "hidden", "noise"),
        ("B,encoder_length,128", "encoder_hidden_states", "what another model computed, by its name"),
        ("1,77,768", "inputsEmbeds", "what another model computed, by its name"),
        ("B,S,128", "past", "noise"),
        ("B,1,frames,257", "x", SPECTRA),
        ("B,3,frames,160", "x", SPECTRA),
        ("1,1,64,image_width", "x", "a picture, by its shape"),
        ("B,3,1,height,width", "x", "a picture, by its shape"),
        ("num_edges,368", "x", "noise"),
        ("1,8000", "x", "speech, music and noise, by its name or shape"),
    ],
)
def test_kinds_by_shape_and_name(declared: str, name: str, why: str) -> None:
    assert reason(declared, name) == why


@pytest.mark.parametrize("index", range(4))
def test_what_another_model_computed_is_as_large_as_a_normalization_leaves_it(index: int) -> None:
    drawn = patterns.hidden(np.random.default_rng(0), (2, 40, 64), index)
    sizes = np.sqrt(np.square(drawn).mean(axis=-1))
    assert sizes.min() == pytest.approx(sizes.max())
    assert 0.2 <= sizes.max() < 1.1
    rows = drawn[0] / sizes[0, 0]
    assert (rows[1:] * rows[:-1]).mean() > 0.3 > abs((rows[8:] * rows[:-8]).mean())


def test_frequencies_have_an_order() -> None:
    proto = model("g (float fmin, float fmax) => (float y) { y = Sub(fmax, fmin) }")
    for value in proto.graph.input:
        value.type.tensor_type.shape.SetInParent()
    sample = first(proto)[0]
    assert 0 < sample["fmin"] < sample["fmax"]


def test_a_row_of_numbers_with_weights_is_features() -> None:
    weights = ",".join("1" * 400)
    proto = model(
        f"g (float[B,400] x) => (float[B,1] y) <float[400,1] w = {{{weights}}}> {{ y = MatMul(x, w) }}"
    )
    assert deriver_of(proto, InputSpec()).reasons(FIRST) == {"x": "noise"}


@pytest.mark.parametrize("index", range(8))
@pytest.mark.parametrize(("leads", "length"), [(1, 100), (12, 5000), (3, 1)])
def test_series_are_finite_and_bounded(index: int, leads: int, length: int) -> None:
    drawn = series(np.random.default_rng(index), leads, length, index)
    assert drawn.shape == (leads, length)
    assert np.abs(drawn).max() < 8


def test_a_series_is_blank_at_times() -> None:
    spread = [series(np.random.default_rng(1), 2, 1000, index).std() for index in range(8)]
    assert min(spread) < 0.05 < sorted(spread)[1]


def test_films_are_pictures_in_turn() -> None:
    film = first(model("g (float[1,3,2,64,64] x) => (float[1,3,2,64,64] y) { y = Relu(x) }"))[0]["x"]
    assert film.shape == (1, 3, 2, 64, 64)
    assert np.abs(np.diff(film, axis=-1)).mean() < film.std() / 2  # neighbours are alike


def test_no_picture_is_blank_or_noise() -> None:
    drawn = [scenes.picture(np.random.default_rng(3), 64, 64, index) for index in range(16)]
    grain = [float(np.abs(np.diff(one, axis=-1)).mean()) for one in drawn]
    assert min(one.std() for one in drawn) > 0.05
    assert max(grain) < 0.2
    assert all(one.min() >= 0.0 and one.max() <= 1.0 for one in drawn)


def sentences(count: int = 4, *, mask: bool = True, rows: int = 30522) -> Samples:
    """Inputs of a model with such a table."""
    masked = ", int64[B,S] attention_mask" if mask else ""
    proto = model(f"g (int64[B,S] input_ids{masked}) => (float[B,S,1] y) {{ y = Gather(t, input_ids) }}")
    proto.graph.initializer.add(name="t", data_type=1, dims=[rows, 1])
    return first(proto, count=count)


def test_rows_of_text_have_special_ids_at_their_ends() -> None:
    for sample in sentences():
        ids = sample["input_ids"]
        assert (ids[:, 0] == 101).all()
        assert ((ids == 102).sum(axis=1) == 1).all()
        assert ids.max() < 30522


def test_padding_is_where_the_mask_says_so() -> None:
    sample: dict[str, Any] = sentences()[1]
    assert (sample["attention_mask"] == 0).any()
    assert ((sample["input_ids"] == 0) == (sample["attention_mask"] == 0)).all()


def test_frequent_ids_are_frequent() -> None:
    special = patterns.special_ids(30522)
    drawn = patterns.text(np.random.default_rng(0), np.full(4, 500), 500, 30522, 0)
    assert np.median(drawn) < special.words + 1000
    assert len(np.unique(drawn)) > 300


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("vocabulary", [1000, 30522, 30528, 32128, 49408, 50257, 50265, 250002])
@pytest.mark.parametrize("width", [1, 2, 3, 64])
def test_text_stays_in_its_table(vocabulary: int, width: int, index: int) -> None:
    drawn = patterns.text(np.random.default_rng(index), np.full(2, width), width, vocabulary, index)
    assert drawn.shape == (2, width)
    assert 0 <= drawn.min() <= drawn.max() < vocabulary


def test_one_channel_is_sound_whatever_its_size_is_called() -> None:
    """How many channels there are, the first convolution says."""
    text = "g (float[B,C,T] x) => (float[B,4,F] y) <float[4,%d,3] k = {%s}> { y = Conv<strides=[2]>(x, k) }"
    reasons, lengths = [], []
    for channels in (1, 64):
        proto = model(text % (channels, ",".join("1" * 12 * channels)))
        deriver = deriver_of(proto, InputSpec())
        reasons.append(deriver.reasons(FIRST)["x"])
        lengths.append(deriver.shapes(FIRST)[0]["x"])
    assert reasons[0] == "speech, music and noise, by its name or shape"
    assert lengths[0] == (1, 1, 16000)
    assert lengths[1][1] == 64
    assert reasons[1] != reasons[0]


def test_sound_may_come_as_integers_of_16_bits() -> None:
    proto = model("g (int16[1,1,audio_len] x) => (int16[1,1,audio_len] y) { y = Identity(x) }")
    sound = first(proto)[0]["x"]
    assert sound.dtype == np.int16
    assert sound.shape == (1, 1, 16000)
    assert 500 < np.abs(sound.astype(np.int64)).max() <= 32767
    assert sound.min() < 0
