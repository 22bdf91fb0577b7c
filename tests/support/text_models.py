"""Tiny models for the verification tests, built from ONNX text."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import parser

HEAD = '<ir_version: 8, opset_import: ["": 17]>\n'
LINEAR = (
    "g (float[N,4] x) => (float[N,3] y) <float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}> { y = MatMul(x, w) }"
)
LOOP = """g (float[2] x) => (float[2] y) <int64 n = {4611686018427387904}, bool go = {1}> {
    y = Loop (n, go, x) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] s) {
        d = Identity(c)
        s = Add(a, a) } > }"""


def model(text: str, head: str = HEAD) -> onnx.ModelProto:
    return parser.parse_model(head + text)


def save(proto: onnx.ModelProto, path: Path) -> Path:
    path.write_bytes(proto.SerializeToString())
    return path
