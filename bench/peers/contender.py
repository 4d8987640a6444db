"""A torch program in the comparison: reads the workload and the first parameters, then does a training step
for every line `step` on standard input and answers with the loss and the milliseconds; `memory` is answered
with the peak memory of the process, and what it was before the first step.

    python contender.py FILE MODEL LAYERS VARIANT [cuda f32|tf32]

Variants: those of window.py, with transposes built beforehand, `pyg` (the layers of PyTorch Geometric) and
`pygt` (the cell of PyTorch Geometric Temporal).
"""

import resource
import sys
import time
import types

import torch
from safetensors.torch import load_file

from window import Window

FILE, MODEL, LAYERS, VARIANT = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
DEVICE = sys.argv[5] if len(sys.argv) > 5 else "cpu"
if DEVICE == "cpu":
    torch.set_num_threads(2)
elif sys.argv[6] == "tf32":
    torch.set_float32_matmul_precision("high")
torch.set_default_device(DEVICE)
data = load_file(FILE, device=DEVICE)
STEPS = sum(name.startswith("starts.") for name in data)
X = data["features"]
N, HIDDEN, HEADS = len(X), len(data["head.weight"]), 4
# The snapshots whose error counts: those with targets.
COUNTED = [t for t in range(STEPS) if f"targets.{t}" in data]
Y = [data[f"targets.{t}"] for t in COUNTED]
P = {name: torch.nn.Parameter(value.clone()) for name, value in data.items()
     if not name.startswith(("starts.", "sources.", "targets.", "features"))}


class Graph:
    """A snapshot with a loop at every vertex: edges sorted by target, their normalised weights, both sparse
    matrices."""

    def __init__(self, t):
        starts, sources = data[f"starts.{t}"], data[f"sources.{t}"]
        targets = torch.repeat_interleave(torch.arange(N), starts[1:] - starts[:-1])
        sources, targets = torch.cat([sources, torch.arange(N)]), torch.cat([targets, torch.arange(N)])
        order = torch.argsort(targets * N + sources)
        self.sources, self.targets = sources[order], targets[order]
        root = torch.bincount(self.targets, minlength=N).float().rsqrt()
        self.weights = root[self.sources] * root[self.targets]
        self.edges = torch.stack([self.sources, self.targets])
        self.bare = torch.stack(
            [data[f"sources.{t}"], torch.repeat_interleave(torch.arange(N), starts[1:] - starts[:-1])]
        )
        self.heard = None
        self.along = self.matrix(self.targets, self.sources)
        self.back = self.matrix(self.sources, self.targets)

    def matrix(self, rows, columns):
        matrix = (
            torch.sparse_coo_tensor(torch.stack([rows, columns]), self.weights, (N, N))
            .coalesce()
            .to_sparse_csr()
        )
        if DEVICE == "cpu":
            return matrix
        # Half the bytes of indices: what a careful user does on a GPU.
        return torch.sparse_csr_tensor(
            matrix.crow_indices().int(), matrix.col_indices().int(), matrix.values(), (N, N)
        )


window = Window(VARIANT, LAYERS, P)


def error(outputs):
    return window.error(outputs, COUNTED, Y)


def t_gcn():
    return window.t_gcn(graphs, [X] * STEPS, COUNTED, Y)


def wd_gcn():
    return window.wd_gcn(graphs, [X] * STEPS, COUNTED, Y)


def evolvegcn_o(convolution=window.convolve):
    inputs = [X] * STEPS
    for layer in range(LAYERS):
        weight, cell, outputs = P[f"structure.{layer}.weight"], None, []
        for graph, x in zip(graphs, inputs):
            i, f, g, o = (P[f"evolve.{layer}.state"] @ weight + P[f"evolve.{layer}.bias"]).chunk(4, 0)
            new = torch.sigmoid(i) * torch.tanh(g)
            cell = new if cell is None else torch.sigmoid(f) * cell + new
            weight = torch.sigmoid(o) * torch.tanh(cell)
            out = convolution(graph, x, weight, P[f"structure.{layer}.bias"])
            outputs.append(torch.relu(out) if layer + 1 < LAYERS else out)
        inputs = outputs
    return error(inputs)


@window.compiled
def attend(x, weight, source, target, bias, sources, targets):
    h = (x @ weight).view(N, HEADS, -1)
    left, right = (h * source).sum(2), (h * target).sum(2)
    scores = torch.nn.functional.leaky_relu(left[sources] + right[targets], 0.2)
    most = torch.full((N, HEADS), -torch.inf).scatter_reduce(
        0, targets[:, None].expand(-1, HEADS), scores, "amax"
    )
    shares = torch.exp(scores - most.detach()[targets])
    sums = torch.zeros(N, HEADS).index_add(0, targets, shares)
    heard = torch.zeros(N, HEADS, h.shape[2]).index_add(0, targets, shares[:, :, None] * h[sources])
    return torch.nn.functional.elu((heard / sums[:, :, None]).view(N, -1) + bias)


def gat_lstm():
    inputs = []
    for graph in graphs:
        x = X
        for layer in range(LAYERS):
            names = [P[f"structure.{layer}.{name}"] for name in ["weight", "source", "target", "bias"]]
            x = attend(x, *names, graph.sources, graph.targets)
        inputs.append(x)
    return window.lstm(inputs, COUNTED, Y)


def with_pyg():
    """The same with the layers of PyTorch Geometric."""
    from torch_geometric.nn import GATConv, GCNConv

    def put(module, values):
        with torch.no_grad():
            for parameter, value in values:
                parameter.copy_(value)
        modules.append(module)
        return module

    def gcn(prefix_weight, prefix_bias):
        weight = P.pop(prefix_weight)
        layer = GCNConv(weight.shape[0], weight.shape[1], normalize=False)
        return put(layer, [(layer.lin.weight, weight.t()), (layer.bias, P.pop(prefix_bias)[0])])

    def gat(layer):
        weight = P.pop(f"structure.{layer}.weight")
        module = GATConv(weight.shape[0], HIDDEN // HEADS, HEADS, add_self_loops=False)
        values = [(module.lin.weight, weight.t()), (module.bias, P.pop(f"structure.{layer}.bias")[0])]
        values += [
            (module.att_src, P.pop(f"structure.{layer}.source")[None]),
            (module.att_dst, P.pop(f"structure.{layer}.target")[None]),
        ]
        return put(module, values)

    if MODEL == "t-gcn":
        below = [gcn(f"structure.{layer}.weight", f"structure.{layer}.bias") for layer in range(LAYERS - 1)]
        gate = gcn("gate.input", "gate.bias")

        def run():
            gates = []
            for graph in graphs:
                x = X
                for layer in below:
                    x = torch.relu(layer(x, graph.edges, graph.weights))
                gates.append(gate(x, graph.edges, graph.weights))
            return window.gated(gates, COUNTED, Y)
    elif MODEL == "wd-gcn":
        below = [gcn(f"structure.{layer}.weight", f"structure.{layer}.bias") for layer in range(LAYERS)]

        def run():
            inputs = []
            for graph in graphs:
                x = X
                for layer in below:
                    x = torch.relu(layer(x, graph.edges, graph.weights))
                inputs.append(x)
            return window.lstm(inputs, COUNTED, Y)
    elif MODEL == "gat-lstm":
        below = [gat(layer) for layer in range(LAYERS)]

        def run():
            inputs = []
            for graph in graphs:
                x = X
                for layer in below:
                    x = torch.nn.functional.elu(layer(x, graph.edges))
                inputs.append(x)
            return window.lstm(inputs, COUNTED, Y)
    else:
        layer = put(GCNConv(1, 1, normalize=False, bias=False), [])
        for parameter in layer.parameters():
            parameter.requires_grad_(False)

        def run():
            return evolvegcn_o(
                lambda graph, x, weight, bias: layer.propagate(
                    graph.edges, x=x @ weight, edge_weight=graph.weights
                )
                + bias
            )
    return run


def with_pygt():
    """The cell of PyTorch Geometric Temporal; its linear maps begin so that it computes the same."""
    # It imports torch_sparse for a type that this cell does not use.
    sys.modules.setdefault("torch_sparse", types.SimpleNamespace(SparseTensor=object))
    from torch_geometric_temporal.nn.recurrent import TGCN

    cell = TGCN(X.shape[1], HIDDEN)
    weights, biases, states = (P.pop(name).chunk(3, 1) for name in ["gate.input", "gate.bias", "gate.state"])
    with torch.no_grad():
        for number, gate in enumerate("zrh"):
            convolution, linear = getattr(cell, f"conv_{gate}"), getattr(cell, f"linear_{gate}")
            convolution.lin.weight.copy_(weights[number].t())
            convolution.bias.zero_()
            linear.weight.copy_(torch.cat([torch.eye(HIDDEN), states[number].t()], 1))
            linear.bias.copy_(biases[number][0])
    modules.append(cell)

    def run():
        hidden, outputs = None, []
        for graph in graphs:
            hidden = cell(X, graph.bare, None, hidden)
            outputs.append(hidden)
        return error(outputs)

    return run


modules = []
graphs = [Graph(t) for t in range(STEPS)]
plain = {"t-gcn": t_gcn, "wd-gcn": wd_gcn, "evolvegcn-o": evolvegcn_o, "gat-lstm": gat_lstm}
run = with_pyg() if VARIANT == "pyg" else with_pygt() if VARIANT == "pygt" else plain[MODEL]
of_modules = [parameter for module in modules for parameter in module.parameters()]
parameters = [*window.parameters(), *(parameter for parameter in of_modules if parameter.requires_grad)]
optimiser = torch.optim.Adam(parameters, lr=1e-2, fused=DEVICE != "cpu")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def step():
    optimiser.zero_grad()
    loss = run()
    loss.backward()
    optimiser.step()
    return loss


def timed():
    """A step and its milliseconds, on a GPU by its own clock."""
    if DEVICE == "cpu":
        begun = time.perf_counter()
        loss = step().item()
        return loss, (time.perf_counter() - begun) * 1e3
    begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begun.record()
    loss = step()
    ended.record()
    ended.synchronize()
    return loss.item(), begun.elapsed_time(ended)


for line in sys.stdin:
    if line.strip() == "step":
        print(*timed(), flush=True)
    elif line.strip() == "memory":
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(most if DEVICE == "cpu" else torch.cuda.max_memory_allocated(), before, flush=True)
    else:
        break
