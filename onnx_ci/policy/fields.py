"""What a policy may say: kinds of values, and the one table that is read by and drawn as a JSON schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from math import inf, isfinite, nan

import yaml

from onnx_ci.errors import OptionError, PolicyError
from onnx_ci.policy.glob import check_pattern
from onnx_ci.policy.reader import Place
from onnx_ci.util import scalars
from onnx_ci.util.scalars import EXACT, EXACT_METHODS
from onnx_ci.util.sizes import LEAST_PLAIN, NUMBER, PLACES, parse_count, parse_fraction, stated_size
from onnx_ci.util.text import did_you_mean, nearest

TYPE_CHECKING = False  # light start: CONTRIBUTING.md
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from onnx_ci.policy.schema import Scalar

Schema: TypeAlias = "dict[str, Any]"
NONE = "none"  # as a value: what an earlier rule or the defaults say does not hold
_LARGEST = 2**63 - 1
_RELEASE = r"[0-9]{1,4}\.[0-9]{1,4}(?:\.[0-9]{1,4})?"
_ROOTS = ("etc", "home", "mnt", "opt", "root", "tmp", "usr", "var", "Users")
_ELSEWHERE = ("//", "\\\\", "~/", *(f"/{root}/" for root in _ROOTS))
SCHEMA_URL = "https://raw.githubusercontent.com/onnx-ci/onnx-ci/main/docs/policy.schema.json"
# IR version, opset and opset of ai.onnx.ml that each onnxruntime takes at most: tried out with each.
_RELEASES = {
    "1.15": (9, 18, 3),
    "1.16": (9, 19, 3),
    "1.17": (9, 20, 4),
    "1.18": (10, 21, 5),
    "1.19": (10, 21, 5),
    "1.20": (10, 21, 5),
    "1.21": (10, 22, 5),
    "1.22": (10, 22, 5),
    "1.23": (11, 23, 5),
    "1.24": (13, 25, 5),
    "1.25": (13, 26, 5),
    "1.26": (13, 26, 5),
    "1.27": (13, 26, 5),
    "1.28": (13, 26, 5),
    "1.29": (13, 26, 5),
    "1.30": (13, 26, 5),
    "1.31": (13, 26, 5),
}
_PACKAGES = ("onnxruntime", "onnxruntime-web", "onnxruntime-node")
RUNTIMES = {f"{package}@{release}": most for package in _PACKAGES for release, most in _RELEASES.items()}


class Kind:
    """One kind of value; `keys` are those of a table."""

    __slots__ = ("keys", "read", "schema")

    def __init__(
        self, read: Callable[[Place], Any], schema: Schema, keys: Mapping[str, Key] | None = None
    ) -> None:
        self.read = read
        self.schema = schema
        self.keys = keys or {}


class Key:
    """What may stand under one key: its kind, an example, and a sentence for the editor."""

    __slots__ = ("about", "example", "kind", "required")

    def __init__(self, kind: Kind, example: str, about: str, *, required: bool = False) -> None:
        self.kind = kind
        self.example = example
        self.about = about
        self.required = required


def _scalar(what: str, parse: Callable[[str, str], Any], schema: Schema) -> Kind:
    """A single value. `parse` takes its text and YAML's word for its type; None or ValueError refuses it."""

    def read(place: Place) -> Any:
        text = place.scalar(what)
        try:
            value = parse(text, place.tag)
        except ValueError:
            value = None
        if value is None:
            raise place.expected(what)
        return value

    return Kind(read, schema)


def _text(place: Place) -> str:
    text = place.scalar("text")
    if not text.strip():
        raise place.expected("text")
    # `on`, `yes` and 1:30 are text to YAML 1.2 and to who reads the file; 42 and true are not.
    number = place.tag in ("int", "float") and ":" not in text
    if number or (place.tag == "bool" and text.lower() in ("true", "false")):
        hint = f'quote what is meant as text, for example: {place.name}: "{place.found}"'
        raise place.error(f"found {place.found}, expected text", hint=hint)
    return text


def _boolean(text: str, tag: str) -> bool | None:
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    return words.get(text.lower()) if tag == "bool" else None


def whole(low: int, high: int = _LARGEST) -> Kind:
    """An integer, always read as decimal: YAML 1.1 would make 8 of 010 and 90 of 1:30."""
    what = f"a whole number, at least {low}" + (f" and at most {high}" if high < _LARGEST else "")
    scalar = scalars.whole(low, high)

    def parse(text: str, tag: str) -> int | None:
        value = scalars.number_or_text(text)
        return int(value) if tag == "int" and scalar.fits(value) else None

    return _scalar(what, parse, scalar.schema)


def number(low: float = -inf, high: float = inf, *, above: float = -inf) -> Kind:
    """A finite number. 1e-2 is text to YAML 1.1, and a number to everybody else."""
    words = {"from": low, "above": above, "up to": high}
    what = "a number" + "".join(f" {word} {bound:g}" for word, bound in words.items() if isfinite(bound))
    bounds = {"minimum": low, "maximum": high, "exclusiveMinimum": above}

    def parse(text: str, tag: str) -> float | None:
        is_number = tag in ("int", "float") or (tag == "str" and "e" in text.lower())
        value = float(text.replace("_", "")) if is_number and text.isascii() else nan
        return value if isfinite(value) and low <= value <= high and value > above else None

    scientific = {"type": "string", "pattern": r"^[-+]?[0-9.]+[eE][-+]?[0-9]+$"}
    plain = {"type": "number", **{name: bound for name, bound in bounds.items() if isfinite(bound)}}
    return _scalar(what, parse, {"anyOf": [plain, scientific]})


def _quantity(
    parse: Callable[[str], int], what: str, units: str, high: int = _LARGEST, *, least: int = 1
) -> Kind:
    def read(place: Place) -> int:
        try:
            value = parse(place.scalar(what))
        except ValueError as error:
            raise place.error(str(error)) from None
        if value == 0:
            raise place.expected(f"{what} above zero")
        if value > high:
            raise place.expected(what)
        return value

    written = {"type": "string", "pattern": f"^{NUMBER} *(?:{units})?$"}
    return Kind(read, {"anyOf": [{"type": "integer", "minimum": least, "maximum": high}, written]})


def _gain(place: Place) -> dict[str, Any]:
    """A share, a size in bytes, or both by name."""
    if isinstance(place.node, yaml.MappingNode):
        both: dict[str, Any] = _GAIN.read(place)
        return both
    text = place.scalar("a percentage or a size")
    return {"size": SIZE.read(place)} if text.strip()[-1:].lower() == "b" else {"share": SHARE.read(place)}


def fraction(high: float = inf, *, plain: float = 1.0, above_zero: bool = False) -> Kind:
    """A percentage, or the fraction itself up to `plain`: beyond that the % was forgotten."""
    what = "a percentage" + (" above 0%" if above_zero else "")
    if isfinite(high):
        what += f" up to {high:.0%}"

    def read(place: Place) -> float:
        text = place.scalar(what).strip()
        try:
            value = parse_fraction(text)
        except ValueError as error:
            raise place.error(str(error)) from None
        if "%" not in text and value > plain:
            raise place.error(f"found {text}, expected {what}: did you mean {text}%?")
        if value > high or (above_zero and value == 0):
            raise place.expected(what)
        return value

    least = {"exclusiveMinimum": 0} if above_zero else {"minimum": 0}
    written = {"type": "string", "pattern": f"^{NUMBER} *%?$"}
    return Kind(read, {"anyOf": [{"type": "number", **least, "maximum": plain}, written]})


def word(*choices: str) -> Kind:
    """One of a few words."""
    scalar = scalars.choice(choices)

    def read(place: Place) -> str:
        text = place.scalar(f"one of: {', '.join(choices)}")
        if not scalar.fits(text):
            raise place.error(f"found {place.found}, {did_you_mean(text, choices)}")
        return text

    return Kind(read, scalar.schema)


def _pattern(place: Place) -> str:
    text = _text(place)
    if _absolute(text, place.reading.folder):
        raise place.error(f"found the absolute {place.found}, expected a pattern relative to the policy file")
    try:
        check_pattern(text)
    except ValueError as error:
        raise place.error(f"the pattern {place.found} {error}") from None
    return text


def _absolute(text: str, folder: str) -> bool:
    """A leading `/` means the policy's folder, so only what is surely from elsewhere is absolute."""
    drive = text[1:3] in (":/", ":\\") and text[0].isalpha()
    below = folder.rstrip("/") + "/"
    return drive or text.startswith(_ELSEWHERE) or (below != "/" and text.startswith(below))


def _file(place: Place) -> str:
    text = _text(place)
    if text.startswith(("/", "\\")) or _absolute(text, place.reading.folder):
        raise place.error(f"found the absolute {place.found}, expected a path relative to the policy file")
    if ".." in text.replace("\\", "/").split("/"):
        raise place.error(f"found {place.found}, expected a path that stays below the policy file: no `..`")
    return text


def is_release(text: str) -> bool:
    """Whether it is a version as `1.20` or `1.23.2`, and nothing that an installer could take for more."""
    return re.fullmatch(_RELEASE, text) is not None


def _text_like(pattern: str, what: str, *, quoted: bool = False) -> Kind:
    """Text that matches a regular expression as a whole."""

    def parse(text: str, tag: str) -> str | None:
        return text if re.fullmatch(pattern, text) and not (quoted and tag != "str") else None

    return _scalar(what, parse, {"type": "string", "pattern": f"^{pattern}$"})


def _sha256(place: Place) -> str:
    text = place.scalar("a sha256: 64 hexadecimal digits").lower()
    if len(text) != 64 or not set(text) <= set("0123456789abcdef"):
        raise place.error(
            f"found {place.found} of length {len(text)}, expected a sha256: 64 hexadecimal digits"
        )
    return text


def _date(text: str, _: str) -> date | None:
    return date.fromisoformat(text) if re.fullmatch("....-..-..", text) else None


FILE = Kind(
    _file,
    {
        "type": "string",
        "pattern": r"\S",
        "not": {"pattern": r"(^|[/\\])\.\.([/\\]|$)|^[/\\]|^~/|^[A-Za-z]:[/\\]"},
    },
)
# In quotes, since 1.20 is the number 1.2 to YAML.
RELEASE = _text_like(_RELEASE, "a version as 1.20 or 1.23.2, in quotes", quoted=True)
VARIABLE = _text_like("[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable")
TEXT = Kind(_text, {"type": "string", "pattern": r"\S"})
BOOLEAN = _scalar("true or false", _boolean, scalars.FLAG.schema)
_UNITS = "(?:[kKmMgGtT][iI]?)?[bB]"
SIZE = _quantity(stated_size, "a size", _UNITS, least=LEAST_PLAIN)
MEMORY = _quantity(stated_size, "a size up to 1 TiB", _UNITS, 1 << 40, least=LEAST_PLAIN)
COUNT = _quantity(parse_count, "a count", "[kKmMbBtT]")
PATTERN = Kind(
    _pattern, {"type": "string", "minLength": 1, "not": {"pattern": r"(^|/)\.\.(/|$)|^//|^[A-Za-z]:[/\\]"}}
)
SHA256 = Kind(_sha256, {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"})
DATE = _scalar(
    "a day that exists, as year-month-day",
    _date,
    {"type": "string", "format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
)


def list_of(kind: Kind, *, least: int = 0) -> Kind:
    def read(place: Place) -> tuple[Any, ...]:
        items = place.items("a list")
        if len(items) < least:
            raise place.error("found an empty list, expected at least one entry")
        return tuple(kind.read(item) for item in items)

    return Kind(read, {"type": "array", "items": kind.schema, **({"minItems": least} if least else {})})


def map_of(kind: Kind) -> Kind:
    """A mapping whose keys are the user's own names."""

    def read(place: Place) -> dict[str, Any]:
        return {key: kind.read(entry) for key, entry in place.entries("a mapping").items()}

    return Kind(read, {"type": "object", "additionalProperties": kind.schema})


def table(
    others: Mapping[str, Key] | None = None,
    /,
    *,
    any_of: Sequence[str] = (),
    no_limit: str = "",
    lined: bool = False,
    takes_none: bool = False,
    **own: Key,
) -> Kind:
    """A mapping with known keys, its own and others', read as a dict of what was given; `lined`, with its
    line and those of its keys. One of `any_of` has to be there, or any where `no_limit` says what is wrong
    without. With `takes_none`, which is lined too, `none` takes away what was said before."""
    keys = {**own, **(others or {})}
    schema = _table_schema(keys, takes_none=takes_none)
    if any_of:
        no_limit = f"found no limit, expected {' or '.join(any_of)}"
        schema["anyOf"] = [{"required": [key]} for key in any_of]
    elif no_limit:
        schema["minProperties"] = 1

    def read(place: Place) -> dict[str, Any]:
        entries = place.entries(f"a mapping with the keys {', '.join(keys)}")
        values = _read_keys(place, entries, keys, takes_none=takes_none)
        if no_limit and all(values.get(key, False) is False for key in any_of or keys):
            raise place.error(no_limit)
        if not (lined or takes_none):
            return values
        lines = {key: entry.key_line for key, entry in entries.items()}
        return {**values, "line": place.line, "lines": lines}

    return Kind(read, schema, keys)


def _read_keys(
    place: Place, entries: Mapping[str, Place], keys: Mapping[str, Key], *, takes_none: bool
) -> dict[str, Any]:
    values = {}
    for name, entry in entries.items():
        if name not in keys:
            raise _unknown_key(place, entry, keys)
        entry.example = f"{name}: {keys[name].example}"
        taken_away = takes_none and not keys[name].required and entry.node.value == NONE
        values[name] = None if taken_away else keys[name].kind.read(entry)
    for name, key in keys.items():
        if key.required and name not in values:
            hint = f"for example: {name}: {key.example}"
            raise place.error(f"found no {name!r}, expected it here", hint=hint)
    return values


def _table_schema(keys: Mapping[str, Key], *, takes_none: bool) -> Schema:
    properties = {}
    for name, key in keys.items():
        schema = key.kind.schema
        if takes_none and not key.required:
            schema = {"anyOf": [schema, {"const": NONE}]}
        properties[name] = {"description": f"{key.about}, for example: {key.example}", **schema}
    schema = {"type": "object", "additionalProperties": False, "properties": properties}
    required = [name for name, key in keys.items() if key.required]
    return {**schema, "required": required} if required else schema


def _unknown_key(place: Place, entry: Place, keys: Mapping[str, Key]) -> PolicyError:
    meant = nearest(entry.name, keys) or next(iter(keys))
    return place.error(
        f"unknown key {entry.name[:60]!r}, {did_you_mean(entry.name, keys)}",
        hint=f"known keys: {', '.join(keys)}; for example: {meant}: {keys[meant].example}",
        line=entry.key_line,
    )


def _read_method(place: Place) -> dict[str, Any]:
    name, entry = _method_name(place)
    names = place.reading.methods.names()
    if name not in names:
        hint = f"for example: methods: [{nearest(name, names) or names[0]}]; `onnx-ci methods` lists them all"
        raise place.error(f"unknown method {name[:60]!r}, {did_you_mean(name, names)}", hint=hint)
    places = entry.entries("a mapping of options") if entry and entry.tag != "null" else {}
    options = {key: _method_option(value) for key, value in places.items()}
    try:
        place.reading.methods.check_options(name, options)
    except OptionError as error:
        sentence = str(error) if name in str(error) else f"{name}: {error}"
        line = places[error.option].key_line if error.option in places else place.line
        hint = "for example: methods: [dedupe, {int8-weights: {min_elements: 4096}}]; see `onnx-ci methods`"
        raise place.error(sentence, hint=hint, line=line) from None
    return {"name": name, "options": options}


def _method_name(place: Place) -> tuple[str, Place | None]:
    if not isinstance(place.node, yaml.MappingNode):
        return place.scalar("the name of a method"), None
    entries = list(place.entries("a method").items())
    if len(entries) != 1:
        names = ", ".join(f"{{{name}: …}}" for name, _ in entries) or "nothing"
        hint = "give each its own entry, for example: methods: [dedupe, {int8-weights: {min_elements: 4096}}]"
        raise place.error(f"found {names[:80]} in one entry, expected one method", hint=hint)
    return entries[0]


def _method_option(place: Place) -> Scalar:
    if isinstance(place.node, yaml.SequenceNode):
        return [item.scalar("text") for item in place.items("a list")]
    if place.tag == "null":
        return None
    text = place.scalar("one value or a list of words")
    if place.tag == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return scalars.number_or_text(text) if place.plain else text


VERSION = 1


def _version(place: Place) -> int:
    version = whole(1).read(place)
    if version != VERSION:
        hint = f"a newer onnx-ci may read it; for example: version: {VERSION}"
        raise place.error(f"found {version}, expected {VERSION}: the only one this onnx-ci reads", hint=hint)
    return VERSION


def _range(place: Place) -> tuple[float, float]:
    what = "a list of two numbers, the lowest and the highest"
    bounds = tuple(number().read(item) for item in place.items(what))
    if len(bounds) != 2:
        raise place.error(f"found {len(bounds)} entries, expected {what}")
    low, high = bounds
    if low > high:
        raise place.error(f"found [{low:g}, {high:g}], which runs backwards, expected {what}")
    return low, high


def _text_that(what: str, fits: Callable[[str], bool], schema: Schema) -> Kind:
    def read(place: Place) -> str:
        text = _text(place)
        if not fits(text):
            raise place.expected(what)
        return text

    return Kind(read, schema)


def _read_methods(place: Place) -> tuple[dict[str, Any], ...]:
    """One word stands for all exact methods, but for those that are named beside it."""
    entries = [(item, _method_name(item)) for item in place.items("a list")]
    named = [name for _, (name, _) in entries]
    chosen: list[dict[str, Any]] = []
    for item, (name, options) in entries:
        if name == EXACT and options is None:
            chosen += [{"name": one, "options": {}} for one in EXACT_METHODS if one not in named]
        else:
            chosen.append(_read_method(item))
    return tuple(chosen)


METHODS = Kind(_read_methods, {"type": "array", "items": {"$ref": "#/$defs/method"}})
MODE = word("to-budget", "smallest", "exact-only")
MISSING = word("error", "warning", "fetch")
UNMATCHED = word("error", "warning", "ignore")
SHARE = fraction(1)
RATIO = fraction(plain=10, above_zero=True)
_GAIN = table(
    share=Key(SHARE, "1%", "of the size"),
    size=Key(SIZE, "4 kB", "in bytes"),
    no_limit="found neither share nor size, expected at least one",
)
GAIN = Kind(_gain, {"anyOf": [SHARE.schema, SIZE.schema["anyOf"][1], _GAIN.schema]})
LEAST_0 = number(0)
RANGE = Kind(_range, {"type": "array", "items": number().schema, "minItems": 2, "maxItems": 2})
COMMAND = _text_that(
    "a command that says where the model goes: {model}",
    lambda text: "{model}" in text,
    {"type": "string", "pattern": r"\{model\}"},
)
REVISION = _text_that("a git revision", lambda text: not text.startswith("-"), TEXT.schema)


_BOUND = r"\s*(<=|>=|<|>|==|)\s*([0-9]{1,4})\s*"


def _versions(place: Place) -> dict[str, int]:
    """Bounds as "<=17" or ">=13, <=17", or one version."""
    what = 'a version, or bounds as "<=17" or ">=13, <=17"'
    text = place.scalar(what)
    if not re.fullmatch(f"{_BOUND}(,{_BOUND})*", text):
        raise place.expected(what)
    span: dict[str, int] = {}
    for sign, digits in re.findall(_BOUND, text):
        version = int(digits)
        if sign not in ("<=", "<"):
            span["low"] = max(span.get("low", 0), version + (sign == ">"))
        if sign not in (">=", ">"):
            span["high"] = min(span.get("high", version), version - (sign == "<"))
    if span.get("low", 0) > span.get("high", _LARGEST):
        raise place.error(f"found {place.found}, which no version meets, expected {what}")
    return span


VERSIONS = Kind(
    _versions,
    {
        "anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "string", "pattern": f"^{_BOUND}(,{_BOUND})*$"},
        ]
    },
)
# What nobody needs more of, and what no run would end with.
DAY = 86_400
MOST_INPUTS = 1_000
MOST_IN_A_DIM = 2**31 - 1

LOADING = ("load_seconds", "load_memory")
BUDGET = table(
    size=Key(SIZE, "25 MB", "the .onnx file and its external data together"),
    gzip=Key(SIZE, "20 MB", "the same, compressed with gzip"),
    brotli=Key(SIZE, "18 MB", "the same, compressed with brotli"),
    zstd=Key(SIZE, "19 MB", "the same, compressed with zstd"),
    growth=Key(fraction(), "5%", "how much larger than the base version in git"),
    params=Key(COUNT, "12M", "the number of parameters"),
    latency=Key(RATIO, "110%", "the time of one run against the original's"),
    load_seconds=Key(number(high=DAY, above=0), "2", "how long onnxruntime may take to load it"),
    load_memory=Key(SIZE, "500 MB", "the memory that loading it may take, at the worst moment"),
    fits=Key(list_of(word(*PLACES)), "[pypi, github]", "places that have to take it, by name"),
    takes_none=True,
)
GROUP_BUDGET = table(
    {name: key for name, key in BUDGET.keys.items() if name not in ("latency", *LOADING)},
    no_limit="found no limit, expected at least one",
)

TOLERANCE = table(
    max_abs=Key(LEAST_0, "1e-2", "the largest absolute difference"),
    max_rel=Key(LEAST_0, "1e-2", "the largest relative difference"),
    mean_abs=Key(LEAST_0, "1e-3", "the mean absolute difference"),
    cosine=Key(number(-1, 1), "0.999", "the least cosine similarity"),
    sqnr=Key(LEAST_0, "30", "the least signal to noise ratio, in dB"),
    top1=Key(SHARE, "99%", "how often the largest value must stay the largest"),
    exact=Key(BOOLEAN, "true", "outputs must be the same to the last bit"),
    no_limit="found no limit, expected at least one: without any, every output would pass",
)

REQUIRE = table(
    opset=Key(VERSIONS, '"<=17"', "the version of the standard operators"),
    ir=Key(VERSIONS, '"<=9"', "the version of the file format"),
    domains=Key(
        list_of(TEXT), "[ai.onnx.ml]", "domains of operators that it may use, beside the standard one"
    ),
    operators=Key(
        table(
            deny=Key(list_of(TEXT), '[Loop, "com.microsoft.*"]', "operators that it may not have"),
            allow=Key(list_of(TEXT), "[Conv, Relu]", "the only ones that it may have"),
            no_limit="found neither deny nor allow, expected at least one",
        ),
        "{deny: [Loop]}",
        "which operators it may have",
    ),
    metadata=Key(list_of(TEXT), "[license]", "entries of its metadata that have to be there"),
    dynamic_batch=Key(BOOLEAN, "true", "whether the batch of its inputs has to be open, or has to be fixed"),
    runtimes=Key(
        list_of(word(*RUNTIMES)), "[onnxruntime-web@1.20]", "runtimes whose versions have to take it"
    ),
    takes_none=True,
)

INPUTS = table(
    samples=Key(list_of(TEXT), '["tests/data/*.npz"]', ".npz files, or folders of ONNX test_data_set_*"),
    dims=Key(map_of(whole(0, MOST_IN_A_DIM)), "{batch: 1, sequence: 64}", "sizes of symbolic dimensions"),
    ranges=Key(map_of(RANGE), "{input_ids: [0, 30521]}", "the lowest and highest value of an input"),
    count=Key(whole(1, MOST_INPUTS), "4", "how many inputs to generate"),
    seed=Key(whole(0), "0", "where the generated inputs start"),
    takes_none=True,
)

EVALUATE = table(
    command=Key(COMMAND, '"python eval.py {model}"', "prints the metric of the model", required=True),
    metric=Key(TEXT, "wer", "the name of the score in what the command prints", required=True),
    max_increase=Key(LEAST_0, "0.2", "how much the score may rise"),
    max_decrease=Key(LEAST_0, "0.5", "how much the score may fall"),
    env=Key(list_of(VARIABLE), "[HF_HOME]", "variables that the command gets beside the usual ones"),
    any_of=("max_increase", "max_decrease"),
)

LIMITS = table(
    seconds=Key(number(high=DAY, above=0), "300", "how long one model may run"),
    memory=Key(MEMORY, "8 GiB", "how much memory it may take"),
    total_seconds=Key(
        number(high=DAY, above=0),
        "600",
        "how long all work on one model may take; a search for the smallest form ends at half of it",
    ),
    takes_none=True,
)

DEFAULTS = table(
    budget=Key(BUDGET, "{size: 25 MB, growth: 5%}", "what the model may weigh"),
    require=Key(REQUIRE, '{opset: "<=17", metadata: [license]}', "what it has to be, as its file tells"),
    methods=Key(
        METHODS,
        "[exact, fp16-weights]",
        "what may be done to shrink it, mildest first; all exact methods where nothing is said",
    ),
    shrink=Key(MODE, "to-budget", "how far to go with approximate methods"),
    tolerance=Key(TOLERANCE, "{cosine: 0.999}", "how far outputs may move; all limits must hold"),
    inputs=Key(INPUTS, "{dims: {batch: 1}, count: 4}", "what the model is run on to verify it"),
    evaluate=Key(
        EVALUATE,
        '{command: "python eval.py {model}", metric: wer, max_increase: 0.2}',
        "your own score, original against candidate",
    ),
    limits=Key(LIMITS, "{seconds: 300, memory: 8 GiB}", "what running the model may cost"),
    runtimes=Key(
        list_of(RELEASE),
        '["1.20", "1.23.2"]',
        "versions of onnxruntime that it has to hold in, beside the installed one",
    ),
    libraries=Key(list_of(FILE), '["ops/libmyops.so"]', "files with custom operators, below the policy file"),
    plan_runs=Key(
        whole(0, 100_000),
        "240",
        "runs of the model, of one input each, to search for the best mix of forms; 0 does not search",
    ),
    plan_seconds=Key(number(0, DAY), "0", "as plan_runs: 0; other numbers have no meaning any more"),
    load_check=Key(
        BOOLEAN, "off", "whether a model that nothing is done to is loaded and run once (on, if not said)"
    ),
    minimum_gain=Key(GAIN, "{share: 1%, size: 4 kB}", "savings under either are left alone"),
    severity=Key(word("error", "warning"), "error", "whether a broken rule fails the run"),
    only_new=Key(BOOLEAN, "true", "models that did not change may stay as they are, with a warning"),
    lined=True,
)

RULE = table(
    DEFAULTS.keys,
    path=Key(
        PATTERN,
        '"models/**/*.onnx"',
        "as in .gitignore; later ones win key by key",
        required=True,
    ),
    ignore=Key(BOOLEAN, "true", "leave these models alone"),
    takes_none=True,
)

GROUP = table(
    name=Key(TEXT, "app bundle", "how reports call the group", required=True),
    paths=Key(list_of(PATTERN, least=1), '["app/*.onnx"]', "patterns of its models", required=True),
    budget=Key(GROUP_BUDGET, "{size: 60 MB}", "what they may weigh together", required=True),
    lined=True,
)

OVERRIDE = table(
    path=Key(PATTERN, "models/big.onnx", "the model", required=True),
    sha256=Key(SHA256, f'"{"0a" * 32}"', "of exactly the content that is accepted", required=True),
    reason=Key(TEXT, '"waits for the new tokenizer"', "why", required=True),
    until=Key(DATE, "2027-01-31", "the last day on which it is accepted", required=True),
    lined=True,
)

HISTORY = table(
    budget=Key(SIZE, "50 MB", "what a branch may add to git, every version of every model counted"),
    lfs=Key(SIZE, "1 GB", "the same for what it adds to Git LFS"),
    since=Key(REVISION, "origin/main", "what the branch left, where a run is not told otherwise"),
    any_of=("budget", "lfs"),
    lined=True,
)

LFS = table(missing=Key(MISSING, "fetch", "what to do where content is needed and not here"))

POLICY = table(
    {"$schema": Key(TEXT, f'"{SCHEMA_URL}"', "for editors, which check the policy as it is typed")},
    version=Key(Kind(_version, {"const": VERSION}), "1", "the version of this format", required=True),
    unmatched=Key(UNMATCHED, "error", "what a model is that no rule matches"),
    policy_changes=Key(
        word("warning", "error"), "error", "what a pull request is told of that loosens this policy"
    ),
    new_commands=Key(
        word("refuse", "run"),
        "refuse",
        "evaluate commands and libraries that a pull request adds or changes",
    ),
    defaults=Key(DEFAULTS, "{tolerance: {cosine: 0.999}}", "what every rule starts from"),
    models=Key(list_of(RULE, least=1), '[{path: "models/**/*.onnx"}]', "the rules", required=True),
    groups=Key(
        list_of(GROUP),
        '[{name: app bundle, paths: ["app/*.onnx"], budget: {size: 60 MB}}]',
        "budgets over several models together",
    ),
    overrides=Key(
        list_of(OVERRIDE),
        '[{path: models/big.onnx, sha256: "…", reason: "…", until: 2027-01-31}]',
        "broken rules that are accepted for a while",
    ),
    history=Key(HISTORY, "{budget: 50 MB}", "what a branch may add to the repository for ever"),
    lfs=Key(LFS, "{missing: fetch}", "models that are kept in Git LFS or DVC"),
)


def json_schema(methods: Iterable[tuple[str, Mapping[str, object]]]) -> Schema:
    """The schema, given each method's name and the schema of its options."""
    options = dict(methods)
    with_options = {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
        "properties": {name: {"anyOf": [schema, {"type": "null"}]} for name, schema in options.items()},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "onnx-ci policy",
        "description": "What ONNX models may weigh, and how they may be made smaller.",
        **POLICY.schema,
        "$defs": {"method": {"anyOf": [{"enum": [*options, EXACT]}, with_options]}},
    }
