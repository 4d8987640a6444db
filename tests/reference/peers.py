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
from torch_geometric_temporal.nn.attention import STConv  # noqa: E402
from torch_geometric_temporal.nn.recurrent import A3TGCN, GCLSTM, MPNNLSTM, TGCN  # noqa: E402
from torch_geometric_temporal.nn.recurrent import EvolveGCNH, EvolveGCNO  # noqa: E402

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
    cells = [t_gcn, a3t_gcn, a3t_gcn_places, evolvegcn_o, evolvegcn_h, mpnn_lstm, gc_lstm, stgcn, roland]
    run(layers + cells)


def run(checks):
    for one in checks:
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


def t_gcn_gates(cell):
    """The parameters of a TGCN in our terms."""
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
    return {
        "gate.input": torch.cat(inputs, 1),
        "gate.state": torch.cat(states, 1),
        "gate.bias": torch.cat(biases),
    }


def t_gcn():
    """= torch_geometric_temporal TGCN, its convolution and linear part multiplied out"""
    cell = randomise(TGCN(WIDTH, HIDDEN))
    gates = t_gcn_gates(cell)
    features = [normal(VERTICES, WIDTH) for _ in steps()]
    case = {"hidden": HIDDEN, "layers": 1, "normalisation": "both"}
    hidden = torch.zeros(VERTICES, HIDDEN, dtype=torch.float64)
    for step, x, ours in zip(steps(), features, models.t_gcn(case, gates, steps(), features)):
        hidden = cell(x, step.index, step.weights, hidden)
        agree("t-gcn", ours, hidden)


def a3t_gcn():
    """= torch_geometric_temporal TGCN under two linear maps and a softmax, the maps multiplied out"""
    cell, hidden, states = randomise(TGCN(WIDTH, HIDDEN)), None, []
    first, second = randomise(torch.nn.Linear(HIDDEN, 4)), randomise(torch.nn.Linear(4, 1))
    parameters = t_gcn_gates(cell) | {"attention.score": second.weight @ first.weight}
    features = [normal(VERTICES, WIDTH) for _ in steps()]
    case = {"hidden": HIDDEN, "layers": 1, "normalisation": "both"}
    for step, x, ours in zip(steps(), features, models.a3t_gcn(case, parameters, steps(), features)):
        hidden = with_float64(lambda: cell(x, step.index, step.weights, hidden))
        states.append(hidden)
        shares = torch.softmax(torch.stack([second(first(state)) for state in states]), dim=0)
        agree("a3t-gcn", ours, (shares * torch.stack(states)).sum(0))


def a3t_gcn_places():
    """= torch_geometric_temporal A3TGCN where cells forget; its own begin anew, and score places"""
    peer, places = randomise(A3TGCN(WIDTH, HIDDEN, 4)), torch.tensor([-1.0, 0.3, 0.8, 0.1])
    features, cell = [normal(VERTICES, WIDTH) for _ in places], peer._base_tgcn
    # A column of the states that has the score of the place, at every vertex of a circle.
    one = torch.eye(HIDDEN, dtype=torch.float64)[0]
    with torch.no_grad():
        for x, place in zip(features, places):
            x[:, 0] = place
        cell.conv_h.lin.weight[0], cell.conv_h.bias[0] = one[:WIDTH], 0
        cell.linear_h.weight[0], cell.linear_h.bias[0] = torch.cat([one, torch.zeros_like(one)]), 0
        peer._attention.copy_(torch.tanh(places))
    parameters = t_gcn_gates(cell) | {"attention.score": one[None]}
    step, case = circle(), {"hidden": HIDDEN, "layers": 1, "normalisation": "both"}

    def both():
        theirs = with_float64(lambda: peer(torch.stack(features, dim=2), step.index, step.weights))
        return models.a3t_gcn(case, parameters, [step] * len(places), features)[-1], theirs

    differ("A3TGCN, whose cells do not hear of the step before", *both())
    # Nothing is kept where the update gate is zero and the candidate hears nothing of the state.
    parameters["gate.bias"] = parameters["gate.bias"].clone()
    with torch.no_grad():
        cell.linear_z.bias -= 1000
        parameters["gate.bias"][:HIDDEN] -= 1000
        cell.linear_h.weight[:, HIDDEN:] = 0
        parameters["gate.state"][:, 2 * HIDDEN :] = 0
    agree("A3TGCN", *both())


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


def roland():
    """= torch_geometric SAGEConv and a skip under torch.nn.GRUCell and torch.nn.Linear, for all updates"""
    cell, graph = randomise(torch.nn.GRUCell(HIDDEN, HIDDEN)), steps()
    inner, outer = randomise(torch.nn.Linear(2 * HIDDEN, HIDDEN)), randomise(torch.nn.Linear(HIDDEN, HIDDEN))
    keep = normal(HIDDEN)
    convs = [randomise(SAGEConv(WIDTH, HIDDEN)), randomise(SAGEConv(HIDDEN, HIDDEN))]
    both = inner.weight.t().split(HIDDEN)
    times = {
        "gru": {"input": cell.weight_ih.t(), "state": cell.weight_hh.t()}
        | {"bias": cell.bias_ih, "state_bias": cell.bias_hh},
        "mlp": {"input": both[0], "state": both[1], "bias": inner.bias}
        | {"output.weight": outer.weight.t(), "output.bias": outer.bias},
        "average": {"keep": keep},
    }
    updates = {
        "gru": lambda x, state: cell(x, state),
        "mlp": lambda x, state: outer(torch.relu(inner(torch.cat([x, state], dim=1)))),
        "average": lambda x, state: torch.lerp(x, state, torch.sigmoid(keep)),
    }
    features = [normal(VERTICES, WIDTH) for _ in graph]
    for update, act in updates.items():
        parameters = {}
        for layer, conv in enumerate(convs):
            parameters[f"layers.{layer}.structure.0.self"] = conv.lin_r.weight.t()
            parameters[f"layers.{layer}.structure.0.neighbour"] = conv.lin_l.weight.t()
            parameters[f"layers.{layer}.structure.0.bias"] = conv.lin_l.bias
            parameters |= {f"layers.{layer}.time.{name}": value for name, value in times[update].items()}
        ours = models.roland({"layers": 2, "update": update}, parameters, graph, features)
        states = [None, None]
        for step, x, found in zip(graph, features, ours):
            for layer, conv in enumerate(convs):
                made = torch.relu(conv(x, step.index) + (x if layer else 0))
                begun = made if update == "average" else torch.zeros_like(made)
                x = states[layer] = act(made, begun if states[layer] is None else states[layer])
            agree(f"roland, {update}", found, x)


def circle():
    """A graph in which every vertex has one edge to either side, all of weight one."""
    pairs = [(v, (v + side) % VERTICES) for v in range(VERTICES) for side in [1, VERTICES - 1]]
    made = graphs.graph(pairs, VERTICES, numpy.random.default_rng(2))
    return made._replace(weights=torch.ones_like(made.weights))


def stgcn():
    """= torch_geometric_temporal STConv without batch norm, from the fifth step on; polynomials, see there"""
    peer = randomise(STConv(VERTICES, WIDTH, HIDDEN, HIDDEN, 3, 3))
    norm = peer._batch_norm
    torch.nn.init.ones_(norm.weight), torch.nn.init.zeros_(norm.bias)
    norm.eps = 0.0
    # On a circle, that of the Laplacian is L = (1 - 3 A) / 2, so that L and 2 L L - 1 are polynomials of A.
    own, one, two = (linear.weight.t() for linear in peer._graph_conv.lins)
    powers = [own + one / 2 - two / 2, -1.5 * one - 3 * two, 4.5 * two]
    parameters = {"structure.0.weight": torch.cat(powers), "structure.0.bias": peer._graph_conv.bias}
    for name, layer in [("before", peer._temporal_conv1), ("time", peer._temporal_conv2)]:
        convolutions = [layer.conv_1, layer.conv_2, layer.conv_3]
        # Theirs has the latest step last.
        rows = [torch.cat([one.weight[:, :, 0, t].t() for one in convolutions], dim=1) for t in [2, 1, 0]]
        parameters[f"{name}.weight"] = torch.cat(rows)
        parameters[f"{name}.bias"] = torch.cat([one.bias for one in convolutions])
    features = [normal(VERTICES, WIDTH) for _ in range(7)]
    case = {"layers": 1, "diffusion": 2, "kernel": 3, "normalisation": "both"}
    ours = models.stgcn(case, parameters, [circle()] * 7, features)
    theirs = peer(torch.stack(features)[None], circle().index, circle().weights)[0]
    agree("stgcn", torch.stack(ours[4:]), theirs)


def with_float64(call):
    """DConv multiplies the adjacency matrix by ones of the default type."""
    torch.set_default_dtype(torch.float64)
    try:
        return call()
    finally:
        torch.set_default_dtype(torch.float32)
