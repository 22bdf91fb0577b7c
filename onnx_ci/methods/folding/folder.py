"""Finds the nodes to fold in one graph or function, with all that is nested in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onnx_ci.methods.folding.moves import MOVES
from onnx_ci.methods.folding.numbers import NUMBERS
from onnx_ci.methods.folding.plan import Array, Call, Operand, Plan, UnfoldableError, check, ordinary
from onnx_ci.methods.folding.short import short_constants
from onnx_ci.methods.folding.uses import Key, Place, Uses, body_outputs, connected, defined_at
from onnx_ci.methods.scopes import Scope, sites
from onnx_ci.model.container import NUMPY_TYPES, Model, element_count, location
from onnx_ci.model.graphs import opset
from onnx_ci.model.proto import FunctionProto, NodeProto, TensorProto

OPS = {**MOVES, **NUMBERS}
UNREAD = ("Shape", "Size")  # these need no values
SMALL = 1 << 16  # bytes; a larger tensor is read only where its result takes its place
OVERHEAD = 12  # bytes that a stored tensor takes apart from its name and values, mostly
SLACK = 1 << 10  # bytes; smaller results may grow at first: what reads them is mostly folded as well
TYPED = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")


@dataclass
class Budget:
    """Bytes that may still be computed: a model may be made to keep a computer busy for days."""

    left: int


class Folder:
    """`folded` nodes and tensors that `died` can go; `results` take their place."""

    def __init__(self, model: Model, root: Scope, fixed: set[str], budget: Budget) -> None:
        self.model = model
        self.root = root
        self.budget = budget
        self.opset = opset(root.body if isinstance(root.body, FunctionProto) else model.proto)
        self.uses = Uses()
        self.stored: dict[Key, TensorProto] = {}
        self.nodes: dict[Key, NodeProto] = {}  # the Constant nodes around stored tensors
        self.bound: dict[Scope, set[str]] = {}
        self.folded: dict[Place, set[Key]] = {}  # with what each one reads and gives
        self.died: set[Key] = set()
        for scope in root.nested():
            self.uses.add(scope)
            self.bound[scope] = fixed | set(body_outputs(scope.body))
            found = (site for site in sites(scope, fixed) if _readable(site.tensor))
            self.stored.update({(scope, site.name): site.tensor for site in found})
            self.stored.update({(scope, name): tensor for name, tensor in short_constants(model, scope)})
            self.nodes.update(
                {(scope, node.output[0]): node for node in scope.body.node if _is_constant(node)}
            )

    def run(self) -> None:
        """A node is looked at again when something that it reads has changed."""
        waiting = deque(
            (scope, position) for scope in self.root.nested() for position in range(len(scope.body.node))
        )
        while waiting:
            place = waiting.popleft()
            if place not in self.folded and self._fold(place):
                waiting.extend(self._affected(place))
        changed = self.died | {key for place in self.folded for key in _given(place)}
        for together in connected({place: keys & changed for place, keys in self.folded.items()}):
            if self._gain(together) <= 0:
                self._undo(together)

    def results(self, scope: Scope) -> dict[str, TensorProto]:
        """What the folded nodes of a scope gave, as far as something still reads it."""
        names = [name for home, at in self.folded if home is scope for name in home.body.node[at].output]
        return {name: self.stored[scope, name] for name in names if self.uses.left[scope, name]}

    def _gain(self, together: Sequence[Place]) -> int:
        """The bytes that some folded nodes save, once all of them are gone."""
        made = {key for place in together for key in _given(place)}
        read = {key for place in together for key in self.folded[place]}
        before: int = sum(scope.body.node[at].ByteSize() for scope, at in together)
        before += sum(map(self._freed, (read & self.died) - made))
        return before - sum(takes(self.model, self.stored[key]) for key in made if self.uses.left[key])

    def _undo(self, together: Sequence[Place]) -> None:
        for place in together:
            self.died -= self.folded.pop(place)

    def _affected(self, place: Place) -> Iterator[Place]:
        scope, position = place
        node = scope.body.node[position]
        yield from self.uses.remove(scope, node)
        for name in node.output:
            yield from self.uses.readers[scope, name]

    def _fold(self, place: Place) -> bool:
        scope, position = place
        node = scope.body.node[position]
        keys = [defined_at(scope, name) if name else None for name in node.input]
        if not self._foldable(scope, node) or any(
            name and key not in self.stored for name, key in zip(node.input, keys, strict=True)
        ):
            return False
        operands = {key: Operand(self.model, self.stored[key]) for key in keys if key is not None}
        dying = self.uses.dying(scope, node)
        try:
            plan = OPS[node.op_type](Call(node, [operands[key] if key else None for key in keys], self.opset))
            self._check_cost(scope, node, plan, dying)
            kept = [operand for key, operand in operands.items() if key not in dying]
            check(node.op_type in UNREAD or all(operand.nbytes <= SMALL for operand in kept))
            values = plan.compute()
        except UnfoldableError:
            return False
        self.folded[place] = {*operands, *_given(place)}
        self.died |= dying
        self._store(scope, node, values, [operands[key] for key in sorted(dying, key=lambda key: key[1])])
        return True

    def _foldable(self, scope: Scope, node: NodeProto) -> bool:
        if node.op_type not in OPS or node.domain not in ("", "ai.onnx"):
            return False
        own = all(name and scope.defined[name] == 1 for name in node.output)
        given = any(entry.ref_attr_name for entry in node.attribute)
        return own and not given and not self.bound[scope].intersection(node.output)

    def _check_cost(self, scope: Scope, node: NodeProto, plan: Plan, dying: set[Key]) -> None:
        """What is stored must not be larger than what goes; nothing is computed before that is clear."""
        check(len(plan.shapes) == len(node.output) and all(map(ordinary, plan.shapes)))
        used = [number for number, name in enumerate(node.output) if self.uses.left[scope, name]]
        needed = sum(plan.nbytes(number) + OVERHEAD + len(node.output[number]) for number in used)
        work = sum(plan.nbytes(number) for number in range(len(node.output)))
        freed = max(node.ByteSize() + sum(map(self._freed, dying)), SLACK)
        check(bool(used) and needed <= freed and work <= min(freed, self.budget.left))
        self.budget.left -= work

    def _freed(self, key: Key) -> int:
        """The bytes that go with a stored tensor and the Constant node around it, if there is one."""
        tensor, node = self.stored[key], self.nodes.get(key)
        if node is None or self.model.span(tensor) is not None:
            return takes(self.model, tensor)
        return int(node.ByteSize())

    def _store(
        self, scope: Scope, node: NodeProto, values: Sequence[Array], replaced: Sequence[Operand]
    ) -> None:
        """Results belong to the external file of what they replace, if that had one."""
        home = next((operand.tensor for operand in replaced if location(operand.tensor)), None)
        for name, value in zip(node.output, values, strict=True):
            tensor = TensorProto(name=name)
            tensor.external_data.extend(home.external_data if home is not None else ())
            self.model.set_array(tensor, value)
            self.stored[scope, name] = tensor


def _given(place: Place) -> list[Key]:
    scope, position = place
    return [(scope, name) for name in scope.body.node[position].output]


def _is_constant(node: NodeProto) -> bool:
    return node.op_type == "Constant" and len(node.output) == 1


def takes(model: Model, tensor: TensorProto) -> int:
    """The bytes of a stored tensor, apart from the node around it if it has one."""
    span = model.span(tensor)
    return tensor.ByteSize() if span is None else span.length + len(tensor.name) + OVERHEAD


def _readable(tensor: TensorProto) -> bool:
    """Of a type that numpy has, and with as many values as its shape says."""
    if tensor.data_type not in NUMPY_TYPES or not ordinary(tensor.dims):
        return False
    plain = tensor.HasField("raw_data") or len(tensor.external_data) > 0
    return plain or sum(len(getattr(tensor, name)) for name in TYPED) == element_count(tensor)
