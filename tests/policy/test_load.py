"""What a right policy means: defaults, YAML's traps, and where the file is found."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
import yaml

from onnx_ci.errors import PolicyError
from onnx_ci.policy.fields import PATTERN
from onnx_ci.policy.load import check_policy, find_policy, parse_policy
from onnx_ci.policy.reader import Place, Reading
from onnx_ci.policy.schema import (
    Budget,
    Evaluate,
    Gain,
    Group,
    InputSpec,
    Limits,
    MethodChoice,
    Override,
    Policy,
    Rule,
    Tolerance,
)
from tests.support.good_policies import CONTRACT, HEAD, SHA, Registry, after_rules, in_rule
from tests.support.known import known


def parse(text: str) -> Policy:
    return parse_policy(text, file="p.yaml", methods=Registry())


def rule(*lines: str) -> Rule:
    return parse(in_rule(*lines)).rules[0]


def test_the_contract_is_read_whole() -> None:
    policy = parse(CONTRACT)
    first, second = policy.rules
    assert first == Rule(
        pattern="models/**/*.onnx",
        line=6,
        budget=Budget(
            size=25_000_000,
            gzip=20_000_000,
            brotli=18_000_000,
            zstd=19_000_000,
            growth=0.05,
            params=12_000_000,
            latency=1.1,
        ),
        methods=(
            MethodChoice(name="dedupe"),
            MethodChoice(name="fp16-weights"),
            MethodChoice(name="int8-weights", options={"min_elements": 4096}),
        ),
        shrink="to-budget",
        tolerance=Tolerance(max_abs=0.01, max_rel=0.01, mean_abs=0.001, cosine=0.999, sqnr=30, top1=0.99),
        inputs=InputSpec(
            samples=("tests/data/detector/*.npz",),
            dims={"batch": 1, "sequence": 64},
            ranges={"input_ids": (0, 30521)},
            count=4,
        ),
        evaluate=Evaluate(command="python eval.py {model}", metric="wer", max_increase=0.2),
        minimum_gain=Gain(share=0.01),
    )
    exact = (MethodChoice(name="dedupe"), MethodChoice(name="drop-unused"))
    assert second == Rule(pattern="vendor/**", line=21, ignore=True, methods=exact)
    assert policy.groups == (
        Group(name="app bundle", paths=("app/*.onnx",), budget=Budget(size=60_000_000), line=24),
    )
    assert policy.overrides == (
        Override(
            path="models/big.onnx", sha256=SHA, reason="a day's grace", until=date(2027, 1, 31), line=26
        ),
    )


def test_a_bare_rule_is_the_schema_s_own_default() -> None:
    assert parse(HEAD).rules == (Rule(pattern="m.onnx", line=3),)


DEFAULTS = """\
version: 1
defaults:
  budget: {size: 10 MB, growth: 5%}
  tolerance: {cosine: 0.9, sqnr: 20}
  methods: [fp16-weights]
  inputs: {count: 8, seed: 3, dims: {batch: 2}}
  limits: {seconds: 10, memory: 1 GB}
  evaluate: {command: 'a {model}', metric: b, max_increase: 1}
  minimum_gain: 3%
  severity: warning
  shrink: smallest
models:
  - path: m.onnx
"""


def test_a_rule_starts_from_the_defaults() -> None:
    assert parse(DEFAULTS).rules[0] == Rule(
        pattern="m.onnx",
        line=13,
        budget=Budget(size=10_000_000, growth=0.05),
        tolerance=Tolerance(cosine=0.9, sqnr=20),
        methods=(MethodChoice(name="fp16-weights"),),
        inputs=InputSpec(count=8, seed=3, dims={"batch": 2}),
        limits=Limits(seconds=10, memory=10**9),
        evaluate=Evaluate(command="a {model}", metric="b", max_increase=1),
        minimum_gain=Gain(share=0.03),
        severity="warning",
        shrink="smallest",
    )


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("budget: {size: 1 MB}", {"budget": Budget(size=10**6, growth=0.05)}),
        ("budget: {gzip: 1 MB}", {"budget": Budget(size=10**7, growth=0.05, gzip=10**6)}),
        ("inputs: {dims: {x: 1}}", {"inputs": InputSpec(count=8, seed=3, dims={"x": 1})}),
        ("limits: {seconds: 1}", {"limits": Limits(seconds=1, memory=10**9)}),
        ("tolerance: {max_abs: 1}", {"tolerance": Tolerance(max_abs=1)}),
        ("methods: [dedupe]", {"methods": (MethodChoice(name="dedupe"),)}),
        ("methods: []", {"methods": ()}),
        (
            "evaluate: {command: 'c {model}', metric: d, max_decrease: 2}",
            {"evaluate": Evaluate(command="c {model}", metric="d", max_decrease=2)},
        ),
        ("severity: error", {"severity": "error"}),
        ("ignore: true", {"ignore": True}),
    ],
)
def test_a_rule_merges_or_replaces_a_default(line: str, changed: dict[str, object]) -> None:
    merged = parse(f"{DEFAULTS}    {line}\n").rules[0]
    assert merged == replace(parse(DEFAULTS).rules[0], **changed)  # type: ignore[arg-type]


def test_one_rule_does_not_leak_into_the_next() -> None:
    policy = parse(DEFAULTS + "    budget: {gzip: 1 MB}\n  - path: n.onnx\n")
    assert policy.rules[1].budget == Budget(size=10_000_000, growth=0.05)


def test_yaml_1_1_traps() -> None:
    assert rule("tolerance: {max_abs: 1e-2}").tolerance.max_abs == 0.01
    assert rule("tolerance: {max_abs: 1E5}").tolerance.max_abs == 1e5
    assert rule("tolerance: {max_abs: 1_000.5}").tolerance.max_abs == 1000.5
    assert rule("budget: {params: 12M}").budget.params == 12_000_000
    assert rule("budget: {size: 1_000}").budget.size == 1000
    assert rule("inputs: {count: 010}").inputs.count == 10
    assert rule("inputs: {dims: {on: 1, yes: 2, 3: 4}}").inputs.dims == {"on": 1, "yes": 2, "3": 4}
    assert rule("ignore: yes").ignore is True
    assert rule("ignore: No").ignore is False
    assert rule("ignore: FALSE").ignore is False


@pytest.mark.parametrize(
    "word", ["on", "off", "yes", "n", "1:30", "2027-01-31", "=", "'42'", "'null'", "1.2.3"]
)
def test_words_stay_words(word: str) -> None:
    assert parse(f"version: 1\nmodels: [{{path: {word}}}]\n").rules[0].pattern == word.strip("'")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1e-2", 0.01),
        ("'1e-2'", "1e-2"),
        ("4096", 4096),
        ("1_000", 1000),
        ("0.5", 0.5),
        (".5", 0.5),
        ("-3", -3),
        ("true", True),
        ("'true'", "true"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("1 MB", "1 MB"),
        ("~", None),
        ("[a, 1, on]", ["a", "1", "on"]),
        ("[]", []),
    ],
)
def test_method_options(written: str, value: object) -> None:
    (choice,) = rule(f"methods: [{{int8-weights: {{share: {written}}}}}]").methods
    assert choice.options == {"share": value}
    assert type(choice.options["share"]) is type(value)


def test_an_all_digit_sha_and_upper_case() -> None:
    line = "overrides: [{path: a, sha256: %s, reason: r, until: 2027-01-31}]"
    assert parse(after_rules(line % ("1" * 64))).overrides[0].sha256 == "1" * 64
    assert parse(after_rules(line % SHA.upper())).overrides[0].sha256 == SHA


def test_aliases_and_merge_keys() -> None:
    text = in_rule("budget: &b {size: 1 MB, gzip: 2 MB}") + "  - {path: n, budget: {<<: *b, size: 3 MB}}\n"
    assert parse(text).rules[1].budget == Budget(size=3_000_000, gzip=2_000_000)
    text = in_rule("budget: &b {size: 1 MB}", "limits: &l {seconds: 1}")
    assert parse(text + "  - {path: n, budget: {<<: [*b, {size: 5 MB, gzip: 6 MB}]}}\n").rules[
        1
    ].budget == Budget(size=1_000_000, gzip=6_000_000)


def test_a_policy_is_found_upward(tmp_path: Path) -> None:
    deep = tmp_path / "repo" / "a" / "b"
    deep.mkdir(parents=True)
    repo = tmp_path / "repo"
    (tmp_path / ".onnx-ci.yaml").touch()
    assert find_policy(deep, repo) is None
    assert find_policy(deep, None) == tmp_path / ".onnx-ci.yaml"
    (repo / ".onnx-ci.yml").touch()
    assert find_policy(deep, repo) == repo / ".onnx-ci.yml"
    (repo / ".onnx-ci.yaml").touch()
    assert find_policy(deep, repo) == repo / ".onnx-ci.yaml"
    (repo / "a" / ".onnx-ci.yaml").mkdir()  # a folder is no policy
    assert find_policy(repo / "a", repo) == repo / ".onnx-ci.yaml"


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / ".onnx-ci.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + HEAD.replace("m.onnx", "é.onnx").replace("\n", "\r\n").encode())
    policy = check_policy(file, methods=Registry(), name="shown").policy()
    assert policy.file == "shown"
    assert policy.rules == (Rule(pattern="é.onnx", line=3),)
    assert check_policy(file, methods=Registry()).policy().file == str(file)


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        (HEAD.encode() + b"# caf\xe9\n", 4, "byte 0xe9, expected UTF-8"),
        (HEAD.encode("utf-16"), 1, "expected UTF-8"),
        (b"# " + b"x" * 2**20, 1, "more than 1 MiB"),
        (b"", 1, "an empty file"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, data: bytes, line: int, message: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_bytes(data)
    with pytest.raises(PolicyError, match=f"^named:{line}: .*{message}") as caught:
        check_policy(file, methods=Registry(), name="named")
    assert "for example" in caught.value.hint


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"no\.yaml:1: can't be read: No such file") as caught:
        check_policy(tmp_path / "no.yaml", methods=Registry())
    assert "onnx-ci init" in caught.value.hint
    with pytest.raises(PolicyError, match="can't be read: Is a directory"):
        check_policy(tmp_path, methods=Registry())


def test_the_absolute_path_of_the_policy_s_own_folder_is_refused() -> None:
    def read(pattern: str, folder: str) -> object:
        node = known(yaml.compose(pattern))
        return PATTERN.read(
            Place(Reading("p.yaml", Registry(), folder), node, "path", example="path: m.onnx")
        )

    with pytest.raises(PolicyError, match=r"p\.yaml:1: path: found the absolute '/srv/repo/m"):
        read("/srv/repo/m.onnx", "/srv/repo")
    assert read("/srv/repo/m.onnx", "/srv/other") == "/srv/repo/m.onnx"
    assert read("/m.onnx", "/") == "/m.onnx"


def test_a_file_knows_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnx_ci.policy.fields._ELSEWHERE", ("//",))  # or /tmp itself would be refused
    file = tmp_path / "p.yaml"
    file.write_text(f"version: 1\nmodels:\n  - path: {tmp_path.resolve().as_posix()}/m.onnx\n")
    with pytest.raises(PolicyError, match=":3: path: found the absolute"):
        check_policy(file, methods=Registry())
