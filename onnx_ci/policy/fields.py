"""The one table of what a policy may say: the loader reads by it, and the JSON schema is drawn from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import yaml

from onnx_ci.errors import OptionError
from onnx_ci.policy.reader import (
    BOOLEAN,
    COUNT,
    DATE,
    FILE,
    MEMORY,
    PATTERN,
    RELEASE,
    SHA256,
    SIZE,
    TEXT,
    VARIABLE,
    Field,
    Kind,
    Place,
    Schema,
    Table,
    fraction,
    list_of,
    map_of,
    number,
    table_of,
    table_schema,
    whole,
    word,
)
from onnx_ci.util.scalars import number_or_text
from onnx_ci.util.text import did_you_mean, nearest

TYPE_CHECKING = False  # light start: CONTRIBUTING.md
if TYPE_CHECKING:
    from typing import Any

    from onnx_ci.policy.schema import Scalar


def _read(place: Place) -> tuple[str, dict[str, Scalar]]:
    name, entry = _name(place)
    known = place.reading.methods.names()
    if name not in known:
        hint = f"for example: methods: [{nearest(name, known) or known[0]}]; `onnx-ci methods` lists them all"
        raise place.error(f"unknown method {name[:60]!r}, {did_you_mean(name, known)}", hint=hint)
    places = entry.entries("a mapping of options") if entry and entry.tag != "null" else {}
    options = {key: _option(value) for key, value in places.items()}
    try:
        place.reading.methods.check_options(name, options)
    except OptionError as error:
        sentence = str(error) if name in str(error) else f"{name}: {error}"
        line = places[error.option].key_line if error.option in places else place.line
        hint = "for example: methods: [dedupe, {int8-weights: {min_elements: 4096}}]; see `onnx-ci methods`"
        raise place.error(sentence, hint=hint, line=line) from None
    return name, options


def _name(place: Place) -> tuple[str, Place | None]:
    if not isinstance(place.node, yaml.MappingNode):
        return place.scalar("the name of a method"), None
    entries = list(place.entries("a method").items())
    if len(entries) != 1:
        names = ", ".join(f"{{{name}: …}}" for name, _ in entries) or "nothing"
        hint = "give each its own entry, for example: methods: [dedupe, {int8-weights: {min_elements: 4096}}]"
        raise place.error(f"found {names[:80]} in one entry, expected one method", hint=hint)
    return entries[0]


def _option(place: Place) -> Scalar:
    if isinstance(place.node, yaml.SequenceNode):
        return [item.scalar("text") for item in place.items("a list")]
    if place.tag == "null":
        return None
    text = place.scalar("one value or a list of words")
    if place.tag == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return number_or_text(text) if place.plain else text


METHOD = Kind(_read, {"$ref": "#/$defs/method"})


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


def _check_evaluate(place: Place, values: dict[str, Any]) -> None:
    if not {"max_increase", "max_decrease"} & values.keys():
        raise place.error("found no limit, expected max_increase or max_decrease")


def _check_history(place: Place, values: dict[str, Any]) -> None:
    if not {"budget", "lfs"} & values.keys():
        raise place.error("found no limit, expected budget or lfs")
    if values.get("since", "").startswith("-"):
        raise place.error(f"since: found {values['since']!r}, expected a git revision")


def _check_group_budget(place: Place, values: dict[str, Any]) -> None:
    if not values:
        raise place.error("found no limit, expected at least one")


BUDGET: Table = {
    "size": Field(SIZE, "25 MB", "the .onnx file and its external data together"),
    "gzip": Field(SIZE, "20 MB", "the same, compressed with gzip"),
    "brotli": Field(SIZE, "18 MB", "the same, compressed with brotli"),
    "zstd": Field(SIZE, "19 MB", "the same, compressed with zstd"),
    "growth": Field(fraction(), "5%", "how much larger than the base version in git"),
    "params": Field(COUNT, "12M", "the number of parameters"),
    "latency": Field(
        fraction(plain=10, above_zero=True), "110%", "the time of one run against the original's"
    ),
}
GROUP_BUDGET = {key: field for key, field in BUDGET.items() if key != "latency"}

TOLERANCE: Table = {
    "max_abs": Field(number(0), "1e-2", "the largest absolute difference"),
    "max_rel": Field(number(0), "1e-2", "the largest relative difference"),
    "mean_abs": Field(number(0), "1e-3", "the mean absolute difference"),
    "cosine": Field(number(-1, 1), "0.999", "the least cosine similarity"),
    "sqnr": Field(number(0), "30", "the least signal to noise ratio, in dB"),
    "top1": Field(fraction(1), "99%", "how often the largest value must stay the largest"),
    "exact": Field(BOOLEAN, "true", "outputs must be the same to the last bit"),
}

INPUTS: Table = {
    "samples": Field(list_of(TEXT), '["tests/data/*.npz"]', ".npz files, or folders of ONNX test_data_set_*"),
    "dims": Field(
        map_of(whole(0, MOST_IN_A_DIM)), "{batch: 1, sequence: 64}", "sizes of symbolic dimensions"
    ),
    "ranges": Field(
        map_of(Kind(_range, {"type": "array", "items": number().schema, "minItems": 2, "maxItems": 2})),
        "{input_ids: [0, 30521]}",
        "the lowest and highest value of an input",
    ),
    "count": Field(whole(1, MOST_INPUTS), "4", "how many inputs to generate"),
    "seed": Field(whole(0), "0", "where the generated inputs start"),
}

EVALUATE: Table = {
    "command": Field(
        Kind(_command, {"type": "string", "pattern": r"\{model\}"}),
        '"python eval.py {model}"',
        "prints the metric of the model",
        required=True,
    ),
    "metric": Field(TEXT, "wer", "the name of the score in what the command prints", required=True),
    "max_increase": Field(number(0), "0.2", "how much the score may rise"),
    "max_decrease": Field(number(0), "0.5", "how much the score may fall"),
    "env": Field(list_of(VARIABLE), "[HF_HOME]", "variables that the command gets beside the usual ones"),
}

LIMITS: Table = {
    "seconds": Field(number(high=DAY, above=0), "300", "how long one model may run"),
    "memory": Field(MEMORY, "8 GiB", "how much memory it may take"),
}

DEFAULTS: Table = {
    "budget": Field(table_of(BUDGET), "{size: 25 MB, growth: 5%}", "what the model may weigh"),
    "methods": Field(
        list_of(METHOD), "[dedupe, drop-unused]", "what may be done to shrink it, mildest first"
    ),
    "shrink": Field(
        word(("to-budget", "smallest", "exact-only")), "to-budget", "how far to go with approximate methods"
    ),
    "tolerance": Field(
        table_of(TOLERANCE, check=_check_tolerance, also={"minProperties": 1}),
        "{cosine: 0.999}",
        "how far outputs may move; all limits must hold",
    ),
    "inputs": Field(
        table_of(INPUTS), "{dims: {batch: 1}, count: 4}", "what the model is run on to verify it"
    ),
    "evaluate": Field(
        table_of(
            EVALUATE,
            check=_check_evaluate,
            also={"anyOf": [{"required": ["max_increase"]}, {"required": ["max_decrease"]}]},
        ),
        '{command: "python eval.py {model}", metric: wer, max_increase: 0.2}',
        "your own score, original against candidate",
    ),
    "limits": Field(table_of(LIMITS), "{seconds: 300, memory: 8 GiB}", "what running the model may cost"),
    "runtimes": Field(
        list_of(RELEASE),
        '["1.20", "1.23.2"]',
        "versions of onnxruntime that it has to hold in, beside the installed one",
    ),
    "libraries": Field(
        list_of(FILE), '["ops/libmyops.so"]', "files with custom operators, below the policy file"
    ),
    "plan_seconds": Field(
        number(0, DAY), "20", "how long to search for the best mix of forms, tensor by tensor; 0 does not"
    ),
    "load_check": Field(
        BOOLEAN, "off", "whether a model that nothing is done to is loaded and run once (on, if not said)"
    ),
    "minimum_gain": Field(fraction(1), "1%", "smaller savings are left alone"),
    "severity": Field(word(("error", "warning")), "error", "whether a broken rule fails the run"),
    "only_new": Field(BOOLEAN, "true", "models that did not change may stay as they are, with a warning"),
}

RULE: Table = {
    "path": Field(
        PATTERN, '"models/**/*.onnx"', "a gitignore-style pattern; the last match wins", required=True
    ),
    "ignore": Field(BOOLEAN, "true", "leave these models alone"),
    **DEFAULTS,
}

GROUP: Table = {
    "name": Field(TEXT, "app bundle", "how reports call the group", required=True),
    "paths": Field(list_of(PATTERN, least=1), '["app/*.onnx"]', "patterns of its models", required=True),
    "budget": Field(
        table_of(GROUP_BUDGET, check=_check_group_budget, also={"minProperties": 1}),
        "{size: 60 MB}",
        "what they may weigh together",
        required=True,
    ),
}

OVERRIDE: Table = {
    "path": Field(PATTERN, "models/big.onnx", "the model", required=True),
    "sha256": Field(SHA256, '"' + "0a" * 32 + '"', "of exactly the content that is accepted", required=True),
    "reason": Field(TEXT, '"waits for the new tokenizer"', "why", required=True),
    "until": Field(DATE, "2027-01-31", "the last day on which it is accepted", required=True),
}

HISTORY: Table = {
    "budget": Field(SIZE, "50 MB", "what a branch may add to git, every version of every model counted"),
    "lfs": Field(SIZE, "1 GB", "the same for what it adds to Git LFS"),
    "since": Field(TEXT, "origin/main", "what the branch left, where a run is not told otherwise"),
}

LFS: Table = {
    "missing": Field(
        word(("error", "warning", "fetch")), "fetch", "what to do where content is needed and not here"
    ),
}

POLICY: Table = {
    "version": Field(Kind(_version, {"const": VERSION}), "1", "the version of this format", required=True),
    "unmatched": Field(word(("error", "warning", "ignore")), "error", "what a model is that no rule matches"),
    "policy_changes": Field(
        word(("warning", "error")), "error", "what a pull request is told of that loosens this policy"
    ),
    "new_commands": Field(
        word(("refuse", "run")),
        "refuse",
        "evaluate commands and libraries that a pull request adds or changes",
    ),
    "defaults": Field(table_of(DEFAULTS), "{tolerance: {cosine: 0.999}}", "what every rule starts from"),
    "models": Field(
        list_of(table_of(RULE, lined=True), least=1),
        '[{path: "models/**/*.onnx"}]',
        "the rules",
        required=True,
    ),
    "groups": Field(
        list_of(table_of(GROUP, lined=True)),
        '[{name: app bundle, paths: ["app/*.onnx"], budget: {size: 60 MB}}]',
        "budgets over several models together",
    ),
    "overrides": Field(
        list_of(table_of(OVERRIDE, lined=True)),
        '[{path: models/big.onnx, sha256: "…", reason: "…", until: 2027-01-31}]',
        "broken rules that are accepted for a while",
    ),
    "history": Field(
        table_of(
            HISTORY,
            check=_check_history,
            also={"anyOf": [{"required": ["budget"]}, {"required": ["lfs"]}]},
            lined=True,
        ),
        "{budget: 50 MB}",
        "what a branch may add to the repository for ever",
    ),
    "lfs": Field(table_of(LFS), "{missing: fetch}", "models that are kept in Git LFS or DVC"),
}


def json_schema(methods: Iterable[tuple[str, Mapping[str, object]]]) -> Schema:
    """The schema, given each method's name and the schema of its options."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "onnx-ci policy",
        "description": "What ONNX models may weigh, and how they may be made smaller.",
        **table_schema(POLICY),
        "$defs": {"method": _method(dict(methods))},
    }


def _method(options: Mapping[str, Mapping[str, object]]) -> Schema:
    with_options = {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
        "properties": {name: {"anyOf": [schema, {"type": "null"}]} for name, schema in options.items()},
    }
    return {"anyOf": [{"enum": list(options)}, with_options]}
