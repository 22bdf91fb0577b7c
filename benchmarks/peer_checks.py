"""The peers' own comparisons of two models, run by the Python that has them: a line a question.

Each is called as its documentation says, with the sizes that its users would have to give.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence

Shapes = Mapping[str, Sequence[int]]


def onnxsim(original: str, changed: str, shapes: Shapes) -> bool:
    """`onnxsim IN OUT 3 --test-input-shape …`: three random inputs."""
    import onnx
    from onnxsim import model_checking

    given = {name: list(shape) for name, shape in shapes.items()}
    same: bool = model_checking.compare(onnx.load(changed), original, 3, given, verbose=False)
    return same


def onnxslim(original: str, changed: str, shapes: Shapes) -> bool:
    """`onnxslim IN OUT --model-check --model-check-inputs …`: one random input."""
    import onnx
    from onnxslim import utils

    given = [f"{name}:{','.join(map(str, shape))}" for name, shape in shapes.items() if shape]
    feeds, before, _ = utils.check_onnx(onnx.load(original), given)
    after, _ = utils.onnxruntime_inference(onnx.load(changed), feeds)
    same: bool = utils.check_result(before, after)
    return same


def polygraphy(original: str, changed: str, shapes: Shapes) -> bool:
    """`polygraphy run` of both with --onnxrt, one on the inputs of the other: one random input."""
    from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
    from polygraphy.common import TensorMetadata
    from polygraphy.comparator import Comparator, DataLoader

    given = TensorMetadata()
    for name, shape in shapes.items():
        given.add(name, dtype=None, shape=tuple(shape))
    runners = [OnnxrtRunner(SessionFromOnnx(path), name=path) for path in (original, changed)]
    results = Comparator.run(runners, data_loader=DataLoader(input_metadata=given))
    return bool(Comparator.compare_accuracy(results))


CHECKS: dict[str, Callable[[str, str, Shapes], bool]] = {
    "onnxsim": onnxsim,
    "onnxslim": onnxslim,
    "polygraphy": polygraphy,
}


def answer(question: Mapping[str, object]) -> dict[str, str]:
    check = CHECKS[str(question["checker"])]
    try:
        same = check(str(question["original"]), str(question["changed"]), question["shapes"])  # type: ignore[arg-type]
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it raises, its user has no verdict
        words = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        return {"verdict": "unverified", "reason": words}
    return {"verdict": "pass" if same else "fail", "reason": ""}


def main() -> None:
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):  # the peers print as they go
        for line in sys.stdin:
            answers.write(json.dumps(answer(json.loads(line))) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
