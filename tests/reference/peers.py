"""Checks the definitions in models.py against PyTorch, PyTorch Geometric and PyTorch Geometric Temporal.

Where a peer defines the same thing, the two must agree to 1e-5 on random weights. Where a peer differs, the
check shows what part agrees and that the difference is there; README.md tells the reasons. Everything runs in
float64.

PyTorch Geometric Temporal imports torch_sparse for a type name only. It is installed without its dependencies
and the name is put in place here, so that nothing has to be compiled.
"""

import sys
import types

import numpy
import torch
from torch_geometric.nn import GATConv, GCNConv, SAGEConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_remaining_self_loops, scatter

import graphs
import models

sys.modules.setdefault("torch_sparse", types.SimpleNamespace(SparseTensor=object))
from torch_geometric_temporal.nn.recurrent import DCRNN, GCLSTM, MPNNLSTM, TGCN  # noqa: E402
from torch_geometric_temporal.nn.recurrent import EvolveGCNH, EvolveGCNO  # noqa: E402
from torch_geometric_temporal.nn.recurrent.dcrnn import BatchedDConv, DConv  # noqa: E402

VERTICES, WIDTH, HIDDEN, HEADS = 7, 5, 6, 2
RING = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2), (3, 0), (1, 0), (2, 2), (4, 5), (5, 6), (6, 0)]


def close(one, other):
    return one.shape == other.shape and torch.allclose(one, other, rtol=1e-5, atol=1e-5)


def agree(what, one, other):
    assert close(one, other), f"{what}: differs by {(one - other).abs().max():.3g}"


def differ(what, one, other):
    assert not close(one, other), f"{what}: agrees now, README.md must be changed"


def randomise(module):
    """A module in float64 with random parameters, biases too."""
    module = module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.5)
    return module


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def steps():
    random = numpy.random.default_rng(1)
    return graphs.graphs(VERTICES, random)


def ring(weight=None):
    """A graph in which every vertex has edges in and out, with random weights or all the same."""
    made = graphs.graph(RING, VERTICES, numpy.random.default_rng(2))
    return made if weight is None else made._replace(weights=torch.full_like(made.weights, weight))


def check():
    layers = [gcn, gcn_right_and_none, gat, sage, lstm, gru, attention, matrix_lstm, matrix_gru]
    cells = [t_gcn, evolvegcn_o, evolvegcn_h, mpnn_lstm, gc_lstm]
    diffusion = [dcrnn_forward, dcrnn_backward, dcrnn_weights, dcrnn_third_power, dcrnn_batched]
    for one in layers + cells + diffusion:
        one()
        print(f"{one.__name__}: {one.__doc__}")


def gcn():
    """= torch_geometric GCNConv (both)"""
    layer = randomise(GCNConv(WIDTH, HIDDEN))
    for step in steps() + [graphs.with_zero_degree(steps()[0], 6)]:
        x = normal(VERTICES, WIDTH)
        ours = models.gcn_layer(step, x, layer.lin.weight.t(), layer.bias, "both")
        agree("gcn", ours, layer(x, step.index, step.weights))
    negative = ring(-1.0)
    assert gcn_norm(negative.index, negative.weights, VERTICES)[1].isnan().any()


def gcn_right_and_none():
    """= torch_geometric GCNConv without normalisation, given self-loops and coefficients"""
    layer = randomise(GCNConv(WIDTH, HIDDEN, normalize=False))
    for step in steps():
        x = normal(VERTICES, WIDTH)
        index, weights = add_remaining_self_loops(step.index, step.weights, 1.0, VERTICES)
        shares = weights / scatter(weights, index[1], dim_size=VERTICES, reduce="sum")[index[1]]
        for normalisation, coefficients in [("none", weights), ("right", shares)]:
            ours = models.gcn_layer(step, x, layer.lin.weight.t(), layer.bias, normalisation)
            agree(normalisation, ours, layer(x, index, coefficients))


def gat():
    """= torch_geometric GATConv"""
    layer = randomise(GATConv(WIDTH, HIDDEN // HEADS, heads=HEADS))
    for step in steps():
        x = normal(VERTICES, WIDTH)
        ours = models.gat_layer(step, x, layer.lin.weight.t(), layer.att_src[0], layer.att_dst[0], layer.bias)
        agree("gat", ours, layer(x, step.index))


def sage():
    """= torch_geometric SAGEConv, mean and max with project=True"""
    for aggregate, peer in [("mean", {"aggr": "mean"}), ("pool", {"aggr": "max", "project": True})]:
        layer = randomise(SAGEConv(WIDTH, HIDDEN, **peer))
        own, other = layer.lin_r.weight.t(), layer.lin_l.weight.t()
        parameters = {
            "structure.0.self": own,
            "structure.0.neighbour": other,
            "structure.0.bias": layer.lin_l.bias,
        }
        if aggregate == "pool":
            parameters |= {
                "structure.0.pool.weight": layer.lin.weight.t(),
                "structure.0.pool.bias": layer.lin.bias,
            }
        for step in steps():
            x = normal(VERTICES, WIDTH)
            ours = models.sage_layer({"aggregate": aggregate}, parameters, 0, step, x)
            agree(f"sage {aggregate}", ours, layer(x, step.index))


def lstm():
    """= torch.nn.LSTM and LSTMCell, their two biases added"""
    inputs = [normal(VERTICES, WIDTH) for _ in range(4)]
    whole = randomise(torch.nn.LSTM(WIDTH, HIDDEN))
    ours = models.lstm(
        inputs, whole.weight_ih_l0.t(), whole.weight_hh_l0.t(), whole.bias_ih_l0 + whole.bias_hh_l0
    )
    agree("lstm", torch.stack(ours), whole(torch.stack(inputs))[0])
    cell, state = randomise(torch.nn.LSTMCell(WIDTH, HIDDEN)), None
    ours = models.lstm(inputs, cell.weight_ih.t(), cell.weight_hh.t(), cell.bias_ih + cell.bias_hh)
    for x, hidden in zip(inputs, ours):
        state = cell(x, state)
        agree("lstm cell", hidden, state[0])


def gru():
    """= torch.nn.GRUCell"""
    inputs = [normal(VERTICES, WIDTH) for _ in range(4)]
    cell, state = randomise(torch.nn.GRUCell(WIDTH, HIDDEN)), None
    ours = models.gru(inputs, cell.weight_ih.t(), cell.weight_hh.t(), cell.bias_ih, cell.bias_hh)
    for x, hidden in zip(inputs, ours):
        state = cell(x, state)
        agree("gru cell", hidden, state)


def attention():
    """= torch scaled_dot_product_attention, causal"""
    inputs = [normal(VERTICES, HIDDEN) for _ in range(4)]
    shapes = models.dysat_shapes(
        {"hidden": HIDDEN, "features": WIDTH, "layers": 0, "heads": HEADS, "window": 4}
    )
    parameters = {key: normal(*shape) * 0.5 for key, shape in shapes.items()}
    placed = torch.stack(inputs, dim=1) + parameters["time.position"]
    names = ["query", "key", "value"]
    q, k, v = (models.split(placed @ parameters[f"time.{name}"], HEADS).transpose(1, 2) for name in names)
    o = (
        torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        .transpose(1, 2)
        .reshape(placed.shape)
    )
    fed = torch.relu(o @ parameters["time.feed.weight"] + parameters["time.feed.bias"]) + o
    agree("attention", torch.stack(models.temporal_attention(inputs, parameters, HEADS), dim=1), fed + placed)


def t_gcn():
    """= torch_geometric_temporal TGCN, its convolution and linear part multiplied out"""
    cell = randomise(TGCN(WIDTH, HIDDEN))
    inputs, states, biases = [], [], []
    for conv, linear in [
        (cell.conv_z, cell.linear_z),
        (cell.conv_r, cell.linear_r),
        (cell.conv_h, cell.linear_h),
    ]:
        from_input, from_state = linear.weight.t().split(HIDDEN)
        inputs.append(conv.lin.weight.t() @ from_input)
        states.append(from_state)
        biases.append(conv.bias @ from_input + linear.bias)
    gates = {
        "gate.input": torch.cat(inputs, 1),
        "gate.state": torch.cat(states, 1),
        "gate.bias": torch.cat(biases),
    }
    features = [normal(VERTICES, WIDTH) for _ in steps()]
    case = {"hidden": HIDDEN, "layers": 1, "normalisation": "both"}
    hidden = torch.zeros(VERTICES, HIDDEN, dtype=torch.float64)
    for step, x, ours in zip(steps(), features, models.t_gcn(case, gates, steps(), features)):
        hidden = cell(x, step.index, step.weights, hidden)
        agree("t-gcn", ours, hidden)


def matrix_lstm():
    """= torch.nn.LSTMCell over the columns of the weight, for the matrix LSTM of EvolveGCN-O"""
    state, bias = normal(4 * WIDTH, WIDTH), normal(4 * WIDTH, HIDDEN)
    weight, cell = normal(WIDTH, HIDDEN), normal(WIDTH, HIDDEN)
    ours = models.matrix_lstm(weight, cell, state, bias)
    peer = randomise(torch.nn.LSTMCell(WIDTH, WIDTH))
    for column in range(HIDDEN):
        with torch.no_grad():
            peer.weight_hh.copy_(state - peer.weight_ih)
            peer.bias_hh.copy_(bias[:, column] - peer.bias_ih)
        x = weight[:, column]
        for one, other in zip(ours, peer(x, (x, cell[:, column]))):
            agree("matrix lstm", one[:, column], other)


def matrix_gru():
    """= our T-GCN cell over the columns of the weight, with the update gate turned round, for EvolveGCN-H"""
    weight, z = normal(WIDTH, HIDDEN), normal(WIDTH, HIDDEN)
    inputs, states, biases = normal(3 * WIDTH, WIDTH), normal(3 * WIDTH, WIDTH), normal(3 * WIDTH, HIDDEN)
    sign = torch.ones(3 * WIDTH, 1, dtype=torch.float64)
    sign[:WIDTH] = -1
    ours = models.matrix_gru(weight, z, inputs, states, biases)
    agree(
        "matrix gru",
        ours.t(),
        models.t_gcn_cell((sign * (inputs @ z + biases)).t(), weight.t(), (sign * states).t()),
    )


def evolvegcn_o():
    """differs from torch_geometric_temporal EvolveGCNO: a GRU over rows of the weight, kept between calls"""
    peer = randomise(EvolveGCNO(WIDTH))
    step, x = ring(), normal(VERTICES, WIDTH)
    weight = peer.recurrent_layer(peer.initial_weight, peer.initial_weight)[1][0]
    bias = weight.new_zeros(WIDTH)
    first = peer(x, step.index, step.weights)
    agree("the convolution of EvolveGCNO", first, models.gcn_layer(step, x, weight, bias, "both"))
    differ("EvolveGCNO, the same input again", first, peer(x, step.index, step.weights))
    first.sum().backward()
    again = fails("second time", lambda: peer(x, step.index, step.weights).sum().backward())
    assert again, "EvolveGCNO: a second backward pass works now"
    peer.reinitialize_weight()
    agree("EvolveGCNO, set back", first, peer(x, step.index, step.weights))


def evolvegcn_h():
    """differs from torch_geometric_temporal EvolveGCNH: a GRU over rows; where it works, vertices agree"""
    peer = randomise(EvolveGCNH(VERTICES, WIDTH))
    step, x = ring(), normal(VERTICES, WIDTH)
    ours = models.summary(x, peer.pooling_layer.select.weight.t(), WIDTH)
    chosen = peer.pooling_layer(x, step.index)[0]
    agree("the choice of vertices", ours, chosen.t())
    weight = peer.recurrent_layer(chosen[None], peer.initial_weight)[1][0]
    bias = weight.new_zeros(WIDTH)
    first = peer(x, step.index, step.weights)
    agree("the convolution of EvolveGCNH", first, models.gcn_layer(step, x, weight, bias, "both"))
    differ("EvolveGCNH, the same input again", first, peer(x, step.index, step.weights))
    first.sum().backward()
    again = fails("second time", lambda: peer(x, step.index, step.weights).sum().backward())
    assert again, "EvolveGCNH: a second backward pass works now"
    unlucky = EvolveGCNH(21, 3)
    assert unlucky.pooling_layer(torch.rand(21, 3), step.index)[0].shape == (
        4,
        3,
    ), "TopKPooling takes 3 of 21 now"
    assert fails("size", lambda: unlucky(torch.rand(21, 3), step.index)), "EvolveGCNH(21, 3) works now"
    assert fails(
        "size", lambda: EvolveGCNH(4, 5)(torch.rand(4, 5), torch.tensor([[0], [1]]))
    ), "EvolveGCNH(4, 5) works now"


def fails(message, call):
    """Whether a call fails with this message."""
    try:
        call()
    except RuntimeError as error:
        return message in str(error)
    return False


def mpnn_lstm():
    """= torch_geometric_temporal MPNNLSTM, normalisation both, no batch norm, dropout or input skip"""
    peer = randomise(MPNNLSTM(WIDTH, HIDDEN, VERTICES, len(steps()), 0.0))
    parameters = {}
    pairs = [(peer._convolution_1, peer._batch_norm_1), (peer._convolution_2, peer._batch_norm_2)]
    for layer, (conv, norm) in enumerate(pairs):
        torch.nn.init.ones_(norm.weight), torch.nn.init.zeros_(norm.bias)
        norm.eps = 0.0
        parameters |= {f"structure.{layer}.weight": conv.lin.weight.t(), f"structure.{layer}.bias": conv.bias}
    for layer, lstm in enumerate([peer._recurrent_1, peer._recurrent_2]):
        parameters[f"time.{layer}.input"] = lstm.weight_ih_l0.t()
        parameters[f"time.{layer}.state"] = lstm.weight_hh_l0.t()
        parameters[f"time.{layer}.bias"] = lstm.bias_ih_l0 + lstm.bias_hh_l0
    features = [normal(VERTICES, WIDTH) for _ in steps()]
    case = {"layers": 2, "normalisation": "both"}
    ours = models.mpnn_lstm(case, parameters, steps(), features)[-1]
    index = torch.cat([step.index + t * VERTICES for t, step in enumerate(steps())], dim=1)
    theirs = peer(torch.cat(features), index, torch.cat([step.weights for step in steps()]))
    agree("mpnn-lstm", ours, theirs[:, HIDDEN : 2 * HIDDEN])


def gc_lstm():
    """= torch_geometric_temporal GCLSTM with K = 1, where gates hear nothing of neighbours"""
    peer = randomise(GCLSTM(WIDTH, HIDDEN, 1))
    parts = ["W", "conv", "b"]
    gates = [tuple(getattr(peer, f"{part}_{gate}") for part in parts) for gate in "ifco"]
    parameters = {
        "gate.input": torch.cat([weight for weight, _, _ in gates], dim=1),
        "gate.heard": torch.zeros(HIDDEN, 4 * HIDDEN, dtype=torch.float64),
        "gate.state": torch.cat([conv.lins[0].weight.t() for _, conv, _ in gates], dim=1),
        "gate.bias": torch.cat([conv.bias + bias[0] for _, conv, bias in gates]),
    }
    features = [normal(VERTICES, WIDTH) for _ in range(3)]
    case = {"hidden": HIDDEN, "layers": 1, "diffusion": 1, "normalisation": "both"}
    hidden = cell = None
    for x, ours in zip(features, models.gc_lstm(case, parameters, [ring(1.0)] * 3, features)):
        hidden, cell = with_float64(lambda: peer(x, ring(1.0).index, ring(1.0).weights, hidden, cell))
        agree("gc-lstm", ours, hidden)


def diffusion_weights(layer, direction):
    """The weights of a DConv with K = 3 in our terms, where the other direction counts for nothing: its basis
    is x, Px, 2PPx - x instead of x, Px, PPx."""
    with torch.no_grad():
        layer.weight[1 - direction] = 0
    own, one, two = layer.weight[direction]
    return torch.cat([own - two, one, 2 * two])


def dcrnn_forward():
    """= torch_geometric_temporal DCRNN for equal weights along the edges, polynomials turned into powers"""
    step, width = ring(1.0), WIDTH + HIDDEN
    cell = randomise(DCRNN(WIDTH, HIDDEN, 3))
    z, r, candidate = (diffusion_weights(conv, 0) for conv in [cell.conv_x_z, cell.conv_x_r, cell.conv_x_h])
    none = z.new_zeros(2 * width, HIDDEN)
    parameters = {
        "gate.weight": torch.cat([torch.cat([z, r], dim=1), torch.cat([none, none], dim=1)]),
        "gate.bias": torch.cat([cell.conv_x_z.bias, cell.conv_x_r.bias]),
        "candidate.weight": torch.cat([candidate, none]),
        "candidate.bias": cell.conv_x_h.bias,
    }
    features = [normal(VERTICES, WIDTH) for _ in range(3)]
    hidden = torch.zeros(VERTICES, HIDDEN, dtype=torch.float64)
    for x, ours in zip(
        features, models.dcrnn({"hidden": HIDDEN, "diffusion": 2}, parameters, [step] * 3, features)
    ):
        hidden = with_float64(lambda: cell(x, step.index, step.weights, hidden))
        agree("dcrnn, forward", ours, hidden)


def with_float64(call):
    """DConv multiplies the adjacency matrix by ones of the default type."""
    torch.set_default_dtype(torch.float64)
    try:
        return call()
    finally:
        torch.set_default_dtype(torch.float32)


def one_hop(layer, step, x):
    """What a DConv passes against the edges in one hop: all its weights but that one are zero, that one is
    the identity."""
    with torch.no_grad():
        layer.weight.zero_(), layer.bias.zero_()
        layer.weight[1, 1] = torch.eye(WIDTH)
    return with_float64(lambda: layer(x, step.index, step.weights))


def dcrnn_backward():
    """differs from torch_geometric_temporal DConv against the edges: wrong degrees, in another order"""
    step, x = ring(1.0), normal(VERTICES, WIDTH)
    theirs = one_hop(DConv(WIDTH, WIDTH, 2).double(), step, x)
    ours = models.random_walk(step.reversed(), x)
    differ("dcrnn, backward", ours, theirs)
    agree("dcrnn, backward, as it is written there", as_written(step, x), theirs)
    flipped = DConv(WIDTH, WIDTH, 2).double()
    with torch.no_grad():
        flipped.weight.zero_()
        flipped.weight[0, 1] = torch.eye(WIDTH)
    back = step.reversed()
    agree(
        "dcrnn, forward on the reversed graph",
        ours,
        with_float64(lambda: flipped(x, back.index, back.weights)),
    )
    lonely = graphs.graph([(0, 1), (1, 2)], 3, numpy.random.default_rng(3))
    result = one_hop(DConv(WIDTH, WIDTH, 2).double(), lonely, normal(3, WIDTH))
    assert not torch.isfinite(result).all(), "DConv: a source without edges in gives finite values now"


def as_written(step, x):
    """Coefficient number i is one over the in-degree of the source of edge i, but it is put on reversed edge
    i, and those are sorted by target first."""
    coefficients = models.inverse(models.total(step, step.targets))[step.sources]
    order = sorted(
        range(len(step.edges)), key=lambda edge: (int(step.targets[edge]), int(step.sources[edge]))
    )
    back = step.reversed()
    return models.gather(back._replace(edges=back.edges[order]), coefficients, x)


def dcrnn_weights():
    """differs from torch_geometric_temporal DConv with edge weights: they count in the degrees only"""
    step, x = ring(), normal(VERTICES, WIDTH)
    layer = DConv(WIDTH, WIDTH, 2).double()
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[0, 1] = torch.eye(WIDTH)
    theirs = with_float64(lambda: layer(x, step.index, step.weights))
    differ("dcrnn, weights", models.random_walk(step, x), theirs)
    coefficients = models.inverse(models.total(step, step.sources))[step.sources]
    agree("dcrnn, weights, as it is written there", models.gather(step, coefficients, x), theirs)


def dcrnn_third_power():
    """differs from torch_geometric_temporal DConv from the third hop on: 2PT - x instead of 2PT - Px"""
    step, x = ring(1.0), normal(VERTICES, WIDTH)
    layer = DConv(WIDTH, WIDTH, 4).double()
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[0, 3] = torch.eye(WIDTH)
    theirs = with_float64(lambda: layer(x, step.index, step.weights))
    one = models.random_walk(step, x)
    two = 2 * models.random_walk(step, one) - x
    differ("dcrnn, third hop", 2 * models.random_walk(step, two) - one, theirs)
    agree("dcrnn, third hop, as it is written there", 2 * models.random_walk(step, two) - x, theirs)


def dcrnn_batched():
    """differs from torch_geometric_temporal BatchedDConv in the same way as from DConv"""
    step, x = ring(1.0), normal(VERTICES, WIDTH)
    agree(
        "batched dcrnn, backward",
        as_written(step, x),
        one_hop(BatchedDConv(WIDTH, WIDTH, 2).double(), step, x),
    )


if __name__ == "__main__":
    torch.manual_seed(0)
    check()
