"""Policies that are right, and methods for them; the loader and the JSON schema are run over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx_ci.errors import OptionError

SHA = "ab" * 32

CONTRACT = f"""\
version: 1
defaults:                          # every rule starts from these
  tolerance: {{cosine: 0.999}}
  methods: [dedupe, drop-unused]
models:                            # gitignore-style globs, relative to the policy file; a later one wins
  - path: "models/**/*.onnx"
    budget: {{size: 25 MB, gzip: 20 MB, brotli: 18 MB, zstd: 19 MB, growth: 5%, params: 12M, latency: 110%}}
    methods: [dedupe, fp16-weights, {{int8-weights: {{min_elements: 4096}}}}]   # mildest first
    shrink: to-budget              # to-budget | smallest | exact-only
    tolerance:
      {{max_abs: 1e-2, max_rel: 1e-2, mean_abs: 1e-3, cosine: 0.999, sqnr: 30, top1: 99%, exact: false}}
    inputs:                        # optional; otherwise inputs are derived from the graph
      samples: ["tests/data/detector/*.npz"]    # also folders of ONNX test_data_set_* .pb files
      dims: {{batch: 1, sequence: 64}}
      ranges: {{input_ids: [0, 30521]}}
      count: 4
      seed: 0
    evaluate: {{command: "python eval.py {{model}}", metric: wer, max_increase: 0.2}}
    minimum_gain: 1%               # smaller savings are left alone
    severity: error                # error | warning
  - path: "vendor/**"
    ignore: true
groups:                            # a budget over several models together
  - {{name: app bundle, paths: ["app/*.onnx"], budget: {{size: 60 MB}}}}
overrides:                         # accepted for exactly this content, until then
  - {{path: models/big.onnx, sha256: "{SHA}", reason: "a day's grace", until: 2027-01-31}}
"""

HEAD = "version: 1\nmodels:\n  - path: m.onnx\n"  # three lines; what follows is inside the rule


def in_rule(*lines: str) -> str:
    """A policy with one rule; the first of `lines` is line 4."""
    return HEAD + "".join(f"    {line}\n" for line in lines)


def after_rules(*lines: str) -> str:
    """A policy with one rule and more at the top level; the first of `lines` is line 4."""
    return HEAD + "".join(f"{line}\n" for line in lines)


class Registry:
    """Five methods, one with an option."""

    options: Mapping[str, Mapping[str, object]] = {
        "dedupe": {},
        "drop-unused": {},
        "freeze-inputs": {},
        "fp16-weights": {},
        "int8-weights": {
            "min_elements": {"type": "integer"},
            "granularity": {"enum": ["channel", "tensor"]},
            "share": {"type": "number"},
            "tensors": {"type": "array"},
            "symmetric": {"type": "boolean"},
        },
    }

    def names(self) -> Sequence[str]:
        return list(self.options)

    def check_options(self, name: str, options: Mapping[str, object]) -> None:
        known = ", ".join(self.options[name])
        for option, value in options.items():
            if option not in self.options[name]:
                message = f"unknown option {option}, did you mean min_elements? known are {known}"
                raise OptionError(option, message)
            if option == "min_elements" and not isinstance(value, int):
                raise OptionError(option, f"min_elements is a whole number, not {value!r}")

    def schemas(self) -> list[tuple[str, dict[str, object]]]:
        return [
            (name, {"type": "object", "properties": dict(known), "additionalProperties": False})
            for name, known in self.options.items()
        ]


GOOD = {
    "contract": CONTRACT,
    "least": "version: 1\nmodels: [{path: '*.onnx'}]\n",
    "document marker": "---\nversion: 1\nmodels: [{path: '*.onnx'}]\n",
    "empty methods": in_rule("methods: []"),
    "plain sizes": in_rule("budget: {size: 25000000, gzip: 1_000_000, brotli: 1.5 MiB, zstd: 25MB}"),
    "plain fractions": in_rule("budget: {growth: 0.05, latency: 1.1}", "minimum_gain: 0"),
    "large growth with %": in_rule("budget: {growth: 200%}"),
    "requirements": in_rule('require: {opset: 17, ir: ">=8", domains: [], operators: {deny: ["x.*"]}}'),
    "gains": in_rule("minimum_gain: 10 kB"),
    "named limits": in_rule("budget: {fits: [pypi], load_seconds: 0.5, load_memory: 1 GiB, growth: none}"),
    "counts": in_rule("budget: {params: 1.5B}"),
    "zero tolerance": in_rule("tolerance: {max_abs: 0}"),
    "exact": in_rule("tolerance: {exact: true}"),
    "lowest cosine": in_rule("tolerance: {cosine: -1}"),
    "empty cache dimension": in_rule("inputs: {dims: {past: 0}}"),
    "one-point range": in_rule("inputs: {ranges: {x: [1, 1]}}"),
    "signed scientific range": in_rule("inputs: {ranges: {x: [-1e3, 1e+3]}}"),
    "runtimes": in_rule('runtimes: ["1.20", "1.23.2"]'),
    "libraries": in_rule("libraries: [ops/libmyops.so, 'a..b.dll']"),
    "limits": in_rule("limits: {seconds: 0.5, memory: 8 GiB}"),
    "method without options": in_rule("methods: [{dedupe: }]"),
    "block method": in_rule("methods:", "  - int8-weights:", "      min_elements: 4096"),
    "anchored": "version: 1\nmodels: [{path: /models/*.onnx}]\n",
    "dots in a name": "version: 1\nmodels: [{path: a..b/...onnx}]\n",
    "alias": in_rule("budget: &b {size: 1 MB}", "tolerance: {cosine: 0.9}")
    + "  - {path: n.onnx, budget: *b}\n",
    "max_decrease": in_rule("evaluate: {command: './score {model}', metric: f1, max_decrease: 1}"),
    "quoted date": after_rules(f"overrides: [{{path: m, sha256: {SHA}, reason: r, until: '2027-01-31'}}]"),
    "no groups": after_rules("groups: []", "overrides: []"),
}
