"""Small stored values gone wrong: biases, scalars, masks, limits, and the sign of zero."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, TensorProto

from damages.base import (
    FLOATS,
    Damage,
    Place,
    elements,
    reads,
    scalars,
    store,
    values,
)
from onnx_ci.model.graph import tensors

MASKING = 1e3  # larger than what weights are: hides what is added to it


def _biases(model: ModelProto) -> list[TensorProto]:
    found = [tensor for _, tensor in reads(model, ["Conv", "ConvTranspose", "Gemm"], 2)]
    for side in (0, 1):
        found += [tensor for _, tensor in reads(model, ["Add"], side)]
    found += [tensor for _, tensor in reads(model, ["LSTM", "GRU"], 3)]
    return [tensor for tensor in found if tensor.data_type in FLOATS and elements(tensor) > 1]


def dropped_bias(model: ModelProto, place: Place) -> bool:
    bias = place.pick(_biases(model), elements)
    return bias is not None and store(bias, np.zeros(tuple(bias.dims)))


def bias_of_another(model: ModelProto, place: Place) -> bool:
    biases = _biases(model)
    first = place.pick(biases, elements)
    if first is None:
        return False
    others = [bias for bias in biases if bias is not first and list(bias.dims) == list(first.dims)]
    return bool(others) and store(first, values(others[int(place.rng.integers(len(others)))]))


def wrong_scalar(model: ModelProto, place: Place) -> bool:
    chosen = place.pick([one for one in scalars(model, FLOATS) if np.isfinite(values(one)).all()])
    return chosen is not None and store(chosen, values(chosen) * 1.5 + 0.25)


def wrong_integer(model: ModelProto, place: Place) -> bool:
    """An axis, a size or an index off by one: most models then do not run at all."""
    chosen = place.pick(scalars(model, (TensorProto.INT64, TensorProto.INT32)))
    return chosen is not None and store(chosen, values(chosen) + 1)


def epsilon_scalar(model: ModelProto, place: Place) -> bool:
    """What is added before a root or a division, so that nothing is divided by zero."""
    tiny = [one for one in scalars(model, FLOATS) if 0 < abs(float(values(one).reshape(-1)[0])) < 1e-4]
    chosen = place.pick(tiny)
    return chosen is not None and store(chosen, values(chosen) * 1e4)


def mask_lost(model: ModelProto, place: Place) -> bool:
    found = [
        one
        for one in tensors(model)
        if one.data_type in FLOATS and elements(one) and float(values(one).min()) < -MASKING
    ]
    chosen = place.pick(found, elements)
    return chosen is not None and store(chosen, np.maximum(values(chosen), -1))


def positive_zeros(model: ModelProto, _: Place) -> bool:
    """Every -0.0 merged with 0.0: a division by it has the other sign."""
    found = [one for one in tensors(model) if one.data_type in FLOATS and elements(one)]
    changed = [one for one in found if store(one, values(one) + 0.0)]
    return bool(changed)


SMALL = (
    Damage(name="dropped bias", strike=dropped_bias),
    Damage(name="bias of another layer", strike=bias_of_another),
    Damage(name="wrong scalar", strike=wrong_scalar),
    Damage(name="integer off by one", strike=wrong_integer),
    Damage(name="stored epsilon", strike=epsilon_scalar),
    Damage(name="mask lost", strike=mask_lost),
    Damage(name="-0.0 merged with 0.0", strike=positive_zeros, once=True),
)
