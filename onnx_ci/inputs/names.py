"""What the names of inputs and dimensions usually mean."""

from __future__ import annotations

import re
from typing import Literal

from onnx_ci.inputs.graph import Dim, Input
from onnx_ci.sandbox.exchange import is_float

_Length = Literal["batch", "past", "total", "sequence", "frames", "samples", "count", "groups", "feature"]
DimKind = _Length | Literal["height", "width", "channels", "volume"]  # "total" is a sequence with its past

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


PAST = _set("past cache kv mems")
SAMPLES = _set("samples sample audio wav waveform pcm speech")
SPECTRA = _set("mel mels fbank spectrogram spectra spec feats features mfcc logmel stft")
SERIES = _set("ecg eeg emg ppg imu accel accelerometer gyro gyroscope sensor sensors")
TOKENS = _set("ids token tokens")
STATE = _set("state states hidden h c hx cx hn cn")
HIDDEN = _set("hidden embeds embedding embeddings encoding encodings encoded")  # what another model computed
CARRIED = STATE | PAST | _set("cached caches mem memory buffer")  # from one call to the next
MASK = _set("mask masks")
PADDING = _set("padding pad padded")  # a mask that is true where there is nothing
LENGTH = _set("len lens length lengths")
RATE = _set("sr rate")
FREQUENCY = _set("frequency freq hz fmin fmax")
LOWEST = _set("fmin min lowest low")
POSITION = _set("position positions pos")
ONE = _set("speed scale scales temperature sigma strength gain factor")
PERMUTATION = _set("perm permutation argsort")
SORTED = _set("sorted boundaries timestamps offsets splits")
ONE_HOT = _set("onehot hot")
PROBABILITY = _set("prob probs probability probabilities confidence dropout ratio")
POSITIVE = _set("variance std duration durations")
TIMESTEP = _set("timestep timesteps")

_KIND_WORDS: tuple[tuple[DimKind, frozenset[str]], ...] = (
    ("past", PAST),
    ("batch", _set("batch batchsize bs n b")),
    ("samples", SAMPLES),
    ("sequence", _set("seq sequence seqlen token tokens text words phonemes chars length len l")),
    ("frames", _set("time frame frames t timesteps steps")),
    ("height", _set("height h rows")),
    ("width", _set("width w cols")),
    ("channels", _set("channel channels c")),
    ("groups", _set("graphs groups molecules segments")),
    ("count", _set("num nodes edges points boxes atoms objects queries")),
)


def words(name: str) -> frozenset[str]:
    """Return the lower-case words of a name: `inputLengths` and `input_lengths` read the same."""
    return frozenset(word.lower() for word in _WORD.findall(name))


def dim_kind(model_input: Input, axis: int) -> DimKind:
    """Return what a dimension most likely is, by its name or else by its place."""
    dims = model_input.dims
    kind = kind_by_name(dims[axis], axis)
    if kind == "batch" and 0 < axis == len(dims) - 1:
        kind = None  # what every member of a batch has: some exporters give the name to any open size
    in_frames = len(dims) == 2 and axis == 0 and isinstance(dims[1], int) and dims[1] > 2
    in_a_row = (len(dims) <= 2 and not in_frames) or (len(dims) == 3 and axis == 2 and dims[1] in (1, 2))
    if kind in ("sequence", "frames") and _is_measured(model_input) and in_a_row:
        return "samples"  # floats without a feature axis are a signal
    return kind or _kind_by_place(model_input, axis)


def _is_measured(model_input: Input) -> bool:
    return is_float(model_input.dtype) and not model_input.numbers_rows


def kind_by_name(dim: Dim, axis: int) -> DimKind | None:
    """Return what the name of a dimension says."""
    if not isinstance(dim, str):
        return None
    said = words(dim)
    if "total" in said:
        return "total"
    for kind, known in _KIND_WORDS:
        if said & known:
            is_letter = kind == "batch" and axis > 0 and len(dim) == 1  # the N of N boxes
            return None if is_letter else kind
    return None


def _kind_by_place(model_input: Input, axis: int) -> DimKind:
    dims = model_input.dims
    rank, about, floats = len(dims), words(model_input.name), _is_measured(model_input)
    if rank == 1:
        if floats:
            return "samples" if about & SAMPLES else "batch"
        return "batch" if dims[0] is None else "sequence"
    if axis == 0 or (rank == 3 and axis == 1 and about & STATE):
        return "batch"
    if about & PAST:
        return "past"
    if rank == 2:
        return "samples" if floats else "sequence"
    if rank == 3:
        return "sequence" if axis == 1 else _last_of_three(dims, floats)
    if rank == 4:
        return (_CHANNELS_LAST if dims[-1] in (1, 3, 4) else _CHANNELS_FIRST)[axis - 1]
    return "channels" if axis == 1 else "volume"


def _last_of_three(dims: tuple[Dim, ...], floats: bool) -> DimKind:
    if dims[1] in (1, 2) and floats:
        return "samples"  # one or two channels of sound
    return "frames" if isinstance(dims[1], int) else "feature"


_CHANNELS_FIRST: tuple[DimKind, ...] = ("channels", "height", "width")
_CHANNELS_LAST: tuple[DimKind, ...] = ("height", "width", "channels")
