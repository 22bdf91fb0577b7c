"""Policies that are wrong, each with the line to blame and with words of the message and of the hint."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.support.good_policies import HEAD, SHA


class Bad(NamedTuple):
    """A wrong policy. `editor` is False where a JSON schema can't see what is wrong."""

    text: str
    line: int
    message: str
    hint: str
    editor: bool = True


# the whole text, the line to blame, the message, the hint
WHOLE: list[tuple[Any, ...]] = [
    ("", 1, "an empty file", "version: 1"),
    ("# nothing\n", 1, "an empty file", "version: 1"),
    ("- a\n", 1, "found a list, expected a mapping", "version: 1"),
    ("\nhello\n", 2, "found 'hello', expected a mapping", "version: 1"),
    ("version: 1\n---\nversion: 1\n", 2, "second YAML document", "---", False),
    ("version: 1\nmodels:\n\t- path: a\n", 3, "found a tab, expected spaces", "spaces", False),
    ("version: 1\nmodels: [\n", 3, "not valid YAML", "models:", False),
    ("version: 1\nmodels: 'a\n", 3, "not valid YAML", "models:", False),
    ("version: 1\n# é\na: \x01\n", 3, "control character '\\x01'", "models:", False),
    ("version: 1\nmodels: *x\n", 2, "undefined alias", "models:", False),
    (
        "version: 1\nmodels: !!python/object:os.system [x]\n",
        2,
        "tag '!!python/object:os.system'",
        "path:",
        False,
    ),
    ("version: 1\nmodels: [{path: !mine a}]\n", 2, "tag '!mine'", "path:", False),
    ("version: 1\nmodels: [{path: !!binary aaaa}]\n", 2, "tag '!!binary'", "path:", False),
    ("models:\n  - path: a\n", 1, "found no 'version'", "version: 1"),
    ("version: 2\nnew_key: 1\n", 1, "version: found 2, expected 1", "version: 1"),
    ("new_key: 1\nversion: 2\n", 2, "version: found 2, expected 1", "version: 1"),
    ("version: one\nmodels: []\n", 1, "found 'one'", "version: 1"),
    ("version: '1'\nmodels: [{path: a}]\n", 1, "found '1', expected a whole", "version: 1"),
    ("versoin: 1\nmodels: []\n", 1, "'versoin', did you mean 'version'?", "version: 1"),
    ("version: 1\n\nmodel:\n  - path: a\n", 3, "did you mean 'models'?", "models:"),
    ("version: 1\n", 1, "found no 'models'", "models: [{path:"),
    ("version: 1\nmodels: []\n", 2, "models: found an empty list", "models: [{path:"),
    ("version: 1\nmodels:\n", 2, "models: found nothing, expected a list", "models: [{path:"),
    ("version: 1\nmodels:\n  path: a\n", 3, "found a mapping, expected a list", "models: ["),
    ("version: 1\nmodels:\n  - a.onnx\n", 3, "'a.onnx', expected a mapping", "models: [{path"),
    (HEAD + "defaults:\n  path: a\n", 5, "unknown key 'path'", "known keys"),
    (HEAD + "defaults:\n  ignore: true\n", 5, "unknown key 'ignore'", "known keys"),
    (HEAD + "? [a]\n: b\n", 4, "found a list, expected a key", "version: 1", False),
    (HEAD + "groups: []\ngroups: []\n", 5, "'groups' twice, on lines 4 and 5", "groups:", False),
    ("version: 1\nmodels:\n  - ignore: true\n", 3, "found no 'path'", 'path: "models/**'),
    ("version: 1\nmodels:\n  - path:\n", 3, "path: found nothing, expected text", "path: "),
    ("version: 1\nmodels:\n  - path: ''\n", 3, "path: found '', expected text", "path: "),
    ("version: 1\nmodels:\n  - path: 42\n", 3, "found 42, expected text", 'path: "42"'),
    ("version: 1\nmodels:\n  - path: true\n", 3, "found true, expected text", 'path: "true"'),
    ("version: 1\nmodels:\n  - path: [a]\n", 3, "found a list, expected text", 'path: "models'),
    (
        HEAD + "    severity: error\n    ignore: true\n    severity: error\n",
        6,
        "twice, on lines 4 and 6",
        "severity:",
        False,
    ),
    (HEAD + "    budget:\n      gzip: 1 MB\n      sise: 1 MB\n", 6, "did you mean 'size'?", "size: 25 MB"),
    (HEAD + "    methods:\n      - dedupe\n      - dedup\n", 6, "did you mean 'dedupe'?", "[dedupe]"),
    (
        HEAD + "    methods:\n      - int8-weights:\n          share: 1\n          min_element: 4\n",
        7,
        "int8-weights: unknown option min_element, did you mean min_elements?",
        "{min_elements: 4096}",
    ),
    (
        HEAD + "    methods:\n      - int8-weights:\n          share: 1\n          share: 2\n",
        7,
        "'share' twice, on lines 6 and 7",
        "share:",
        False,
    ),
    (
        HEAD + "groups:\n" + "  - {name: a, paths: [b], budget: {size: 1 kB}}\n" * 2,
        6,
        "name 'a' twice, on lines 5 and 6",
        "name: app bundle",
        False,
    ),
]

# the pattern of a rule
PATHS: list[tuple[Any, ...]] = [
    ("'C:/m.onnx'", "absolute 'C:/m", 'path: "models'),
    ("/home/me/m.onnx", "absolute '/home", "path: ", False),
    ("a/../b.onnx", "`..`", 'path: "models'),
    ("..", "`..`", 'path: "models'),
    ("a//b", "empty or `.` part", "path: ", False),
    ("'!a'", "can't be negated", "path: ", False),
    ("'a[b'", "never closed", "path: ", False),
    ("'[[:alpha:]]'", "write [a-zA-Z]", "path: ", False),
    ("'a\\'", "lone", "path: ", False),
    ("'models\\det.onnx'", "separated by `/`", "path: ", False),
]

# one line inside a rule
IN_RULE: list[tuple[Any, ...]] = [
    ("bugdet: {size: 1 MB}", "'bugdet', did you mean 'budget'?", "budget: {size"),
    ("zzz: 1", "unknown key 'zzz', expected one of: path", "known keys: path"),
    ("ignore: maybe", "found 'maybe', expected true or false", "ignore: true"),
    ("ignore: !!bool maybe", "found maybe, expected true or false", "ignore: true", False),
    ("ignore: !!bool [x]", "found a list, expected true or false", "ignore: true", False),
    ("inputs: {count: !!int +-5}", "found +-5, expected a whole", "count: 4", False),
    ("ignore: 'true'", "found 'true', expected true or false", "ignore: true"),
    ("shrink: to-bugdet", "did you mean 'to-budget'?", "shrink: to-budget"),
    ("severity: warn", "found 'warn', did you mean 'warning'?", "severity: error"),
    ("severity: off", "found off, expected one of: error", "severity: error"),
    ("runtimes: '1.20'", "found '1.20', expected a list", 'runtimes: ["1.20"'),
    ("runtimes: [1.20]", "found 1.20, expected a version as 1.20 or 1.23.2, in quotes", 'runtimes: ["1.20"'),
    ("runtimes: [newest]", "found 'newest', expected a version as 1.20", 'runtimes: ["1.20"'),
    ("runtimes: ['1']", "found '1', expected a version as 1.20", 'runtimes: ["1.20"'),
    ("runtimes: ['1.20 --index-url x']", "expected a version", 'runtimes: ["1.20"'),
    ("libraries: ops.so", "found 'ops.so', expected a list", 'libraries: ["ops'),
    ("libraries: [/usr/lib/ops.so]", "absolute '/usr/lib/ops.so'", 'libraries: ["ops'),
    ("libraries: ['C:/ops.dll']", "absolute 'C:/ops.dll'", 'libraries: ["ops'),
    ("libraries: [ops/../../ops.so]", "no `..`", 'libraries: ["ops'),
    ("libraries: [~/ops.so]", "absolute '~/ops.so'", 'libraries: ["ops'),
    ("minimum_gain: 101%", "up to 100%", "minimum_gain: {share: 1%", False),
    ("minimum_gain: {}", "neither share nor size", "minimum_gain: {share: 1%"),
    ("minimum_gain: 5", "did you mean 5%?", "minimum_gain: {share: 1%"),
    ("budget: 25 MB", "found '25 MB', expected a mapping", "budget: {size: 25 MB"),
    ("budget: {size: 25 MX}", "unit 'MX', did you mean 'MB'?", "size: 25 MB"),
    ("budget: {zstd: 25M}", "unit 'M', did you mean 'MB'?", "zstd: 19 MB"),
    ("budget: {size: 25}", "did you mean 25 MB? For bytes, write 25 B", "size: 25 MB"),
    ("budget: {fits: [pipy]}", "did you mean 'pypi'?", "fits: [pypi"),
    ("budget: {size: lots}", "'lots' is not a size", "size: 25 MB"),
    ("budget: {size: }", "size: found nothing, expected a size", "size: 25 MB"),
    ("budget: {size: [1]}", "found a list, expected a size", "size: 25 MB"),
    ("budget: {size: 0}", "expected a size above zero", "size: 25 MB"),
    ("budget: {size: -5 MB}", "'-5 MB' is not a size", "size: 25 MB"),
    ("budget: {size: .nan}", "'.nan' is not a size", "size: 25 MB"),
    ("budget: {size: '1:30'}", "'1:30' is not a size", "size: 25 MB"),
    ("budget: {size: 0.5}", "not a whole number", "size: 25 MB"),
    ("budget: {size: 99999999999 TB}", "too large", "size: 25 MB", False),
    ("budget: {growth: -5%}", "'-5%' is not a percentage", "growth: 5%"),
    ("budget: {growth: some}", "'some' is not a percentage", "growth: 5%"),
    ("budget: {growth: 5}", "did you mean 5%?", "growth: 5%"),
    ("budget: {latency: 110}", "did you mean 110%?", "latency: 110%"),
    ("budget: {latency: 0}", "above 0%", "latency: 110%"),
    ("budget: {params: 12 millions}", "did you mean 'M'?", "params: 12M"),
    ("budget: {params: 0}", "expected a count above zero", "params: 12M"),
    ("methods: dedupe", "found 'dedupe', expected a list", "methods: [dedupe"),
    ("methods: [fp16_weights]", "did you mean 'fp16-weights'?", "[fp16-weights]"),
    ("methods: [int8]", "did you mean 'int8-weights'?", "[int8-weights]"),
    ("methods: [zzz]", "'zzz', expected one of: dedupe, drop", "[dedupe]"),
    ("methods: [dedupe, ~]", "nothing, expected the name", "methods: [dedupe"),
    ("methods: [[dedupe]]", "found a list, expected the name", "methods: [dedupe"),
    ("methods: [{dedupe: , drop-unused: }]", "expected one method", "[dedupe, {"),
    ("methods: [{}]", "found nothing in one entry", "[dedupe, {"),
    ("methods: [{dedupe: yes}]", "expected a mapping of options", "methods: [ded"),
    ("methods: [{int8-weights: {min_elements: many}}]", "a whole number, not 'many'", "min_elements: 4096"),
    ("methods: [{int8-weights: {granularity: {a: b}}}]", "granularity: found a mapping", "methods: ["),
    ("tolerance: {}", "every output would pass", "tolerance: {cosine"),
    ("tolerance: {exact: false}", "every output", "tolerance: {", False),
    ("tolerance: {cosin: 1}", "did you mean 'cosine'?", "cosine: 0.999"),
    ("tolerance: {cosine: 1.1}", "found 1.1, expected a number from -1 up to 1", "cosine: 0.999"),
    ("tolerance: {cosine: -1.1}", "found -1.1", "cosine: 0.999"),
    ("tolerance: {cosine: .nan}", "found .nan, expected a number", "cosine: 0.999", False),
    ("tolerance: {cosine: high}", "found 'high', expected a number", "cosine: 0.999"),
    ("tolerance: {cosine: '0.9'}", "found '0.9', expected a number", "cosine: 0.999"),
    ("tolerance: {max_abs: .inf}", "found .inf", "max_abs: 1e-2", False),
    ("tolerance: {max_abs: -1e-2}", "'-1e-2', expected a number from 0", "1e-2", False),
    ("tolerance: {max_abs: 1e999}", "found '1e999'", "1e-2", False),
    ("tolerance: {max_abs: 1%}", "found '1%'", "max_abs: 1e-2"),
    ("tolerance: {top1: 101%}", "up to 100%", "top1: 99%", False),
    ("tolerance: {top1: 99}", "did you mean 99%?", "top1: 99%"),
    ("tolerance: {exact: 1}", "found 1, expected true or false", "exact: true"),
    ("inputs: {samples: a.npz}", "found 'a.npz', expected a list", "samples: ["),
    ("inputs: {samples: [1]}", "found 1, expected text", 'samples: "1"'),
    ("inputs: {dims: [1]}", "found a list, expected a mapping", "dims: {batch"),
    ("inputs: {dims: {b: -1}}", "b: found -1, expected a whole", "dims: {batch"),
    ("inputs: {dims: {b: 1:30}}", "b: found 1:30, expected a whole", "dims:", False),
    ("inputs: {dims: {b: 1.5}}", "found 1.5, expected a whole", "dims: {batch"),
    ("inputs: {count: 0}", "found 0, expected a whole number, at least 1", "count: 4"),
    ("inputs: {count: 1000000000000000000000000000000}", "expected a whole number", "count: 4"),
    ("inputs: {count: 0x10}", "found 0x10, expected a whole", "count: 4", False),
    ("inputs: {ranges: {x: [2, 1]}}", "x: found [2, 1]", "ranges: {", False),
    ("inputs: {ranges: {x: [1, 2, 3]}}", "found 3 entries", "ranges: {input_ids"),
    ("inputs: {ranges: {x: 5}}", "found 5, expected a list of two", "ranges: {in"),
    ("inputs: {ranges: {x: [a, b]}}", "found 'a', expected a number", "ranges: {in"),
    ("evaluate: {metric: a, max_increase: 1}", "no 'command'", "command: "),
    ("evaluate: {command: 'a {model}', metric: b}", "max_increase or", "evaluate: {com"),
    ("evaluate: {command: a, metric: b, max_increase: 1}", "where the model goes: {model}", "command: "),
    ("evaluate: {command: 'a {model}', metric: b, max_increase: 1%}", "found '1%'", "max_increase: 0.2"),
    ("limits: {seconds: 0}", "a number above 0", "seconds: 300"),
    ("limits: {second: 1}", "did you mean 'seconds'?", "seconds: 300"),
]

# one line at the top level
AT_TOP: list[tuple[Any, ...]] = [
    ("defaults:", "defaults: found nothing", "defaults: {"),
    ("groups: [{paths: [a], budget: {size: 1 kB}}]", "no 'name'", "name: app"),
    ("groups: [{name: a, budget: {size: 1 kB}}]", "no 'paths'", "paths: ["),
    ("groups: [{name: a, paths: [], budget: {size: 1 kB}}]", "paths: found an empty list", "paths: ["),
    ("groups: [{name: a, paths: [b], budget: {}}]", "no limit", "{size: 60 MB}"),
    ("groups: [{name: a, paths: [b], budget: {latency: 110%}}]", "unknown key 'latency'", "size: 25"),
    ("overrides: [{path: a, sha256: abc, reason: r, until: 2027-01-31}]", "64 hex", "sha256: "),
    (
        f"overrides: [{{path: a, sha256: {'xy' * 32}, reason: r, until: 2027-01-31}}]",
        "64 hex",
        "sha256",
    ),
    (
        f"overrides: [{{path: a, sha256: {SHA}, reason: r, until: 2027-02-30}}]",
        "found '2027-02-30', expected a day that exists",
        "until: 2027-01-31",
        False,
    ),
    (f"overrides: [{{path: a, sha256: {SHA}, reason: r, until: next week}}]", "a day", "until: 2027"),
    (f"overrides: [{{path: a, sha256: {SHA}, reason: r, until: 2027-W01-1}}]", "a day", "until: 2027"),
    (f"overrides: [{{path: a, sha256: {SHA}, until: 2027-01-31}}]", "no 'reason'", "reason: "),
    (f"overrides: [{{path: a, sha256: {SHA}, reason: ' ', until: 2027-01-31}}]", "expected text", "reason: "),
]

BAD: dict[str, Bad] = {
    **{case[0]: Bad(*case) for case in WHOLE},
    **{
        f"path: {path}": Bad(f"version: 1\nmodels: [{{path: {path}}}]\n", 2, *words) for path, *words in PATHS
    },
    **{line: Bad(f"{HEAD}    {line}\n", 4, *words) for line, *words in IN_RULE},
    **{line: Bad(f"{HEAD}{line}\n", 4, *words) for line, *words in AT_TOP},
}
