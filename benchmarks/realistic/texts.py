"""Inputs of the models that read: words as token ids, the bytes of files, molecules."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from realistic import sounds

Feeds = dict[str, NDArray[Any]]
Run = Callable[[Feeds], Feeds]
Rng = np.random.Generator
CACHED = ("decoder.key", "decoder.value", "encoder.key", "encoder.value")
LAYERS = [f"{at}.{what}" for at in range(6) for what in CACHED]
BATCHES = ((1, 5), (1, 24), (3, 17), (2, 60))


def _sentences(
    rng: Rng, batch: int, length: int, vocabulary: int, ends: tuple[int, int]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ids with a first and last mark, padded to the longest, and the mask that says so. Words are drawn
    as in language: some of them often, most of them seldom."""
    ids, mask = np.zeros((batch, length), np.int64), np.zeros((batch, length), np.int64)
    for row in range(batch):
        used = length if row == 0 else int(rng.integers(3, length))
        drawn = np.exp(rng.uniform(np.log(1000), np.log(vocabulary - 1), used)).astype(np.int64)
        ids[row, :used], mask[row, :used] = drawn, 1
        ids[row, 0], ids[row, used - 1] = ends
    return ids, mask


def minilm(rng: Rng, _: Run, __: Path) -> list[Feeds]:
    drawn = [_sentences(rng, *size, 30522, (101, 102)) for size in BATCHES]
    return [{"input_ids": ids, "attention_mask": mask} for ids, mask in drawn]


def albert(rng: Rng, _: Run, __: Path) -> list[Feeds]:
    samples = []
    for size in BATCHES[:2]:
        ids, mask = _sentences(rng, *size, 30000, (2, 3))
        kinds = (np.arange(size[1]) > size[1] // 2).astype(np.int64) * mask
        samples.append({"input_ids": ids, "attention_mask": mask, "token_type_ids": kinds})
    return samples


def moonshine_decoder(rng: Rng, run: Run, path: Path) -> list[Feeds]:
    """The first step without a cache, and later ones with the cache that the step before left."""
    samples: list[Feeds] = []
    for length in (16000, 24000):
        hidden = _heard(rng, path, length)
        empty = np.zeros((1, 8, 0, 36), np.float32)
        cache = {f"past_key_values.{layer}": empty for layer in LAYERS}
        ids = np.array([[1]], np.int64)
        for step in range(3):
            flag = np.array([step > 0])
            feeds = {"input_ids": ids, "encoder_hidden_states": hidden, "use_cache_branch": flag, **cache}
            samples.append(feeds)
            found = run(feeds)
            for layer in LAYERS:
                if step == 0 or "encoder" not in layer:
                    cache[f"past_key_values.{layer}"] = found[f"present.{layer}"]
            ids = found["logits"][:, -1:].argmax(-1)
    return samples


def _heard(rng: Rng, path: Path, length: int) -> NDArray[Any]:
    """What the encoder beside it makes of a voice; without one, something of that size."""
    encoder = path.with_name("moonshine-encoder.onnx")
    if not encoder.is_file():
        return rng.standard_normal((1, length // 400, 288)).astype(np.float32)
    import onnxruntime

    session = onnxruntime.InferenceSession(encoder, providers=["CPUExecutionProvider"])
    found: NDArray[Any] = session.run(
        None, {"input_values": sounds.voice(rng, length)[None].astype(np.float32)}
    )[0]
    return found


def magika(rng: Rng, _: Run, __: Path) -> list[Feeds]:
    """The first and last 1024 bytes of files of several kinds, 256 where a file is shorter."""
    source = Path(__file__).read_bytes()
    program = Path(sys.executable).read_bytes()[:100_000]
    table = "\n".join(",".join(f"{value:.3f}" for value in rng.random(6)) for _ in range(90)).encode()
    notes = json.dumps({f"key{at}": rng.random(3).tolist() for at in range(60)}, indent=1).encode()
    page = b"<!DOCTYPE html>\n<html><head><title>t</title></head><body>" + b"<p>some words</p>\n" * 50
    files = [source, program, table, notes, page, zlib.compress(program), rng.bytes(5000), b"#!/bin/sh\nls\n"]
    rows = np.stack([_ends(content) for content in files])
    return [{"bytes": rows[at : at + count]} for at, count in ((0, 1), (1, 1), (2, 3), (5, 3))]


def _ends(content: bytes) -> NDArray[Any]:
    row = np.full(2048, 256, np.int32)
    first, last = np.frombuffer(content[:1024], np.uint8), np.frombuffer(content[-1024:], np.uint8)
    row[: len(first)], row[2048 - len(last) :] = first, last
    return row


def minimol(rng: Rng, _: Run, __: Path) -> list[Feeds]:
    return [_molecules(rng, sizes) for sizes in ((9,), (14, 6), (21, 5, 11))]


def _molecules(rng: Rng, sizes: tuple[int, ...]) -> Feeds:
    """Chains with a few rings; features are marks of which most are zero."""
    edges, start = [], 0
    for size in sizes:
        bonds = [(start + at, start + at + 1) for at in range(size - 1)]
        bonds.append((start, start + size // 2))
        edges += [pair for a, b in bonds for pair in ((a, b), (b, a))]
        start += size
    walks = np.sort(rng.random((start, 16)), axis=1)[:, ::-1]
    waves = rng.standard_normal((start, 8)) / 3
    return {
        "feat": (rng.random((start, 85)) < 0.12).astype(np.float32),
        "edge_feat": (rng.random((len(edges), 13)) < 0.2).astype(np.float32),
        "edge_index": np.array(edges, np.int64).T.copy(),
        "laplacian_eigvec": waves.astype(np.float32),
        "laplacian_eigval": np.sort(rng.random((start, 8)) * 2, axis=1).astype(np.float32),
        "rw_return_probs": np.ascontiguousarray(walks, np.float32),
        "batch": np.repeat(np.arange(len(sizes)), sizes).astype(np.int64),
        "graph_slots": np.zeros(len(sizes), np.float32),
    }
