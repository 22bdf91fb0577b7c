"""Samples from the user's pictures, sounds and lines of text, in the form that a model takes.

Pillow, soundfile and tokenizers come with the extra `samples` and are loaded where they are needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
from onnx import ValueInfoProto

from onnx_ci.errors import EnvironmentFault, ModelError, UsageError
from onnx_ci.inputs import names
from onnx_ci.inputs.graph import UseDef, dims_of, fed_inputs
from onnx_ci.inputs.normalization import BYTES, UNIT, PictureRange, ReadTensor, picture_ranges
from onnx_ci.model.interface import show_type
from onnx_ci.sandbox.exchange import Array, is_float, is_integer, numpy_dtype
from onnx_ci.util.text import first_of

Kind = Literal["picture", "sound", "text"]
Layout = Literal["NCHW", "NHWC"]
_KINDS: dict[str, Kind] = {
    **dict.fromkeys((".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp"), "picture"),
    **dict.fromkeys((".wav", ".flac", ".ogg", ".mp3", ".aiff"), "sound"),
    ".txt": "text",
}
_OPTIONS: dict[Kind, tuple[str, ...]] = {
    "picture": ("mean", "std", "layout", "size"),
    "sound": ("rate",),
    "text": ("tokenizer",),
}  # what can be said of each kind
_PACKAGES = {"PIL.Image": "Pillow", "soundfile": "soundfile", "tokenizers": "tokenizers"}
_MOST_PIXELS = 640  # of a side, where the model leaves it open
_STEP = 32  # what such a side is a multiple of
_MOST_SECONDS = 10.0  # of a sound, where the model leaves its length open
_USUAL_RATE = 16_000
_LARGEST = 1 << 28  # bytes of one file that is read


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """How files become inputs; what is not said is found in the model."""

    mean: tuple[float, ...] = ()  # of pictures from 0 to 1, for each channel or for all
    std: tuple[float, ...] = ()
    layout: Layout | None = None
    size: tuple[int, int] | None = None  # height and width
    rate: int | None = None  # of sound, in samples a second
    tokenizer: Path | None = None
    count: int = 64  # samples, at most

    @property
    def given(self) -> list[str]:
        """The names of what was said."""
        return [name for names in _OPTIONS.values() for name in names if getattr(self, name)]

    def refuse_without_files(self) -> None:
        if self.given:
            verb = "are" if len(self.given) > 1 else "is"
            words = f"{_flags(self.given)} {verb} for samples from files"
            raise UsageError(words, hint="name them: --from 'photos/*.jpg'")


def _flags(names: Sequence[str]) -> str:
    return " and ".join(f"--{name}" for name in names)


@dataclass(frozen=True)
class FromFile:
    """Inputs made from one file, or from one line of it, and how."""

    inputs: dict[str, Array]
    source: str  # the file, and the line
    reason: str


def named_files(patterns: Sequence[str]) -> list[Path]:
    """Return the files that are named or match, in order."""
    files: dict[Path, None] = {}
    for pattern in patterns:
        path = Path(pattern)
        found = [path]
        if not path.exists():
            found = sorted(Path(path.anchor or ".").glob(str(path.relative_to(path.anchor))))
        found = [path for path in found if path.is_file()]
        if not found:
            raise UsageError(
                f"--from: no file matches {pattern!r}", hint="for example: --from 'photos/*.jpg'"
            )
        files.update(dict.fromkeys(found))
    return list(files)


def kind_of(files: Sequence[Path]) -> Kind:
    """Return what files hold, by their endings; they have to be of one kind."""
    kinds: dict[Kind, Path] = {}
    for file in files:
        kind = _KINDS.get(file.suffix.lower())
        if kind is None:
            known = ", ".join(_KINDS)
            raise UsageError(
                f"--from: {str(file)!r} is no picture, sound or text by its ending", hint=f"known: {known}"
            )
        kinds.setdefault(kind, file)
    if len(kinds) > 1:
        both = first_of([f"{file} is {kind}" for kind, file in kinds.items()], 3)
        raise UsageError(f"--from: files of several kinds: {both}", hint="call it once for each kind")
    return next(iter(kinds))


def with_sizes(proto: onnx.ModelProto, sample: Mapping[str, Any]) -> onnx.ModelProto:
    """Return a copy of a model that takes only inputs of the sizes in a sample."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for value in fed_inputs(copy):
        shape = getattr(sample.get(value.name), "shape", ())
        for dim, size in zip(value.type.tensor_type.shape.dim, shape, strict=False):
            dim.dim_value = size
    return copy


def read_files(
    files: Sequence[Path], proto: onnx.ModelProto, options: FileOptions, read: ReadTensor
) -> list[FromFile]:
    """Return a sample for each picture, sound or line, without the inputs that files say nothing about. A
    model that takes several at once, and always as many, gets the same one as often."""
    dims = {value.name: _fixed(value) for value in fed_inputs(proto)}
    found = []
    for item in _read(files, proto, options, read):
        inputs = dict(item.inputs)
        for name, array in inputs.items():
            if array.ndim > 1 and array.shape[0] == 1 and dims[name][0]:
                inputs[name] = np.repeat(array, dims[name][0] or 1, axis=0)
        found.append(FromFile(inputs, item.source, item.reason))
    return found


def _read(
    files: Sequence[Path], proto: onnx.ModelProto, options: FileOptions, read: ReadTensor
) -> Iterator[FromFile]:
    kind = kind_of(files)
    ignored = [name for name in options.given if name not in _OPTIONS[kind]]
    if ignored:
        says = "say" if len(ignored) > 1 else "says"
        words = f"{_flags(ignored)} {says} nothing about a {kind}"
        raise UsageError(words, hint=f"for a {kind}: {_flags(_OPTIONS[kind])}")
    values = fed_inputs(proto)
    if kind == "picture":
        picture = _Pictures(_input_for(kind, values, _is_picture), proto, options, read)
        yield from (picture.sample(file) for file in files[: options.count])
    elif kind == "sound":
        rate = options.rate or _USUAL_RATE
        by_name = sorted(values, key=lambda value: not names.words(value.name) & names.SAMPLES)
        value = _input_for(kind, by_name, _is_sound)
        rates = {v.name: np.full([n or 1 for n in _fixed(v)], rate, _dtype(v)) for v in values if _is_rate(v)}
        for file in files[: options.count]:
            sample = _sound(value, file, rate)
            yield FromFile({**sample.inputs, **rates}, sample.source, sample.reason)
    else:
        yield from _texts(files, values, options)


def _input_for(kind: Kind, values: Sequence[ValueInfoProto], fits: Any) -> ValueInfoProto:
    for value in values:
        if value.type.WhichOneof("value") == "tensor_type" and fits(value):
            return value
    has = ", ".join(f"{value.name!r} {show_type(value.type)}" for value in values)
    how = "write samples with numpy.savez, or record them: onnx-ci record -- COMMAND"
    raise ModelError(f"no input of the model takes a {kind}: it has {has}", hint=how, code="OCI005")


def _load(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:
        package = _PACKAGES[module]
        hint = f"pip install 'onnx-ci[samples]', or: pip install {package}"
        raise EnvironmentFault(f"reading such files needs {package}: {error}", hint=hint) from None


def _unreadable(file: Path, error: Exception) -> UsageError:
    what = str(error).split("\n")[0] or type(error).__name__
    return UsageError(f"--from: {str(file)!r} can't be read: {what}", hint="leave it out, or convert it")


def _refuse_huge(file: Path) -> None:
    if file.stat().st_size > _LARGEST:
        raise UsageError(
            f"--from: {str(file)!r} is too large to be one sample", hint="leave it out, or cut it"
        )


def _fixed(value: ValueInfoProto) -> list[int | None]:
    """Return sizes by axis, None where they are open."""
    dims = dims_of(value.type.tensor_type) or ()
    return [dim if isinstance(dim, int) and dim > 0 else None for dim in dims]


def _dtype(value: ValueInfoProto) -> np.dtype[Any]:
    dtype = numpy_dtype(value.type.tensor_type.elem_type)
    return np.dtype(np.float32) if dtype is None else dtype


# Pictures.


def _is_picture(value: ValueInfoProto) -> bool:
    dims, dtype = _fixed(value), _dtype(value)
    numbers = is_float(dtype) or dtype == np.uint8
    return numbers and len(dims) in (3, 4) and (dims[-3] in (1, 3, None) or dims[-1] in (1, 3, 4, None))


class _Pictures:
    """Pictures for one input: its layout, size and range are found once."""

    def __init__(
        self, value: ValueInfoProto, proto: onnx.ModelProto, options: FileOptions, read: ReadTensor
    ) -> None:
        self.value, self.options = value, options
        dims = _fixed(value)
        self.batched = len(dims) == 4
        first = dims[-3] in (1, 3) or (dims[-3] is None and dims[-1] not in (1, 3, 4))
        self.layout: Layout = options.layout or ("NCHW" if first else "NHWC")
        channels, *sides = dims[-3:] if self.layout == "NCHW" else (dims[-1], *dims[-3:-1])
        self.channels = channels or 3
        self.sides = sides
        if self.channels not in (1, 3, 4):
            hint = "the other --layout may be meant"
            raise UsageError(f"{value.name!r} has {self.channels} channels as {self.layout}", hint=hint)
        self.range, self.why = self._found(proto, read)

    def _found(self, proto: onnx.ModelProto, read: ReadTensor) -> tuple[PictureRange, str]:
        mean, std = self.options.mean, self.options.std
        for name, numbers in (("mean", mean), ("std", std)):
            if len(numbers) not in (0, 1, self.channels):
                has = f"{self.value.name!r} has {self.channels} channels"
                words = f"--{name} has {len(numbers)} numbers, and {has}"
                raise UsageError(words, hint="give one for each channel, or one for all")
        if mean or std:
            scale = np.resize([1.0 / value for value in std or (1.0,)], self.channels)
            offset = -scale * np.resize(mean or (0.0,), self.channels)
            return PictureRange("given", tuple(scale), tuple(offset)), "--mean and --std as given"
        if not is_float(_dtype(self.value)):
            return BYTES, "0 to 255, by its type"
        ranges = picture_ranges(UseDef(proto), self.value.name, read)
        if not ranges:
            return UNIT, "0 to 1, a guess: the model does not tell; --mean and --std say otherwise"
        why = f"{' or '.join(each.name for each in ranges)}, by its first convolution"
        if len(ranges) > 1:
            why += f": {ranges[0].name} is taken, --mean and --std say otherwise"
        return ranges[0], why

    def sample(self, file: Path) -> FromFile:
        _refuse_huge(file)
        module = _load("PIL.Image")
        try:
            with module.open(file) as opened:
                picture = opened.convert({1: "L", 3: "RGB", 4: "RGBA"}[self.channels])
                height, width = self._size(picture.height, picture.width)
                pixels = np.asarray(picture.resize((width, height), module.Resampling.BILINEAR))
        except (OSError, ValueError, SyntaxError, module.DecompressionBombError) as error:
            raise _unreadable(file, error) from None
        unit = np.moveaxis(np.atleast_3d(pixels), -1, 0).astype(np.float64) / 255.0
        array = self.range.apply(unit)
        if self.layout == "NHWC":
            array = np.moveaxis(array, 0, -1)
        dtype = _dtype(self.value)
        array = array.astype(dtype) if is_float(dtype) else np.rint(array).astype(dtype)
        array = np.ascontiguousarray(array[None] if self.batched else array)
        how = f"{height}x{width} {self.layout}, {self.why}"
        return FromFile({self.value.name: array}, str(file), f"{file}, {how}")

    def _size(self, height: int, width: int) -> tuple[int, int]:
        if self.options.size:
            return self.options.size
        shrunk = min(1.0, _MOST_PIXELS / max(height, width))
        own = [max(_STEP, round(side * shrunk / _STEP) * _STEP) for side in (height, width)]
        return self.sides[0] or own[0], self.sides[1] or own[1]


# Sound.


def _is_sound(value: ValueInfoProto) -> bool:
    dims, dtype = _fixed(value), _dtype(value)
    numbers = is_float(dtype) or dtype == np.int16
    return numbers and len(dims) in (1, 2, 3) and (len(dims) < 3 or dims[1] in (1, 2))


def _is_rate(value: ValueInfoProto) -> bool:
    return bool(names.words(value.name) & names.RATE) and len(_fixed(value)) < 2


def _sound(value: ValueInfoProto, file: Path, rate: int) -> FromFile:
    _refuse_huge(file)
    module = _load("soundfile")
    try:
        data, own_rate = module.read(file, dtype="float64", always_2d=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise _unreadable(file, error) from None
    if not len(data):
        raise _unreadable(file, ValueError("it holds no sound"))
    dims = _fixed(value)
    length = dims[-1] or int(_MOST_SECONDS * rate)
    mono = _part(_resampled(data.mean(axis=1), own_rate, rate), length, whole=dims[-1] is None)
    channels = dims[1] or 1 if len(dims) == 3 else 1
    array = np.tile(mono, (channels, 1)) if len(dims) == 3 else mono
    array = array.reshape((1,) * (len(dims) - array.ndim) + array.shape)
    dtype = _dtype(value)
    array = array.astype(dtype) if is_float(dtype) else np.rint(np.clip(array, -1, 1) * 32767).astype(dtype)
    return FromFile({value.name: array}, str(file), f"{file}, {mono.size / rate:.3g} s at {rate} Hz")


def _resampled(sound: Array, own_rate: int, rate: int) -> Array:
    """Return a sound at another rate, without what that can't hold."""
    if own_rate == rate:
        return sound
    length = max(1, round(len(sound) * rate / own_rate))
    spectrum = np.fft.rfft(sound)
    kept = np.zeros(length // 2 + 1, complex)
    most = min(len(kept), len(spectrum))
    kept[:most] = spectrum[:most]
    return np.asarray(np.fft.irfft(kept, length) * (length / len(sound)))


def _part(sound: Array, length: int, *, whole: bool) -> Array:
    """Return the loudest part of a sound; one that is too short is followed by silence, unless it may be."""
    if len(sound) <= length:
        return sound if whole else np.pad(sound, (0, length - len(sound)))
    energy = np.concatenate([[0.0], np.cumsum(sound**2)])
    start = int(np.argmax(energy[length:] - energy[:-length]))
    return sound[start : start + length]


# Text.


def _texts(
    files: Sequence[Path], values: Sequence[ValueInfoProto], options: FileOptions
) -> Iterator[FromFile]:
    if options.tokenizer is None:
        hint = "add --tokenizer tokenizer.json, the file that comes with the model"
        raise UsageError("--from: text needs a tokenizer", hint=hint)
    if not options.tokenizer.is_file():
        raise UsageError(f"--tokenizer: there is no file {str(options.tokenizer)!r}")
    ids = _input_for("text", values, lambda value: is_integer(_dtype(value)) and len(_fixed(value)) in (1, 2))
    module = _load("tokenizers")
    try:
        tokenizer = module.Tokenizer.from_file(str(options.tokenizer))
    except Exception as error:  # noqa: BLE001 - the library raises plain Exception
        what = str(error).split("\n")[0]
        raise UsageError(f"--tokenizer: {str(options.tokenizer)!r} can't be read: {what}") from None
    length = _fixed(ids)[-1]
    if length is not None:
        tokenizer.enable_truncation(length)
        tokenizer.enable_padding(length=length)
    else:
        tokenizer.no_padding()
    for where, line in list(_lines(files))[: options.count]:
        encoded = tokenizer.encode(line)
        inputs = {value.name: _tokens(value, encoded) for value in values if _takes_tokens(value)}
        yield FromFile(inputs, where, f"{where}, {len(encoded.ids)} tokens")


def _lines(files: Sequence[Path]) -> Iterator[tuple[str, str]]:
    for file in files:
        _refuse_huge(file)
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise _unreadable(file, error) from None
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield f"{file}:{number}", line


def _takes_tokens(value: ValueInfoProto) -> bool:
    plain = value.type.WhichOneof("value") == "tensor_type"
    return plain and is_integer(_dtype(value)) and len(_fixed(value)) in (1, 2)


def _tokens(value: ValueInfoProto, encoded: Any) -> Array:
    """Return what an input says of tokens, by its name."""
    words = names.words(value.name)
    numbers = encoded.ids
    if words & names.MASK:
        numbers = encoded.attention_mask
    elif words & {"type", "segment", "segments"}:
        numbers = encoded.type_ids
    elif words & names.POSITION:
        numbers = range(len(encoded.ids))
    array = np.array(list(numbers), _dtype(value))
    return array[None] if len(_fixed(value)) == 2 else array
