"""A receipt is somebody's word: what it says is held against the original it names, in real repositories."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from onnx_ci.gate.lineage import fingerprint
from onnx_ci.gate.project import open_context
from onnx_ci.model.load import open_model
from onnx_ci.model.receipt import Receipt, attach_receipt, model_digest
from onnx_ci.policy.load import rule_for
from tests.support.cli import Done, onnx_ci
from tests.support.git_repo import Repository, write_policy
from tests.support.models import bloated, lean

pytestmark = pytest.mark.sampled(24)

INT8 = "    methods: [int8-weights]\n"
FP16 = "    methods: [fp16-weights]\n"
DEDUPE = "    methods: [dedupe]\n"


def forge(path: Path, original: bytes, rule: str = "another rule", *, lossy: bool = True) -> None:
    """Give a model a receipt that names any content as what it was made from."""
    with open_model(path) as model:
        digest = model_digest(model)
    proto = onnx.load(path)
    receipt = Receipt(
        tool="0.1.0",
        policy=rule,
        source_sha256=hashlib.sha256(original).hexdigest(),
        source_size=len(original),
        methods=[{"name": "int8-weights" if lossy else "dedupe"}],
        lossy=lossy,
        verified=True,
        digest=digest,
    )
    attach_receipt(proto, receipt)
    onnx.save(proto, path)


def current(folder: Path) -> str:
    """How a receipt names the rule that holds in a folder."""
    rule = rule_for(open_context(None, folder).policy, "b.onnx")
    assert rule is not None
    return fingerprint(rule)


def outputs(path: Path | bytes) -> np.ndarray:
    session = onnxruntime.InferenceSession(path if isinstance(path, bytes) else str(path))
    value = np.random.default_rng(0).standard_normal((4, session.get_inputs()[0].shape[1]))
    return np.asarray(session.run(None, {"x": value.astype(np.float32)})[0]).ravel()


def cosine(one: np.ndarray, two: np.ndarray) -> float:
    return float(one @ two / np.linalg.norm(one) / np.linalg.norm(two))


def only(done: Done) -> dict[str, Any]:
    model: dict[str, Any]
    (model,) = done.json["models"]
    del model["seconds"]  # what this run took
    return model


def codes(done: Done) -> dict[str, str]:
    return {finding["code"]: finding["severity"] for finding in only(done)["findings"]}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Two models of one interface and one of another are committed, with a rule that rounds."""
    made = Repository(tmp_path)
    write_policy(tmp_path, INT8)
    onnx.save(lean(), tmp_path / "a.onnx")
    onnx.save(lean(seed=1), tmp_path / "b.onnx")
    onnx.save(lean(width=32), tmp_path / "c.onnx")
    made.commit_all("models")
    return made


@pytest.mark.parametrize("named", ["a.onnx", "c.onnx"], ids=["same interface", "another interface"])
@pytest.mark.parametrize("rule", ["another", "current"])
def test_a_forged_receipt_does_not_replace_a_model_by_another(
    repository: Repository, named: str, rule: str
) -> None:
    here, model = repository.root, repository.root / "b.onnx"
    forge(model, (here / named).read_bytes(), current(here) if rule == "current" else rule)
    was = outputs(model)
    checked = onnx_ci("check", "b.onnx", "--format", "json", cwd=here)
    assert (checked.code, only(checked)["verdict"]) == (1, "would_shrink"), checked.out
    assert codes(checked) == {"OCI049": "warning", "OCI003": "error", "OCI055": "note"}
    fixed = onnx_ci("fix", "b.onnx", "--format", "json", cwd=here)
    assert (fixed.code, only(fixed)["verdict"]) == (0, "shrunk"), fixed.out
    assert cosine(outputs(model), was) > 0.999
    again = onnx_ci("check", "b.onnx", "--format", "json", cwd=here)
    assert (again.code, only(again)["verdict"], codes(again)) == (0, "ok", {})
    assert only(again)["original"]["verified"] is True


def test_the_new_source_is_named_in_words(repository: Repository) -> None:
    forge(repository.root / "b.onnx", (repository.root / "a.onnx").read_bytes())
    said = onnx_ci("check", "b.onnx", cwd=repository.root).out
    assert "warning OCI049 b.onnx: is not what its receipt says it was made from" in said
    assert "new source" in said


def test_a_receipt_that_is_current_is_verified_where_the_model_changed(repository: Repository) -> None:
    """After an honest fix the original is in git: it is run against that, and the report says so."""
    here = repository.root
    assert onnx_ci("fix", "a.onnx", cwd=here).code == 0
    checked = onnx_ci("check", "a.onnx", "--format", "json", cwd=here)
    assert (checked.code, only(checked)["verdict"], codes(checked)) == (0, "ok", {})
    assert only(checked)["verification"]["status"] == "passed"
    assert only(checked)["original"]["verified"] is True
    assert only(checked)["original"]["place"] == "history"
    assert (
        "a.onnx: verified against its original, which is in git history"
        in onnx_ci("check", "a.onnx", cwd=here).out
    )
    repository.commit_all("shrunk")
    unchanged = onnx_ci("check", "a.onnx", "--format", "json", cwd=here)
    assert only(unchanged)["verification"]["status"] == "not_run", "it did not change: nothing is run"
    since = onnx_ci("check", "--since", "HEAD~1", "--format", "json", cwd=here)
    assert only(since)["original"]["verified"] is True


def test_the_second_time_it_is_known(repository: Repository, own_cache: Path) -> None:
    here = repository.root
    onnx_ci("fix", "a.onnx", cwd=here)
    first = onnx_ci("check", "a.onnx", "--format", "json", cwd=here)
    kept = sorted((own_cache / "outcomes").iterdir())
    again = onnx_ci("check", "a.onnx", "--format", "json", cwd=here)
    assert only(again) == only(first)
    assert sorted((own_cache / "outcomes").iterdir()) == kept


def test_without_its_original_a_rounded_model_has_its_receipts_word_alone(tmp_path: Path) -> None:
    """A hook fixed it elsewhere: this clone never had the original."""
    repository = Repository(tmp_path / "here")
    here = repository.root
    write_policy(here, INT8)
    repository.commit_all("policy")
    model = elsewhere(tmp_path / "there", INT8, lean())
    (here / "m.onnx").write_bytes(model)
    done = onnx_ci("check", "--format", "json", cwd=here, env={"ONNX_CI_ORIGINALS": str(tmp_path / "none")})
    assert (done.code, only(done)["verdict"], codes(done)) == (0, "ok", {"OCI050": "warning"})
    assert only(done)["original"]["verified"] is False
    assert only(done)["original"]["place"] == ""
    assert "by its receipt's word alone" in done.out


def test_without_its_original_an_exact_model_is_judged_as_any_other(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "here")
    here = repository.root
    write_policy(here, DEDUPE)
    repository.commit_all("policy")
    (here / "m.onnx").write_bytes(elsewhere(tmp_path / "there", DEDUPE, bloated()))
    done = onnx_ci("check", "--format", "json", cwd=here)
    assert (done.code, only(done)["verdict"], codes(done)) == (0, "ok", {})
    assert (
        "m.onnx: its original was not found, so it was judged as a model of its own"
        in onnx_ci("check", cwd=here).out
    )
    onnx.save(bloated(), here / "m.onnx")
    forge(here / "m.onnx", b"no such thing", current(here), lossy=False)
    forged = onnx_ci("check", "--format", "json", cwd=here)
    assert (forged.code, only(forged)["verdict"]) == (1, "would_shrink")


def elsewhere(folder: Path, rule: str, model: onnx.ModelProto) -> bytes:
    """What a rule makes of a model in another place."""
    write_policy(folder, rule)
    onnx.save(model, folder / "m.onnx")
    env = {"ONNX_CI_ORIGINALS": str(folder / "originals")}
    assert onnx_ci("fix", cwd=folder, env=env).code == 0
    return (folder / "m.onnx").read_bytes()


def test_a_model_that_is_staged_is_verified_too(repository: Repository) -> None:
    here = repository.root
    onnx_ci("fix", "a.onnx", cwd=here)
    repository.git("add", "a.onnx")
    staged = onnx_ci("check", "--staged", "--format", "json", cwd=here)
    assert only(staged)["original"]["verified"] is True


def test_new_samples_that_it_does_not_hold_are_an_error(repository: Repository) -> None:
    """The receipt is of this rule, and inputs are no part of what it names: what it says is old."""
    here = repository.root
    write_policy(here, INT8 + "    tolerance: {cosine: 0.99, top1: 99.5%}\n    shrink: smallest\n")
    assert onnx_ci("fix", "a.onnx", cwd=here).code == 0
    assert codes(onnx_ci("check", "a.onnx", "--format", "json", cwd=here)) == {}
    np.savez(here / "s.npz", x=np.random.default_rng(1).standard_normal((2000, 64)).astype(np.float32))
    (here / ".onnx-ci.yaml").write_text(
        (here / ".onnx-ci.yaml").read_text() + "    inputs: {samples: [s.npz]}\n"
    )
    done = onnx_ci("check", "a.onnx", "--format", "json", cwd=here)
    assert (done.code, only(done)["verdict"]) == (1, "outputs_changed"), done.out
    assert codes(done) == {"OCI004": "error"}
    assert "against its original" in done.out


def test_samples_that_come_later_count_for_a_model_that_did_not_change(repository: Repository) -> None:
    here = repository.root
    rule = INT8 + "    tolerance: {cosine: 0.99, top1: 99.5%}\n    shrink: smallest\n"
    write_policy(here, rule)
    assert onnx_ci("fix", "a.onnx", cwd=here).code == 0
    repository.commit_all("shrunk")
    assert onnx_ci("check", "a.onnx", cwd=here).code == 0
    np.savez(here / "s.npz", x=np.random.default_rng(1).standard_normal((2000, 64)).astype(np.float32))
    write_policy(here, rule + "    inputs: {samples: [s.npz]}\n")
    repository.commit_all("samples")
    done = onnx_ci("check", "a.onnx", "--format", "json", cwd=here)
    assert (done.code, only(done)["verdict"]) == (1, "outputs_changed"), done.out
    assert codes(done) == {"OCI004": "error"}


def test_what_is_outside_its_tolerance_is_no_new_source(repository: Repository) -> None:
    """A bad form of the original is still one: only another model is a source of its own."""
    here, model = repository.root, repository.root / "a.onnx"
    original = model.read_bytes()
    proto = onnx.load(model)
    noisy = numpy_helper.to_array(proto.graph.initializer[0]).copy()
    noisy += 0.3 * noisy.std() * np.random.default_rng(2).standard_normal(noisy.shape).astype(noisy.dtype)
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(noisy, proto.graph.initializer[0].name))
    onnx.save(proto, model)
    forge(model, original, current(here))
    done = onnx_ci("check", "a.onnx", "--format", "json", cwd=here)
    assert (done.code, only(done)["verdict"]) == (1, "outputs_changed"), done.out
    assert codes(done)["OCI004"] == "error"
    assert "OCI049" not in codes(done)


@pytest.mark.parametrize("rule", [INT8, FP16], ids=["the same rule", "another rule"])
def test_what_was_never_verified_does_not_pass_without_its_original(tmp_path: Path, rule: str) -> None:
    repository = Repository(tmp_path / "here")
    here = repository.root
    write_policy(here, rule)
    repository.commit_all("policy")
    onnx.save(lean(), tmp_path / "m.onnx")
    target = here / "m.onnx"
    done = onnx_ci(
        "shrink", tmp_path / "m.onnx", target, "--methods", "int8-weights", "--no-verify", cwd=tmp_path
    )
    assert done.code == 0
    checked = onnx_ci(
        "check", "--format", "json", cwd=here, env={"ONNX_CI_ORIGINALS": str(tmp_path / "none")}
    )
    assert (checked.code, only(checked)["verdict"]) == (1, "unfit"), checked.out
    assert codes(checked)["OCI050"] == "error"
    assert "never verified" in checked.out


def test_latency_is_measured_all_the_same(repository: Repository) -> None:
    here = repository.root
    write_policy(here, INT8 + "    budget: {latency: 100000%}\n    shrink: smallest\n")
    onnx_ci("fix", "a.onnx", cwd=here)
    assert only(onnx_ci("check", "a.onnx", "--format", "json", cwd=here))["latency"]["ratio"] > 0


@pytest.mark.parametrize(("factor", "verdict"), [(2.0, "outputs_changed"), (1.0, "ok")])
def test_a_shrunk_model_that_was_edited_is_run_against_its_original(
    repository: Repository, factor: float, verdict: str
) -> None:
    path = repository.root / "a.onnx"
    assert onnx_ci("fix", "a.onnx", cwd=repository.root).code == 0
    model = onnx.load(path)
    scale = next(t for t in model.graph.initializer if t.name.endswith(".scale"))
    scale.CopyFrom(numpy_helper.from_array(factor * numpy_helper.to_array(scale), scale.name))
    model.doc_string = "edited"
    onnx.save(model, path)
    done = onnx_ci("check", "a.onnx", "--format", "json", cwd=repository.root)
    assert (done.code, only(done)["verdict"]) == (int(verdict != "ok"), verdict), done.out
    if verdict == "ok":
        assert codes(done)["OCI019"] == "warning"
    else:
        assert "it was changed after onnx-ci shrank it; against its original" in done.out
        assert "onnx-ci restore --original a.onnx original.onnx" in done.out
