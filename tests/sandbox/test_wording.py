"""Messages of onnxruntime, made fit for a report."""

from __future__ import annotations

import time

import pytest

from onnx_ci.util.text import clean


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Invalid input name: z", "Invalid input name: z"),
        ("first\nsecond", "first"),
        ("\n\n  padded \n", "padded"),
        ("Load model from /home/me/secret/model.onnx failed", "Load model from model.onnx failed"),
        ("a\x1b[31mred::error::", "a?[31mred::error::"),
        ("", ""),
    ],
)
def test_clean(message: str, said: str) -> None:
    assert clean(message) == said


def test_signatures_go_and_the_point_stays() -> None:
    text = (
        "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code. Status Message: /onnxruntime_src/"
        "core/framework/op_kernel.h:83 virtual void onnxruntime::Reshape(const Shape&) const Bad shape {2,3}"
    )
    assert clean(text) == "Non-zero status code. Status Message: Bad shape {2,3}"


def test_long_and_hostile_messages_are_cut_quickly() -> None:
    began = time.process_time()
    for text in ("a" * 100_000, "a.h:1 " * 20_000, "/a" * 50_000, "." * 100_000):
        assert len(clean(text)) <= 300
    assert time.process_time() - began < 1
