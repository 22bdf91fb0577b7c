"""Words in the names of inputs and dimensions, and what they usually mean."""

from __future__ import annotations

import re

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
ANONYMOUS = {"", "?", "None", "-1"}

BATCH = {"batch", "batchsize", "bs", "n", "b"}
PAST = {"past", "cache", "kv", "mems"}
SEQUENCE = {
    "seq",
    "sequence",
    "seqlen",
    "token",
    "tokens",
    "text",
    "words",
    "phonemes",
    "chars",
    "length",
    "len",
    "l",
}
FRAMES = {"time", "frame", "frames", "t", "timesteps", "steps"}
SAMPLES = {"samples", "sample", "audio", "wav", "waveform", "pcm", "speech"}
HEIGHT = {"height", "h", "rows"}
WIDTH = {"width", "w", "cols"}
CHANNELS = {"channel", "channels", "c"}
GROUPS = {"graphs", "groups", "molecules", "segments"}
COUNTS = {"num", "nodes", "edges", "points", "boxes", "atoms", "objects", "queries"}
STATE = {"state", "states", "hidden", "h", "c", "hx", "cx", "hn", "cn"}
MASK = {"mask", "masks"}
PADDING = {"padding", "pad", "padded"}  # a mask that is true where there is nothing
LENGTH = {"len", "lens", "length", "lengths"}
RATE = {"sr", "rate"}
POSITION = {"position", "positions", "pos"}
ONE = {"speed", "scale", "scales", "temperature", "sigma", "strength", "gain", "factor"}
PERMUTATION = {"perm", "permutation", "argsort"}
SORTED = {"sorted", "boundaries", "timestamps", "offsets", "splits"}
ONE_HOT = {"onehot", "hot"}
PROBABILITY = {"prob", "probs", "probability", "probabilities", "confidence", "dropout", "ratio"}
POSITIVE = {"variance", "std", "duration", "durations"}
TIMESTEP = {"timestep", "timesteps"}


def words(name: str) -> frozenset[str]:
    """The lower-case words of a name: `inputLengths` and `input_lengths` read the same."""
    return frozenset(word.lower() for word in _WORD.findall(name))
