"""Children that are kept: used again after an answer, replaced after a death, gone in the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from onnx_ci.sandbox.process import Died, Pool

MEMORY = 1 << 30


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool("tests.support.odd_child")
    yield made
    made.close()


def ask(pool: Pool, do: str = "answer", **more: Any) -> dict[str, Any]:
    return pool.ask({"do": do}, **{"memory": MEMORY, "seconds": 30.0, **more})


def test_a_child_is_used_again(pool: Pool) -> None:
    assert ask(pool)["pid"] == ask(pool)["pid"] != os.getpid()


def test_a_child_is_not_used_again_after_a_large_model_or_for_another_limit(pool: Pool) -> None:
    first = ask(pool, last=True)["pid"]
    second = ask(pool)["pid"]
    third = ask(pool, memory=2 * MEMORY)["pid"]
    assert len({first, second, third}) == 3


def test_threads_do_not_share_one(pool: Pool) -> None:
    with ThreadPoolExecutor(2) as threads:
        deaths = threads.submit(ask, pool, "hang", seconds=2.0)
        answers = [threads.submit(ask, pool).result() for _ in range(3)]
        with pytest.raises(Died):
            deaths.result()
    assert len(answers) == 3


@pytest.mark.parametrize(
    ("do", "kind", "words"),
    [
        ("crash", "crash", "it crashed (SIGSEGV)"),
        ("hang", "timeout", "it did not finish within 2 s"),
        ("memory", "memory", "it needs more memory than the limit allows"),
        ("raise", "crash", "it crashed (exit code 1): LookupError: no such thing"),
    ],
)
def test_a_death_is_told_and_the_next_request_is_answered(pool: Pool, do: str, kind: str, words: str) -> None:
    ask(pool)
    with pytest.raises(Died) as death:
        ask(pool, do, seconds=2.0 if do == "hang" else 30.0)
    assert (death.value.kind, death.value.said("it")) == (kind, words)
    assert ask(pool)


def test_sets_have_the_same_order_in_every_child(pool: Pool) -> None:
    orders = [ask(pool, last=True)["order"] for _ in range(4)]
    assert all(order == orders[0] for order in orders)


def test_closing_ends_them(pool: Pool) -> None:
    pid = ask(pool)["pid"]
    pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
