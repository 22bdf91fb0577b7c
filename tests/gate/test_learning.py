"""A mix that is refused teaches: the inputs that refuted it are in all trials after it."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from onnx_ci.gate.planner import Search
from onnx_ci.gate.planner_trials import Estimate, Tensor, Trials
from onnx_ci.policy.schema import Tolerance
from onnx_ci.verify.verifier import Refuting

Feeds = dict[str, Any]


class Session:
    """Outputs of a model whose weight `w` shows where the input has a second number only."""

    ran: ClassVar[list[float]] = []

    def __init__(self, feeds: list[Feeds]) -> None:
        self.feeds = feeds

    def glance(self, weights: dict[str, float], _: object) -> tuple[list[dict[str, Any]], list[int]]:
        Session.ran += [float(feed["x"][1]) for feed in self.feeds]
        outputs = [answer(feed, weights.get("w", 0.0)) for feed in self.feeds]
        return outputs, [hash(output["y"].tobytes()) for output in outputs]


def answer(feed: Feeds, error: float) -> dict[str, Any]:
    return {"y": (feed["x"] * np.array([1, 1 + error, 1 - error])).astype(np.float32)}


def reference(*second: float) -> Any:
    feeds = [{"x": np.array([1.0, number, number], np.float32)} for number in second]
    outputs = [answer(feed, 0.0) for feed in feeds]
    meter = SimpleNamespace(timing=lambda _: nullcontext())
    return SimpleNamespace(
        feeds=lambda: feeds,
        outputs=lambda: outputs,
        batched=frozenset(),
        is_made_up=False,
        runner=SimpleNamespace(meter=meter),
    )


def trials_on(known: Any) -> Trials:
    shelf: Any = SimpleNamespace(files=lambda mix, **_: {name: [mix[name] / 10] for name in mix})
    limits = Tolerance(cosine=0.999)
    return Trials(
        shelf=shelf,
        reference=known,
        open_session=lambda feeds: Session(list(feeds)),  # type: ignore[arg-type, return-value]
        own=Refuting(known, (0, 1)),
        inputs={"w": ["w"]},
        tolerance=limits,
        room=1.0,
        most=1000,
        until=float("inf"),
        say=lambda _: None,
    )


def test_what_held_is_tried_on_the_input_that_refuted_it() -> None:
    trials = trials_on(reference(0.0, 0.01))
    assert trials.run({"w": 5}).holds
    assert trials.learn(Refuting(reference(0.0, 3.0), (1,)))
    Session.ran.clear()
    assert not trials.run({"w": 5}).holds
    assert Session.ran[0] == 3.0
    assert trials.run({"w": 0}).holds


def test_nothing_is_learned_twice_and_what_failed_is_not_tried_again() -> None:
    trials, other = trials_on(reference(1.0, 2.0)), reference(0.0, 3.0)
    assert not trials.run({"w": 9}).holds
    assert trials.learn(Refuting(other, (1,)))
    Session.ran.clear()
    assert not trials.run({"w": 9}).holds
    assert Session.ran == []
    assert not trials.learn(Refuting(other, (1,)))
    assert not trials.learn(None)


def test_inputs_that_reach_a_tensor_are_found_among_others() -> None:
    trials, others = trials_on(reference(0.0, 0.0)), reference(0.0, 2.0, 0.0, 3.0, 4.0).feeds()
    trials.shelf.damaged = lambda _: [0.9]  # type: ignore[assignment, list-item]
    assert not trials.shows("w")
    found: list[Any] = trials.reaching(["w"], others)
    assert [float(feed["x"][1]) for feed in found] == [2.0, 3.0]
    assert trials.reaching(["w"], others[:1]) == []


def test_trials_begin_with_the_input_that_shows_most() -> None:
    trials = trials_on(reference(0.0, 3.0, 0.5, 1.0))
    trials.begin({"w": 1})
    Session.ran.clear()
    assert not trials.run({"w": 8}).holds
    assert Session.ran == [3.0]
    assert trials.run({"w": 0}).holds
    assert Session.ran == [3.0, 3.0, 1.0, 0.5, 0.0]


def test_what_the_first_input_does_not_show_is_looked_for_on_the_others() -> None:
    trials = trials_on(reference(0.0, 2.0))
    trials.begin({})
    assert trials.unharmed_holds()
    Session.ran.clear()
    tried = trials.glance({"w": 1})
    assert tried.moved
    assert tried.noise > 0
    assert Session.ran == [0.0, 2.0, 2.0]  # the last without a mix, which nobody had asked for yet
    Session.ran.clear()
    assert trials.glance({"w": 2}).moved
    assert Session.ran == [0.0, 2.0]


def test_a_tensor_that_the_first_inputs_do_not_reach_is_measured_on_all() -> None:
    """As one in a branch that few inputs take; it would pass for harmless."""
    trials = trials_on(reference(0.0, 3.0))
    shelf: Any = trials.shelf
    shelf.tensors = {"w": Tensor("w", [], nbytes=4.0, forms={5: Estimate(nbytes=1.0, error=0.1)})}
    shelf.forms = [SimpleNamespace(variant=True)] * 6
    shelf.tables = {}
    shelf.harm = lambda *_, **__: 0.1
    shelf.damaged = lambda _: [0.9]
    search = Search(trials)
    assert search.unseen == []
    assert search.alone["w"].noise > 1.0


def test_an_input_that_refuses_is_the_first_from_then_on() -> None:
    trials = trials_on(reference(0.0, 0.5, 3.0))
    trials.begin({})
    assert not trials.run({"w": 5}).holds
    Session.ran.clear()
    assert not trials.run({"w": 6}).holds
    assert Session.ran == [3.0]


def test_an_input_that_the_mildest_mix_tips_over_is_left_out() -> None:
    """Unless a proof begins with it: then what does not hold there is no plan."""
    trials = trials_on(reference(0.1, 0.1, 0.1, 3.0))
    trials.begin({"w": 2})
    kept: list[Any] = trials.feeds
    assert [round(float(feed["x"][1]), 3) for feed in kept] == [0.1, 0.1, 0.1]
    Session.ran.clear()
    assert trials.run({"w": 2}).holds
    assert Session.ran == []
    trials = trials_on(reference(3.0, 0.1, 0.1, 0.1))
    trials.begin({"w": 2})
    assert len(trials.feeds) == 4


def test_what_tensors_do_is_measured_again_on_inputs_that_refute_a_mix() -> None:
    trials = trials_on(reference(0.1, 0.1))
    shelf: Any = trials.shelf
    shelf.tensors = {"w": Tensor("w", [], nbytes=4.0, forms={1: Estimate(nbytes=1.0, error=0.1)})}
    shelf.forms = [SimpleNamespace(variant=True)] * 6
    shelf.tables, shelf.nbytes = {}, 4.0
    shelf.harm = lambda *_, **__: 0.1
    refuting = Refuting(reference(0.0, 3.0), (1,))
    search = Search(trials, lambda: refuting)
    before = search.alone["w"].noise
    mixes = search.smallest()
    assert next(mixes) == {"w": 1}
    assert list(mixes) == []
    assert search.alone["w"].noise > 10 * before
