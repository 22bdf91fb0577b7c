"""Make an ALBERT in which every use of a shared weight has its own copy, as badly exported ones do."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

REQUIREMENTS = ("torch==2.13.0", "transformers==5.22.2", "onnx==1.23.2")
BASE_V2 = {
    "vocab_size": 30000,
    "embedding_size": 128,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
}
INPUTS = ["input_ids", "attention_mask", "token_type_ids"]
OUTPUTS = ["last_hidden_state", "pooler_output"]


def make(target: Path) -> Path:
    """Export and copy in an environment of its own, for torch is too large a thing to ask of a checkout."""
    from environments import SetupError, environment, run

    python = sys.executable if sys.version_info[:2] == (3, 11) else shutil.which("python3.11")
    if python is None:
        raise SetupError("albert-copies is exported with Python 3.11: put python3.11 on the PATH")
    run([environment("albert", REQUIREMENTS, python), __file__, target])
    return target


def export(target: Path) -> None:
    """Write the model with its weights shared, random but the same each time."""
    import torch  # type: ignore[import-not-found, unused-ignore]
    from transformers import AlbertConfig, AlbertModel  # type: ignore[import-not-found, unused-ignore]

    torch.manual_seed(0)
    model = AlbertModel(AlbertConfig(**BASE_V2)).eval()
    ones = torch.ones(2, 16, dtype=torch.int64)
    axes = {0: "batch", 1: "sequence"}
    torch.onnx.export(
        model,
        (ones, ones, torch.zeros_like(ones)),
        target,
        input_names=INPUTS,
        output_names=OUTPUTS,
        dynamic_axes={**dict.fromkeys(INPUTS, axes), OUTPUTS[0]: axes, OUTPUTS[1]: {0: "batch"}},
        # The newer exporter shares one transposed weight among the layers: no use of a weight to copy.
        dynamo=False,
        opset_version=17,
    )


def unshare(model: onnx.ModelProto) -> None:
    """Give the second and every later use of a weight an initializer of its own."""
    graph = model.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    drop_aliases(graph, weights)
    uses: Counter[str] = Counter()
    for node in graph.node:
        for index, name in enumerate(node.input):
            uses[name] += 1
            if name in weights and uses[name] > 1:
                node.input[index] = f"{name}.{uses[name]}"
                graph.initializer.add().CopyFrom(weights[name])
                graph.initializer[-1].name = node.input[index]


def drop_aliases(graph: onnx.GraphProto, weights: dict[str, onnx.TensorProto]) -> None:
    """Let users of an Identity of a weight name the weight: that is how the exporter shares one."""
    aliases = [node for node in graph.node if node.op_type == "Identity" and node.input[0] in weights]
    named = {node.output[0]: node.input[0] for node in aliases}
    for node in aliases:
        graph.node.remove(node)
    for node in graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = named.get(name, name)


def main(target: Path) -> None:
    import onnx

    export(target)
    model = onnx.load(target)
    unshare(model)
    onnx.checker.check_model(model)
    onnx.save(model, target)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
