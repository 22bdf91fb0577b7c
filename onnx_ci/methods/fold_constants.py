"""Replaces nodes that read only stored tensors by their result, where that takes no more bytes.

A result takes the place of its node and of the inputs that nothing else reads. So a weight that is stored
small and rebuilt at the head of its graph (int8, fp16, a table) stays as it is: its result is larger.
What is computed is what onnxruntime would compute when a session starts, bit for bit.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from onnx_ci.methods.catalogue import Applied
from onnx_ci.methods.edit import constant_node, drop_named, replace_nodes, takes_initializers
from onnx_ci.methods.evaluator import Call, NotEvaluated, Operand, check, ordinary, plan
from onnx_ci.methods.options import NoOptions
from onnx_ci.methods.rounding import Array
from onnx_ci.model import graph as graphs
from onnx_ci.model.dtypes import NUMPY_TYPES
from onnx_ci.model.graph import Key, Scope, Site
from onnx_ci.model.model import NUMBER_FIELDS, Model, element_count, location
from onnx_ci.model.proto import GraphProto, NodeProto, TensorProto

WORK = 4  # bytes that may be computed, in multiples of what the model stores, and some for small models
MORE_WORK = 1 << 26
UNREAD = ("Shape", "Size")  # these need no values
SMALL = 1 << 16  # bytes; a larger tensor is read only where its result takes its place
OVERHEAD = 12  # bytes that a stored tensor takes apart from its name and values, mostly
SLACK = 1 << 10  # bytes; smaller results may grow at first: what reads them is mostly folded as well

Place = tuple[Scope, int]  # a node, by its position


def fold_constants(model: Model, _: NoOptions) -> Applied:
    budget = Allowance(model)
    known = graphs.outline(model.proto)
    fixed = graphs.fixed_names(known)
    folded = 0
    for root in graphs.roots(known):
        folder = Folder(model, root, fixed, budget)
        folder.run()
        folded += len(folder.folded)
        # Innermost first: rebuilding a list of nodes copies the graphs inside them.
        for scope in sorted(root.nested(), key=lambda scope: -len(scope.chain())):
            _rewrite(model, scope, folder)
    return Applied(folded)


def _rewrite(model: Model, scope: Scope, folder: Folder) -> None:
    """Take out what was folded or is no longer read, and store the results that are."""
    made = folder.results(scope)
    gone = {name for home, name in folder.died if home is scope}
    folded = {position for home, position in folder.folded if home is scope}
    if not folded and not gone:
        return
    as_initializers = takes_initializers(scope.body, model.proto.ir_version)
    positions = iter(range(len(scope.body.node)))

    def change(node: NodeProto) -> list[NodeProto]:
        if next(positions) not in folded:
            stored = node.op_type == "Constant" and node.output and node.output[0] in gone
            return [] if stored else [node]
        if as_initializers:
            return []
        return [constant_node(name, made[name]) for name in node.output if name in made]

    replace_nodes(scope.body, change)
    if isinstance(scope.body, GraphProto):
        drop_named(scope.body, gone, gone | made.keys())
    if as_initializers:
        scope.body.initializer.extend(made.values())


class Allowance:
    """The bytes that may be computed: a model may be made to keep us busy for days."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @cached_property
    def left(self) -> int:
        """At first by what the model stores, found out when there is something to compute."""
        stored = sum(_taken(self._model, tensor) for tensor in graphs.tensors(self._model.proto))
        return WORK * stored + MORE_WORK


class Folder:
    """Finds the nodes to fold in one graph or function, with all that is nested in it.

    `folded` nodes and tensors that `died` can go; `results` take their place.
    """

    def __init__(self, model: Model, root: Scope, fixed: set[str], budget: Allowance) -> None:
        self.model = model
        self.root = root
        self.fixed = fixed
        self.budget = budget
        self.opset = graphs.opset_in(root, model.proto)
        self.stored: dict[Key, TensorProto] = {}
        self.names = {""}  # of all that may be stored, wherever it is; an input that is left out has none
        self.constants: dict[Key, NodeProto] = {}  # the Constant nodes around stored tensors
        self.bound: dict[Scope, set[str]] = {}
        self.folded: dict[Place, set[Key]] = {}  # with what each one reads and gives
        self.died: set[Key] = set()
        for scope in root.nested():
            self.bound[scope] = fixed.union(graphs.output_names(scope.body))
            if isinstance(scope.body, GraphProto):
                self.names.update(tensor.name for tensor in scope.body.initializer)
            for node in graphs.constant_nodes(scope.body, scope.nodes):
                self.names.update(node.output)
                values = graphs.short_constant(node)
                if values is not None and scope.defined[node.output[0]] == 1:
                    tensor = TensorProto(name=node.output[0])
                    model.set_array(tensor, values)
                    self._keep((scope, tensor.name), tensor, node)

    @cached_property
    def sites(self) -> dict[Key, Site]:
        """The stored tensors that were not looked at yet."""
        scopes = self.root.nested()
        return {(site.scope, site.name): site for scope in scopes for site in graphs.sites(scope, self.fixed)}

    def _keep(self, key: Key, tensor: TensorProto, node: NodeProto | None = None) -> None:
        self.stored[key] = tensor
        self.names.add(key[1])
        if node is not None:
            self.constants[key] = node

    def _is_stored(self, key: Key) -> bool:
        site = self.sites.pop(key, None)
        if site is not None and _readable(site.tensor):
            self._keep(key, site.tensor, site.node)
        return key in self.stored

    @cached_property
    def left(self) -> Counter[Key]:
        """How often each name is read by what is still there."""
        left = Counter({key: len(uses) for key, uses in self.root.readers.items()})
        for scope in self.root.nested():
            left.update((scope.home(name), name) for name in graphs.output_names(scope.body))
        return left

    def run(self) -> None:
        """A node is looked at again when something that it reads has changed."""
        waiting: deque[Place] = deque()
        for place in self._places():
            if self._fold(place):
                waiting.extend(self._affected(place))
        while waiting:
            place = waiting.popleft()
            if place not in self.folded and self._fold(place):
                waiting.extend(self._affected(place))
        changed = self.died | {key for place in self.folded for key in _given(place)}
        for together in connected({place: keys & changed for place, keys in self.folded.items()}):
            if self._gain(together) <= 0:
                for place in together:
                    self.died -= self.folded.pop(place)

    def _places(self) -> Iterator[Place]:
        """The nodes, in order, that read nothing but stored names when it is their turn."""
        for scope in self.root.nested():
            for position, inputs in enumerate(scope.nodes.inputs):
                if self.names.issuperset(inputs):
                    yield scope, position

    def results(self, scope: Scope) -> dict[str, TensorProto]:
        """What the folded nodes of a scope gave, as far as something still reads it."""
        names = [name for home, at in self.folded if home is scope for name in home.body.node[at].output]
        return {name: self.stored[scope, name] for name in names if self.left[scope, name]}

    def _gain(self, together: Sequence[Place]) -> int:
        """The bytes that some folded nodes save, once all of them are gone."""
        made = {key for place in together for key in _given(place)}
        read = {key for place in together for key in self.folded[place]}
        before: int = sum(scope.body.node[at].ByteSize() for scope, at in together)
        before += sum(map(self._freed, (read & self.died) - made))
        return before - sum(_taken(self.model, self.stored[key]) for key in made if self.left[key])

    def _affected(self, place: Place) -> Iterator[Place]:
        """Take out what a folded node reads; give the readers that may be the last ones of something now."""
        scope, position = place
        read = _reads(scope, scope.body.node[position])
        self.left.subtract(read)
        changed = [key for key in dict.fromkeys(read) if self.left[key] in (1, 2)]
        for key in (*changed, *_given(place)):
            for use in self.root.readers.get(key, ()):
                yield use.scope, use.position

    def _fold(self, place: Place) -> bool:
        scope, position = place
        node = scope.body.node[position]
        read = _reads(scope, node)
        if not self._foldable(scope, node) or not all(map(self._is_stored, read)):
            return False
        operands = {key: Operand.stored(self.model, self.stored[key]) for key in read}
        dying = {key for key, count in Counter(read).items() if self.left[key] == count}
        try:
            given = [operands[scope.home(name), name] if name else None for name in node.input]
            results = plan(Call(node, given, self.opset))
            self._check_cost(scope, node, results, dying)
            kept = [operand for key, operand in operands.items() if key not in dying]
            check(node.op_type in UNREAD or all(operand.nbytes <= SMALL for operand in kept))
            values = [result.read() for result in results]
        except NotEvaluated:
            return False
        self.folded[place] = {*operands, *_given(place)}
        self.died |= dying
        self._store(scope, node, values, [self.stored[key] for key in sorted(dying, key=lambda key: key[1])])
        return True

    def _foldable(self, scope: Scope, node: NodeProto) -> bool:
        if node.domain not in graphs.STANDARD_DOMAINS:
            return False
        own = len(node.output) > 0 and all(name and scope.defined[name] == 1 for name in node.output)
        given = any(entry.ref_attr_name for entry in node.attribute)
        return own and not given and not self.bound[scope].intersection(node.output)

    def _check_cost(self, scope: Scope, node: NodeProto, results: Sequence[Operand], dying: set[Key]) -> None:
        """What is stored must not be larger than what goes; nothing is computed before that is clear."""
        check(len(results) == len(node.output) and all(ordinary(result.shape) for result in results))
        named = zip(node.output, results, strict=True)
        used = [(name, result) for name, result in named if self.left[scope, name]]
        needed = sum(result.nbytes + OVERHEAD + len(name) for name, result in used)
        work = sum(result.nbytes for result in results)
        freed = max(node.ByteSize() + sum(map(self._freed, dying)), SLACK)
        check(bool(used) and needed <= freed and work <= min(freed, self.budget.left))
        self.budget.left -= work

    def _freed(self, key: Key) -> int:
        """The bytes that go with a stored tensor and the Constant node around it, if there is one."""
        tensor, node = self.stored[key], self.constants.get(key)
        if node is None or self.model.span(tensor) is not None:
            return _taken(self.model, tensor)
        return int(node.ByteSize())

    def _store(
        self, scope: Scope, node: NodeProto, values: Sequence[Array], replaced: Sequence[TensorProto]
    ) -> None:
        """Results belong to the external file of what they replace, if that had one."""
        home = next((tensor for tensor in replaced if location(tensor)), None)
        for name, value in zip(node.output, values, strict=True):
            tensor = TensorProto(name=name)
            tensor.external_data.extend(home.external_data if home is not None else ())
            self.model.set_array(tensor, value)
            self._keep((scope, name), tensor)


def _reads(scope: Scope, node: NodeProto) -> list[Key]:
    return [(scope.home(name), name) for name in node.input if name]


def _given(place: Place) -> list[Key]:
    scope, position = place
    return [(scope, name) for name in scope.body.node[position].output]


def _taken(model: Model, tensor: TensorProto) -> int:
    """The bytes of a stored tensor, apart from the node around it if it has one."""
    span = model.span(tensor)
    return tensor.ByteSize() if span is None else span.length + len(tensor.name) + OVERHEAD


def _readable(tensor: TensorProto) -> bool:
    """Of a type that numpy has, and with as many values as its shape says."""
    if tensor.data_type not in NUMPY_TYPES or not ordinary(tensor.dims):
        return False
    plain = tensor.HasField("raw_data") or len(tensor.external_data) > 0
    return plain or sum(len(getattr(tensor, name)) for name in NUMBER_FIELDS) == element_count(tensor)


def connected(folded: Mapping[Place, set[Key]]) -> list[list[Place]]:
    """Folded nodes in groups: two that have a name in common belong together."""
    places: dict[Key, list[Place]] = defaultdict(list)
    for place, keys in folded.items():
        for key in keys:
            places[key].append(place)
    groups: list[list[Place]] = []
    seen: set[Place] = set()
    for start in folded:
        if start in seen:
            continue
        seen.add(start)
        group = [start]
        for place in group:  # grows while it is walked
            for key in folded[place]:
                new = [other for other in places.pop(key, ()) if other not in seen]
                seen.update(new)
                group += new
        groups.append(group)
    return groups
