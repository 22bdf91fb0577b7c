"""What a policy may say: kinds of values, and the one table that is read by and drawn as a JSON schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from math import isfinite

import yaml

from onnx_ci.errors import OptionError, PolicyError
from onnx_ci.policy.glob import check_pattern
from onnx_ci.policy.reader import Place
from onnx_ci.util import scalars
from onnx_ci.util.sizes import NUMBER, parse_count, parse_fraction, parse_size
from onnx_ci.util.text import did_you_mean, nearest

TYPE_CHECKING = False  # light start: CONTRIBUTING.md
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from onnx_ci.policy.schema import Scalar

Schema: TypeAlias = "dict[str, Any]"
_LARGEST = 2**63 - 1
_RELEASE = r"[0-9]{1,4}\.[0-9]{1,4}(?:\.[0-9]{1,4})?"
_ROOTS = ("etc", "home", "mnt", "opt", "root", "tmp", "usr", "var", "Users")
_ELSEWHERE = ("//", "\\\\", "~/", *(f"/{root}/" for root in _ROOTS))


class Kind:
    """One kind of value."""

    __slots__ = ("read", "schema")

    def __init__(self, read: Callable[[Place], Any], schema: Schema) -> None:
        self.read = read
        self.schema = schema


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


def _boolean(place: Place) -> bool:
    text = place.scalar("true or false").lower()
    if place.tag != "bool" or text not in ("true", "yes", "on", "false", "no", "off"):
        raise place.expected("true or false")
    return text in ("true", "yes", "on")


def whole(low: int, high: int = _LARGEST) -> Kind:
    """An integer, always read as decimal: YAML 1.1 would make 8 of 010 and 90 of 1:30."""
    what = f"a whole number, at least {low}" + (f" and at most {high}" if high < _LARGEST else "")
    scalar = scalars.whole(low, high)

    def read(place: Place) -> int:
        value = scalars.number_or_text(place.scalar(what))
        if place.tag != "int" or not isinstance(value, int) or value < low:
            raise place.expected(what)
        if not scalar.fits(value):
            raise place.expected(what if high < _LARGEST else "a smaller number")
        return value

    return Kind(read, scalar.schema)


def number(low: float | None = None, high: float | None = None, *, above: float | None = None) -> Kind:
    """A finite number. 1e-2 is text to YAML 1.1, and a number to everybody else."""
    bounds = {"minimum": low, "maximum": high, "exclusiveMinimum": above}
    words = {"from": low, "above": above, "up to": high}
    what = " ".join(
        ["a number", *(f"{word} {bound:g}" for word, bound in words.items() if bound is not None)]
    )

    def read(place: Place) -> float:
        text = place.scalar(what)
        if place.tag not in ("int", "float") and not (place.tag == "str" and "e" in text.lower()):
            raise place.expected(what)
        value = _float(text)
        too_low = (low is not None and value < low) or (above is not None and value <= above)
        if not isfinite(value) or too_low or (high is not None and value > high):
            raise place.expected(what)
        return value

    scientific = {"type": "string", "pattern": r"^[-+]?[0-9.]+[eE][-+]?[0-9]+$"}
    plain = {"type": "number", **{name: bound for name, bound in bounds.items() if bound is not None}}
    return Kind(read, {"anyOf": [plain, scientific]})


def _float(text: str) -> float:
    try:
        return float(text.replace("_", "")) if text.isascii() else float("nan")
    except ValueError:
        return float("nan")


def _quantity(parse: Callable[[str], int], what: str, units: str, high: int = _LARGEST) -> Kind:
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
    return Kind(read, {"anyOf": [{"type": "integer", "minimum": 1, "maximum": high}, written]})


def fraction(high: float | None = None, *, plain: float = 1.0, above_zero: bool = False) -> Kind:
    """A percentage, or the fraction itself up to `plain`: beyond that the % was forgotten."""
    what = (
        "a percentage"
        + (" above 0%" if above_zero else "")
        + (f" up to {high:.0%}" if high is not None else "")
    )

    def read(place: Place) -> float:
        text = place.scalar(what).strip()
        try:
            value = parse_fraction(text)
        except ValueError as error:
            raise place.error(str(error)) from None
        if "%" not in text and value > plain:
            raise place.error(f"found {text}, expected {what}: did you mean {text}%?")
        if (high is not None and value > high) or (above_zero and value == 0):
            raise place.expected(what)
        return value

    least = {"exclusiveMinimum": 0} if above_zero else {"minimum": 0}
    written = {"type": "string", "pattern": f"^{NUMBER} *%?$"}
    return Kind(read, {"anyOf": [{"type": "number", **least, "maximum": plain}, written]})


def word(choices: Sequence[str]) -> Kind:
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

    def read(place: Place) -> str:
        text = place.scalar(what)
        if not re.fullmatch(pattern, text) or (quoted and place.tag != "str"):
            raise place.expected(what)
        return text

    return Kind(read, {"type": "string", "pattern": f"^{pattern}$"})


def _sha256(place: Place) -> str:
    text = place.scalar("a sha256: 64 hexadecimal digits").lower()
    if len(text) != 64 or not set(text) <= set("0123456789abcdef"):
        raise place.error(
            f"found {place.found} of length {len(text)}, expected a sha256: 64 hexadecimal digits"
        )
    return text


def _date(place: Place) -> date:
    what = "a day that exists, as year-month-day"
    text = place.scalar(what)
    try:
        if len(text) != 10 or text[4] + text[7] != "--":
            raise place.expected(what)
        return date.fromisoformat(text)
    except ValueError:
        raise place.expected(what) from None


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
BOOLEAN = Kind(_boolean, scalars.FLAG.schema)
SIZE = _quantity(parse_size, "a size", "(?:[kKmMgGtT][iI]?)?[bB]")
MEMORY = _quantity(parse_size, "a size up to 1 TiB", "(?:[kKmMgGtT][iI]?)?[bB]", 1 << 40)
COUNT = _quantity(parse_count, "a count", "[kKmMbBtT]")
PATTERN = Kind(
    _pattern, {"type": "string", "minLength": 1, "not": {"pattern": r"(^|/)\.\.(/|$)|^//|^[A-Za-z]:[/\\]"}}
)
SHA256 = Kind(_sha256, {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"})
DATE = Kind(_date, {"type": "string", "format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"})


class Key:
    """What may stand under one key: its kind, an example, and a sentence for the editor."""

    __slots__ = ("about", "example", "kind", "required")

    def __init__(self, kind: Kind, example: str, about: str, *, required: bool = False) -> None:
        self.kind = kind
        self.example = example
        self.about = about
        self.required = required


Table = dict[str, Key]
Check: TypeAlias = "Callable[[Place, dict[str, Any]], None]"


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


def table_of(
    table: Table,
    *,
    any_of: Sequence[str] = (),
    check: Check | None = None,
    also: Schema | None = None,
    lined: bool = False,
) -> Kind:
    """A mapping with known keys, read as a dict of what was given, with its line where that is wanted.

    One of the keys in `any_of` has to be there. `also` tells editors, as far as a schema can, what `check`
    makes sure of."""
    schema = {**table_schema(table), **(also or {})}
    if any_of:
        schema["anyOf"] = [{"required": [key]} for key in any_of]

    def read(place: Place) -> dict[str, Any]:
        values = read_table(place, table)
        if any_of and values.keys().isdisjoint(any_of):
            raise place.error(f"found no limit, expected {' or '.join(any_of)}")
        if check:
            check(place, values)
        return {**values, "line": place.line} if lined else values

    return Kind(read, schema)


def read_table(place: Place, table: Table) -> dict[str, Any]:
    entries = place.entries(f"a mapping with the keys {', '.join(table)}")
    values = {}
    for key, entry in entries.items():
        if key not in table:
            raise _unknown_key(place, entry, table)
        entry.example = f"{key}: {table[key].example}"
        values[key] = table[key].kind.read(entry)
    for key, field in table.items():
        if field.required and key not in values:
            raise place.error(
                f"found no {key!r}, expected it here", hint=f"for example: {key}: {field.example}"
            )
    return values


def table_schema(table: Table) -> Schema:
    schema: Schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            key: {"description": f"{field.about}, for example: {field.example}", **field.kind.schema}
            for key, field in table.items()
        },
    }
    required = [key for key, field in table.items() if field.required]
    return {**schema, "required": required} if required else schema


def _unknown_key(place: Place, entry: Place, table: Table) -> PolicyError:
    meant = nearest(entry.name, table) or next(iter(table))
    return place.error(
        f"unknown key {entry.name[:60]!r}, {did_you_mean(entry.name, table)}",
        hint=f"known keys: {', '.join(table)}; for example: {meant}: {table[meant].example}",
        line=entry.key_line,
    )


def _read_method(place: Place) -> tuple[str, dict[str, Scalar]]:
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
    return name, options


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


METHOD = Kind(_read_method, {"$ref": "#/$defs/method"})


VERSION = 1
# What nobody needs more of, and what no run would end with.
DAY = 86_400
MOST_INPUTS = 1_000
MOST_IN_A_DIM = 2**31 - 1


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


def _command(place: Place) -> str:
    text = str(TEXT.read(place))
    if "{model}" not in text:
        raise place.error(
            f"found {place.found}, expected a command that says where the model goes: {{model}}"
        )
    return text


def _check_tolerance(place: Place, values: dict[str, Any]) -> None:
    if not any(value is not False for value in values.values()):
        raise place.error("found no limit, expected at least one: without any, every output would pass")


def _check_history(place: Place, values: dict[str, Any]) -> None:
    if values.get("since", "").startswith("-"):
        raise place.error(f"since: found {values['since']!r}, expected a git revision")


def _check_group_budget(place: Place, values: dict[str, Any]) -> None:
    if not values:
        raise place.error("found no limit, expected at least one")


BUDGET: Table = {
    "size": Key(SIZE, "25 MB", "the .onnx file and its external data together"),
    "gzip": Key(SIZE, "20 MB", "the same, compressed with gzip"),
    "brotli": Key(SIZE, "18 MB", "the same, compressed with brotli"),
    "zstd": Key(SIZE, "19 MB", "the same, compressed with zstd"),
    "growth": Key(fraction(), "5%", "how much larger than the base version in git"),
    "params": Key(COUNT, "12M", "the number of parameters"),
    "latency": Key(fraction(plain=10, above_zero=True), "110%", "the time of one run against the original's"),
}
GROUP_BUDGET = {key: field for key, field in BUDGET.items() if key != "latency"}

TOLERANCE: Table = {
    "max_abs": Key(number(0), "1e-2", "the largest absolute difference"),
    "max_rel": Key(number(0), "1e-2", "the largest relative difference"),
    "mean_abs": Key(number(0), "1e-3", "the mean absolute difference"),
    "cosine": Key(number(-1, 1), "0.999", "the least cosine similarity"),
    "sqnr": Key(number(0), "30", "the least signal to noise ratio, in dB"),
    "top1": Key(fraction(1), "99%", "how often the largest value must stay the largest"),
    "exact": Key(BOOLEAN, "true", "outputs must be the same to the last bit"),
}

INPUTS: Table = {
    "samples": Key(list_of(TEXT), '["tests/data/*.npz"]', ".npz files, or folders of ONNX test_data_set_*"),
    "dims": Key(map_of(whole(0, MOST_IN_A_DIM)), "{batch: 1, sequence: 64}", "sizes of symbolic dimensions"),
    "ranges": Key(
        map_of(Kind(_range, {"type": "array", "items": number().schema, "minItems": 2, "maxItems": 2})),
        "{input_ids: [0, 30521]}",
        "the lowest and highest value of an input",
    ),
    "count": Key(whole(1, MOST_INPUTS), "4", "how many inputs to generate"),
    "seed": Key(whole(0), "0", "where the generated inputs start"),
}

EVALUATE: Table = {
    "command": Key(
        Kind(_command, {"type": "string", "pattern": r"\{model\}"}),
        '"python eval.py {model}"',
        "prints the metric of the model",
        required=True,
    ),
    "metric": Key(TEXT, "wer", "the name of the score in what the command prints", required=True),
    "max_increase": Key(number(0), "0.2", "how much the score may rise"),
    "max_decrease": Key(number(0), "0.5", "how much the score may fall"),
    "env": Key(list_of(VARIABLE), "[HF_HOME]", "variables that the command gets beside the usual ones"),
}

LIMITS: Table = {
    "seconds": Key(number(high=DAY, above=0), "300", "how long one model may run"),
    "memory": Key(MEMORY, "8 GiB", "how much memory it may take"),
}

DEFAULTS: Table = {
    "budget": Key(table_of(BUDGET), "{size: 25 MB, growth: 5%}", "what the model may weigh"),
    "methods": Key(list_of(METHOD), "[dedupe, drop-unused]", "what may be done to shrink it, mildest first"),
    "shrink": Key(
        word(("to-budget", "smallest", "exact-only")), "to-budget", "how far to go with approximate methods"
    ),
    "tolerance": Key(
        table_of(TOLERANCE, check=_check_tolerance, also={"minProperties": 1}),
        "{cosine: 0.999}",
        "how far outputs may move; all limits must hold",
    ),
    "inputs": Key(table_of(INPUTS), "{dims: {batch: 1}, count: 4}", "what the model is run on to verify it"),
    "evaluate": Key(
        table_of(EVALUATE, any_of=("max_increase", "max_decrease")),
        '{command: "python eval.py {model}", metric: wer, max_increase: 0.2}',
        "your own score, original against candidate",
    ),
    "limits": Key(table_of(LIMITS), "{seconds: 300, memory: 8 GiB}", "what running the model may cost"),
    "runtimes": Key(
        list_of(RELEASE),
        '["1.20", "1.23.2"]',
        "versions of onnxruntime that it has to hold in, beside the installed one",
    ),
    "libraries": Key(
        list_of(FILE), '["ops/libmyops.so"]', "files with custom operators, below the policy file"
    ),
    "plan_seconds": Key(
        number(0, DAY), "20", "how long to search for the best mix of forms, tensor by tensor; 0 does not"
    ),
    "load_check": Key(
        BOOLEAN, "off", "whether a model that nothing is done to is loaded and run once (on, if not said)"
    ),
    "minimum_gain": Key(fraction(1), "1%", "smaller savings are left alone"),
    "severity": Key(word(("error", "warning")), "error", "whether a broken rule fails the run"),
    "only_new": Key(BOOLEAN, "true", "models that did not change may stay as they are, with a warning"),
}

RULE: Table = {
    "path": Key(
        PATTERN, '"models/**/*.onnx"', "a gitignore-style pattern; the last match wins", required=True
    ),
    "ignore": Key(BOOLEAN, "true", "leave these models alone"),
    **DEFAULTS,
}

GROUP: Table = {
    "name": Key(TEXT, "app bundle", "how reports call the group", required=True),
    "paths": Key(list_of(PATTERN, least=1), '["app/*.onnx"]', "patterns of its models", required=True),
    "budget": Key(
        table_of(GROUP_BUDGET, check=_check_group_budget, also={"minProperties": 1}),
        "{size: 60 MB}",
        "what they may weigh together",
        required=True,
    ),
}

OVERRIDE: Table = {
    "path": Key(PATTERN, "models/big.onnx", "the model", required=True),
    "sha256": Key(SHA256, '"' + "0a" * 32 + '"', "of exactly the content that is accepted", required=True),
    "reason": Key(TEXT, '"waits for the new tokenizer"', "why", required=True),
    "until": Key(DATE, "2027-01-31", "the last day on which it is accepted", required=True),
}

HISTORY: Table = {
    "budget": Key(SIZE, "50 MB", "what a branch may add to git, every version of every model counted"),
    "lfs": Key(SIZE, "1 GB", "the same for what it adds to Git LFS"),
    "since": Key(TEXT, "origin/main", "what the branch left, where a run is not told otherwise"),
}

LFS: Table = {
    "missing": Key(
        word(("error", "warning", "fetch")), "fetch", "what to do where content is needed and not here"
    ),
}

POLICY: Table = {
    "version": Key(Kind(_version, {"const": VERSION}), "1", "the version of this format", required=True),
    "unmatched": Key(word(("error", "warning", "ignore")), "error", "what a model is that no rule matches"),
    "policy_changes": Key(
        word(("warning", "error")), "error", "what a pull request is told of that loosens this policy"
    ),
    "new_commands": Key(
        word(("refuse", "run")),
        "refuse",
        "evaluate commands and libraries that a pull request adds or changes",
    ),
    "defaults": Key(table_of(DEFAULTS), "{tolerance: {cosine: 0.999}}", "what every rule starts from"),
    "models": Key(
        list_of(table_of(RULE, lined=True), least=1),
        '[{path: "models/**/*.onnx"}]',
        "the rules",
        required=True,
    ),
    "groups": Key(
        list_of(table_of(GROUP, lined=True)),
        '[{name: app bundle, paths: ["app/*.onnx"], budget: {size: 60 MB}}]',
        "budgets over several models together",
    ),
    "overrides": Key(
        list_of(table_of(OVERRIDE, lined=True)),
        '[{path: models/big.onnx, sha256: "…", reason: "…", until: 2027-01-31}]',
        "broken rules that are accepted for a while",
    ),
    "history": Key(
        table_of(HISTORY, any_of=("budget", "lfs"), check=_check_history, lined=True),
        "{budget: 50 MB}",
        "what a branch may add to the repository for ever",
    ),
    "lfs": Key(table_of(LFS), "{missing: fetch}", "models that are kept in Git LFS or DVC"),
}


def json_schema(methods: Iterable[tuple[str, Mapping[str, object]]]) -> Schema:
    """The schema, given each method's name and the schema of its options."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "onnx-ci policy",
        "description": "What ONNX models may weigh, and how they may be made smaller.",
        **table_schema(POLICY),
        "$defs": {"method": _method_schema(dict(methods))},
    }


def _method_schema(options: Mapping[str, Mapping[str, object]]) -> Schema:
    with_options = {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
        "properties": {name: {"anyOf": [schema, {"type": "null"}]} for name, schema in options.items()},
    }
    return {"anyOf": [{"enum": list(options)}, with_options]}
