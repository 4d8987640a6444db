"""The models in plain PyTorch, as Kymo defines them: the shapes of their parameters and their forward pass.

A forward pass takes the settings of the case, the parameters by name, the graph and the features [N,in] of
every step, and returns the embedding [N,hidden] of every vertex after every step. Vectors are rows, so a
layer is x W with W [in,out].
"""

import torch

MARGIN = 1e-4


class Kink(Exception):
    """A value so close to a kink or a tie that rounding could decide on which side it falls."""


def away_from_zero(values):
    if values.numel() and values.detach().abs().min() < MARGIN:
        raise Kink
    return values


def relu(x):
    return away_from_zero(x).clamp(min=0)


def leaky_relu(x):
    return torch.where(away_from_zero(x) > 0, x, 0.2 * x)


def elu(x):
    return torch.where(x > 0, x, torch.expm1(x.clamp(max=0)))


# Structure: one step at a time.


def gather(graph, coefficients, x):
    """For every target the sum over its incoming edges of coefficient times the source's row."""
    zeros = x.new_zeros(graph.vertices, x.shape[1])
    return zeros.index_add(0, graph.targets, coefficients[:, None] * x[graph.sources])


def total(graph, ends):
    """The sum of the weights of the edges at every vertex, where ends names the end that counts."""
    return graph.weights.new_zeros(graph.vertices).index_add(0, ends, graph.weights)


def inverse(degrees, power=1.0):
    return torch.where(degrees == 0, torch.zeros_like(degrees), degrees ** -power)


def with_self_loops(graph):
    """A self-loop of weight one at every vertex that has none."""
    loops = graph.sources[graph.sources == graph.targets].tolist()
    missing = torch.tensor([v for v in range(graph.vertices) if v not in loops], dtype=torch.int64)
    edges = torch.cat([graph.edges, missing[:, None].expand(-1, 2)])
    return graph._replace(
        edges=edges, weights=torch.cat([graph.weights, graph.weights.new_ones(len(missing))])
    )


def propagate(graph, x, normalisation):
    graph = with_self_loops(graph)
    degrees = total(graph, graph.targets)
    coefficients = graph.weights
    if normalisation == "both":
        root = inverse(degrees, 0.5)
        coefficients = coefficients * root[graph.sources] * root[graph.targets]
    elif normalisation == "right":
        coefficients = coefficients * inverse(degrees)[graph.targets]
    else:
        assert normalisation == "none"
    return gather(graph, coefficients, x)


def gcn_layer(graph, x, weight, bias, normalisation):
    return propagate(graph, x, normalisation) @ weight + bias


def gat_layer(graph, x, weight, source, target, bias):
    """Graph attention with concatenated heads; edge weights do not count, every vertex has exactly one
    self-loop."""
    graph = with_self_loops(graph)
    heads, width = source.shape
    h = (x @ weight).reshape(-1, heads, width)
    logits = leaky_relu((h * source).sum(2)[graph.sources] + (h * target).sum(2)[graph.targets])
    rows = []
    for vertex in range(graph.vertices):
        incoming = graph.targets == vertex
        attention = torch.softmax(logits[incoming], dim=0)
        rows.append((attention[:, :, None] * h[graph.sources[incoming]]).sum(0).reshape(-1))
    return torch.stack(rows) + bias


def sage_mean(graph, x):
    ones = torch.ones_like(graph.weights)
    counts = total(graph._replace(weights=ones), graph.targets)
    return gather(graph, inverse(counts)[graph.targets], x)


def sage_pool(graph, x, weight, bias):
    pooled = relu(x @ weight + bias)
    rows = []
    for vertex in range(graph.vertices):
        incoming = pooled[graph.sources[graph.targets == vertex]]
        rows.append(largest(incoming) if len(incoming) else pooled.new_zeros(pooled.shape[1]))
    return torch.stack(rows)


def largest(rows):
    """The largest value of every column. A tie at zero does no harm: nothing flows back through it."""
    ordered = rows.detach().sort(0, descending=True).values
    if len(rows) > 1 and ((ordered[0] - ordered[1] < MARGIN) & (ordered[0] > 0)).any():
        raise Kink
    return rows.max(0).values


# Time: from step to step, every vertex on its own.


def lstm(inputs, weight, state, bias):
    """All hidden states, from the zero state; gates in the order input, forget, cell, output."""
    hidden = cell = inputs[0].new_zeros(len(inputs[0]), len(state))
    outputs = []
    for x in inputs:
        i, f, g, o = (x @ weight + hidden @ state + bias).chunk(4, dim=1)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        hidden = torch.sigmoid(o) * torch.tanh(cell)
        outputs.append(hidden)
    return outputs


def gru(inputs, weight, state, bias, state_bias):
    """All states, from the zero state; gates in the order reset, update, new, the reset after the product."""
    hidden = inputs[0].new_zeros(len(inputs[0]), len(state))
    outputs = []
    for x in inputs:
        (xr, xz, xn), (hr, hz, hn) = (
            (x @ weight + bias).chunk(3, dim=1),
            (hidden @ state + state_bias).chunk(3, dim=1),
        )
        update = torch.sigmoid(xz + hz)
        hidden = (1 - update) * torch.tanh(xn + torch.sigmoid(xr + hr) * hn) + update * hidden
        outputs.append(hidden)
    return outputs


def temporal_attention(inputs, parameters, heads):
    query, key, value = (parameters[f"time.{name}"] for name in ["query", "key", "value"])
    placed = [x + parameters["time.position"][t] for t, x in enumerate(inputs)]
    outputs = []
    for t, x in enumerate(placed):
        past = torch.stack(placed[: t + 1])  # [t+1,N,H]
        q, k, v = split(x @ query, heads), split(past @ key, heads), split(past @ value, heads)
        attention = torch.softmax((q * k).sum(-1) / q.shape[-1] ** 0.5, dim=0)  # [t+1,N,heads]
        o = (attention[..., None] * v).sum(0).reshape(x.shape)
        fed = relu(o @ parameters["time.feed.weight"] + parameters["time.feed.bias"]) + o
        outputs.append(fed + x)
    return outputs


def split(x, heads):
    return x.reshape(*x.shape[:-1], heads, -1)


# Models.


def widths(case):
    """Input and output width of every structure layer."""
    return [
        (case["features"] if layer == 0 else case["hidden"], case["hidden"])
        for layer in range(case["layers"])
    ]


def gcn_shapes(case, layers=None):
    shapes = {}
    for layer, (width, out) in enumerate(widths(case)[:layers]):
        shapes[f"structure.{layer}.weight"] = (width, out)
        shapes[f"structure.{layer}.bias"] = (out,)
    return shapes


def gcn_layers(case, parameters, graph, x, layers, last_relu):
    """The outputs of all layers."""
    outputs = []
    for layer in range(layers):
        weight, bias = parameters[f"structure.{layer}.weight"], parameters[f"structure.{layer}.bias"]
        x = gcn_layer(graph, x, weight, bias, case["normalisation"])
        if last_relu or layer + 1 < layers:
            x = relu(x)
        outputs.append(x)
    return outputs


def gcn(case, parameters, graphs, features):
    return [
        gcn_layers(case, parameters, graph, x, case["layers"], case.get("below", False))[-1]
        for graph, x in zip(graphs, features)
    ]


def lstm_shapes(prefix, width, hidden):
    shapes = {"input": (width, 4 * hidden), "state": (hidden, 4 * hidden), "bias": (4 * hidden,)}
    return {f"{prefix}.{name}": shape for name, shape in shapes.items()}


def lstm_of(parameters, prefix, inputs):
    return lstm(inputs, *(parameters[f"{prefix}.{name}"] for name in ["input", "state", "bias"]))


def wd_gcn_shapes(case):
    return gcn_shapes(case) | lstm_shapes("time", case["hidden"], case["hidden"])


def wd_gcn(case, parameters, graphs, features):
    inputs = [
        gcn_layers(case, parameters, graph, x, case["layers"], True)[-1] for graph, x in zip(graphs, features)
    ]
    return lstm_of(parameters, "time", inputs)


def gcn_gru_shapes(case):
    hidden = case["hidden"]
    shapes = {
        "input": (hidden, 3 * hidden),
        "state": (hidden, 3 * hidden),
        "bias": (3 * hidden,),
        "state_bias": (3 * hidden,),
    }
    return gcn_shapes(case) | {f"time.{name}": shape for name, shape in shapes.items()}


def gcn_gru(case, parameters, graphs, features):
    inputs = [
        gcn_layers(case, parameters, graph, x, case["layers"], True)[-1] for graph, x in zip(graphs, features)
    ]
    return gru(inputs, *(parameters[f"time.{name}"] for name in ["input", "state", "bias", "state_bias"]))


def mpnn_lstm_shapes(case):
    first = lstm_shapes("time.0", case["layers"] * case["hidden"], case["hidden"])
    return gcn_shapes(case) | first | lstm_shapes("time.1", case["hidden"], case["hidden"])


def mpnn_lstm(case, parameters, graphs, features):
    layers = [
        gcn_layers(case, parameters, graph, x, case["layers"], True) for graph, x in zip(graphs, features)
    ]
    first = lstm_of(parameters, "time.0", [torch.cat(outputs, dim=1) for outputs in layers])
    return lstm_of(parameters, "time.1", first)


def gat_shapes(case):
    shapes = {}
    heads = case["heads"]
    for layer, (width, out) in enumerate(widths(case)):
        shapes[f"structure.{layer}.weight"] = (width, out)
        shapes[f"structure.{layer}.source"] = (heads, out // heads)
        shapes[f"structure.{layer}.target"] = (heads, out // heads)
        shapes[f"structure.{layer}.bias"] = (out,)
    return shapes


def gat_layers(case, parameters, graph, x):
    for layer in range(case["layers"]):
        names = ["weight", "source", "target", "bias"]
        x = elu(gat_layer(graph, x, *(parameters[f"structure.{layer}.{name}"] for name in names)))
    return x


def gat_lstm_shapes(case):
    return gat_shapes(case) | lstm_shapes("time", case["hidden"], case["hidden"])


def gat_lstm(case, parameters, graphs, features):
    inputs = [gat_layers(case, parameters, graph, x) for graph, x in zip(graphs, features)]
    return lstm_of(parameters, "time", inputs)


def dysat_shapes(case):
    hidden = case["hidden"]
    square = {f"time.{name}": (hidden, hidden) for name in ["query", "key", "value", "feed.weight"]}
    return (
        gat_shapes(case) | square | {"time.feed.bias": (hidden,), "time.position": (case["window"], hidden)}
    )


def dysat(case, parameters, graphs, features):
    inputs = [gat_layers(case, parameters, graph, x) for graph, x in zip(graphs, features)]
    return temporal_attention(inputs, parameters, case["heads"])


def t_gcn_shapes(case):
    hidden = case["hidden"]
    width = widths(case)[-1][0]
    gates = {
        "gate.input": (width, 3 * hidden),
        "gate.state": (hidden, 3 * hidden),
        "gate.bias": (3 * hidden,),
    }
    return gcn_shapes(case, case["layers"] - 1) | gates


def t_gcn(case, parameters, graphs, features):
    hidden = features[0].new_zeros(len(features[0]), case["hidden"])
    outputs = []
    for graph, x in zip(graphs, features):
        below = gcn_layers(case, parameters, graph, x, case["layers"] - 1, True)
        x = below[-1] if below else x
        g = gcn_layer(graph, x, parameters["gate.input"], parameters["gate.bias"], case["normalisation"])
        hidden = t_gcn_cell(g, hidden, parameters["gate.state"])
        outputs.append(hidden)
    return outputs


def t_gcn_cell(g, hidden, state):
    (update, reset, candidate), (to_update, to_reset, to_candidate) = g.chunk(3, dim=1), state.chunk(3, dim=1)
    z = torch.sigmoid(update + hidden @ to_update)
    r = torch.sigmoid(reset + hidden @ to_reset)
    n = torch.tanh(candidate + (r * hidden) @ to_candidate)
    return z * hidden + (1 - z) * n


def a3t_gcn_shapes(case):
    return t_gcn_shapes(case) | {"attention.score": (1, case["hidden"])}


def a3t_gcn(case, parameters, graphs, features):
    """The states of T-GCN up to each step, weighed by a softmax of their scores, each vertex by itself."""
    states = torch.stack(t_gcn(case, parameters, graphs, features))
    scores = (states * parameters["attention.score"]).sum(2, keepdim=True)
    return [(torch.softmax(scores[: t + 1], dim=0) * states[: t + 1]).sum(0) for t in range(len(states))]


def evolvegcn_o_shapes(case):
    shapes = gcn_shapes(case)
    for layer, (width, out) in enumerate(widths(case)):
        shapes[f"evolve.{layer}.state"] = (4 * width, width)
        shapes[f"evolve.{layer}.bias"] = (4 * width, out)
    return shapes


def matrix_lstm(weight, cell, state, bias):
    """The next weight and cell of a matrix LSTM whose input and hidden state are both the weight."""
    i, f, g, o = (state @ weight + bias).chunk(4, dim=0)
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


def evolvegcn_o(case, parameters, graphs, features):
    inputs = features
    for layer in range(case["layers"]):
        weight = parameters[f"structure.{layer}.weight"]
        cell = torch.zeros_like(weight)
        outputs = []
        for graph, x in zip(graphs, inputs):
            state, bias = parameters[f"evolve.{layer}.state"], parameters[f"evolve.{layer}.bias"]
            weight, cell = matrix_lstm(weight, cell, state, bias)
            outputs.append(evolved_layer(case, parameters, layer, graph, x, weight))
        inputs = outputs
    return inputs


def evolved_layer(case, parameters, layer, graph, x, weight):
    x = gcn_layer(graph, x, weight, parameters[f"structure.{layer}.bias"], case["normalisation"])
    return relu(x) if layer + 1 < case["layers"] or case.get("below") else x


def evolvegcn_h_shapes(case):
    shapes = gcn_shapes(case)
    for layer, (width, out) in enumerate(widths(case)):
        shapes[f"evolve.{layer}.score"] = (width, 1)
        shapes[f"evolve.{layer}.input"] = (3 * width, width)
        shapes[f"evolve.{layer}.state"] = (3 * width, width)
        shapes[f"evolve.{layer}.bias"] = (3 * width, out)
    return shapes


def ranking(x, score):
    """The score of every vertex and the vertices by falling score, the lower index first among equals."""
    scores = (x @ score / score.norm())[:, 0]
    order = scores.detach().sort(descending=True, stable=True).indices
    return scores, order


def summary(x, score, columns):
    """The best vertices as the columns of a matrix [in,columns]; columns without a vertex are zero."""
    scores, order = ranking(x, score)
    for one, next in zip(order[:columns], order[1:]):
        if scores[one] - scores[next] < MARGIN and not torch.equal(x[one], x[next]):
            raise Kink
    best = order[:columns]
    chosen = x[best] * torch.tanh(scores[best])[:, None]
    missing = chosen.new_zeros(columns - len(best), x.shape[1])
    return torch.cat([chosen, missing]).t()


def matrix_gru(weight, z, inputs, states, biases):
    """The next weight of a matrix GRU with input z; row blocks update, reset, candidate."""
    (wz, wr, wh), (uz, ur, uh), (bz, br, bh) = inputs.chunk(3), states.chunk(3), biases.chunk(3)
    update = torch.sigmoid(wz @ z + uz @ weight + bz)
    reset = torch.sigmoid(wr @ z + ur @ weight + br)
    candidate = torch.tanh(wh @ z + uh @ (reset * weight) + bh)
    return (1 - update) * weight + update * candidate


def evolvegcn_h(case, parameters, graphs, features):
    inputs = features
    for layer in range(case["layers"]):
        weight = parameters[f"structure.{layer}.weight"]
        outputs = []
        for graph, x in zip(graphs, inputs):
            z = summary(x, parameters[f"evolve.{layer}.score"], weight.shape[1])
            gates = (parameters[f"evolve.{layer}.{name}"] for name in ["input", "state", "bias"])
            weight = matrix_gru(weight, z, *gates)
            outputs.append(evolved_layer(case, parameters, layer, graph, x, weight))
        inputs = outputs
    return inputs


def dcrnn_shapes(case):
    hidden = case["hidden"]
    width = (2 * case["diffusion"] + 1) * (case["features"] + hidden)
    gates = {"gate.weight": (width, 2 * hidden), "gate.bias": (2 * hidden,)}
    return gates | {"candidate.weight": (width, hidden), "candidate.bias": (hidden,)}


def random_walk(graph, x):
    """Along the edges: every source shares its row among its targets, by weight."""
    return gather(graph, graph.weights * inverse(total(graph, graph.sources))[graph.sources], x)


def diffuse(graph, x, steps):
    """The row itself, then one to `steps` steps along the edges, then as many against them."""
    parts = [x]
    for direction in [graph, graph.reversed()]:
        walked = x
        for _ in range(steps):
            walked = random_walk(direction, walked)
            parts.append(walked)
    return torch.cat(parts, dim=1)


def dcrnn(case, parameters, graphs, features):
    hidden = features[0].new_zeros(len(features[0]), case["hidden"])
    outputs = []
    for graph, x in zip(graphs, features):
        both = diffuse(graph, torch.cat([x, hidden], dim=1), case["diffusion"])
        z, r = torch.sigmoid(both @ parameters["gate.weight"] + parameters["gate.bias"]).chunk(2, dim=1)
        both = diffuse(graph, torch.cat([x, r * hidden], dim=1), case["diffusion"])
        candidate = torch.tanh(both @ parameters["candidate.weight"] + parameters["candidate.bias"])
        hidden = z * hidden + (1 - z) * candidate
        outputs.append(hidden)
    return outputs


def gc_lstm_shapes(case):
    hidden = case["hidden"]
    shapes = {}
    for layer in range(case["layers"]):
        prefix, width = ("", case["features"]) if layer == 0 else (f"layer.{layer}.", hidden)
        shapes[f"{prefix}gate.input"] = (width, 4 * hidden)
        shapes[f"{prefix}gate.heard"] = (case["diffusion"] * hidden, 4 * hidden)
        shapes[f"{prefix}gate.state"] = (hidden, 4 * hidden)
        shapes[f"{prefix}gate.bias"] = (4 * hidden,)
    return shapes


def gc_lstm(case, parameters, graphs, features):
    """Gates in the order input, forget, cell, output; they hear states as far as the polynomial goes."""
    for layer in range(case["layers"]):
        prefix = "" if layer == 0 else f"layer.{layer}."
        weight, others, state, bias = (
            parameters[f"{prefix}gate.{name}"] for name in ["input", "heard", "state", "bias"]
        )
        hidden = cell = features[0].new_zeros(len(features[0]), case["hidden"])
        outputs = []
        for graph, x in zip(graphs, features):
            heard = [hidden]
            for _ in range(case["diffusion"]):
                heard.append(propagate(graph, heard[-1], case["normalisation"]))
            gates = x @ weight + torch.cat(heard[1:], dim=1) @ others + hidden @ state + bias
            i, f, g, o = gates.chunk(4, dim=1)
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            hidden = torch.sigmoid(o) * torch.tanh(cell)
            outputs.append(hidden)
        features = outputs
    return features


def stgcn_shapes(case):
    hidden, kernel = case["hidden"], case["kernel"]
    shapes = {}
    for name, width in [("before", case["features"]), ("time", hidden)]:
        shapes[f"{name}.weight"] = (kernel * width, 3 * hidden)
        shapes[f"{name}.bias"] = (3 * hidden,)
    for layer in range(case["layers"]):
        shapes[f"structure.{layer}.weight"] = ((case["diffusion"] + 1) * hidden, hidden)
        shapes[f"structure.{layer}.bias"] = (hidden,)
    return shapes


def gated_convolution(case, parameters, name, inputs):
    """A step and those before it, the latest first; zeros before the first step."""
    zeros = [torch.zeros_like(inputs[0])] * (case["kernel"] - 1)
    padded, outputs = zeros + inputs, []
    for t in range(len(inputs)):
        seen = torch.cat(padded[t : t + case["kernel"]][::-1], dim=1)
        p, q, r = (seen @ parameters[f"{name}.weight"] + parameters[f"{name}.bias"]).chunk(3, dim=1)
        outputs.append(relu(p * torch.sigmoid(q) + r))
    return outputs


def stgcn(case, parameters, graphs, features):
    outputs = []
    for graph, x in zip(graphs, gated_convolution(case, parameters, "before", features)):
        for layer in range(case["layers"]):
            powers = [x]
            for _ in range(case["diffusion"]):
                powers.append(propagate(graph, powers[-1], case["normalisation"]))
            weight, bias = (parameters[f"structure.{layer}.{name}"] for name in ["weight", "bias"])
            x = relu(torch.cat(powers, dim=1) @ weight + bias)
        outputs.append(x)
    return gated_convolution(case, parameters, "time", outputs)


def graphsage_linear_shapes(case):
    shapes = {"time.bias": (case["hidden"],)}
    for layer, (width, out) in enumerate(widths(case)):
        shapes[f"structure.{layer}.self"] = (width, out)
        shapes[f"structure.{layer}.neighbour"] = (width, out)
        shapes[f"structure.{layer}.bias"] = (out,)
        if case["aggregate"] == "pool":
            shapes[f"structure.{layer}.pool.weight"] = (width, width)
            shapes[f"structure.{layer}.pool.bias"] = (width,)
    return shapes | {f"time.{k}.weight": (case["hidden"], case["hidden"]) for k in range(case["window"])}


def sage_layer(case, parameters, layer, graph, x):
    if case["aggregate"] == "pool":
        pool = (parameters[f"structure.{layer}.pool.{name}"] for name in ["weight", "bias"])
        neighbours = sage_pool(graph, x, *pool)
    else:
        neighbours = sage_mean(graph, x)
    own, other, bias = (parameters[f"structure.{layer}.{name}"] for name in ["self", "neighbour", "bias"])
    return x @ own + neighbours @ other + bias


def roland_prefix(case, layer):
    return f"layers.{layer}." if case["layers"] > 1 else ""


def roland_shapes(case):
    hidden, shapes = case["hidden"], {}
    updates = {
        "gru": {"input": (hidden, 3 * hidden), "state": (hidden, 3 * hidden)}
        | {"bias": (3 * hidden,), "state_bias": (3 * hidden,)},
        "mlp": {"input": (hidden, hidden), "state": (hidden, hidden), "bias": (hidden,)}
        | {"output.weight": (hidden, hidden), "output.bias": (hidden,)},
        "average": {"keep": (hidden,)},
    }
    for layer, (width, out) in enumerate(widths(case)):
        prefix = roland_prefix(case, layer)
        for name in ["self", "neighbour"]:
            shapes[f"{prefix}structure.0.{name}"] = (width, out)
        shapes[f"{prefix}structure.0.bias"] = (out,)
        shapes |= {f"{prefix}time.{name}": shape for name, shape in updates[case["update"]].items()}
    return shapes


def roland(case, parameters, graphs, features):
    """Layers above each other; what each makes of a step updates its own state, which the next one reads."""
    for layer in range(case["layers"]):
        prefix = roland_prefix(case, layer)
        own = {key[len(prefix) :]: value for key, value in parameters.items() if key.startswith(prefix)}
        made = []
        for graph, x in zip(graphs, features):
            sum = sage_layer({"aggregate": "mean"}, own, 0, graph, x)
            made.append(relu(sum + x if x.shape == sum.shape else sum))
        time = {key[len("time.") :]: own[key] for key in own if key.startswith("time.")}
        features = UPDATES[case["update"]](time, made)
    return features


def gru_update(own, made):
    return gru(made, own["input"], own["state"], own["bias"], own["state_bias"])


def mlp_update(own, made):
    state, outputs = torch.zeros_like(made[0]), []
    for x in made:
        inner = relu(x @ own["input"] + state @ own["state"] + own["bias"])
        state = inner @ own["output.weight"] + own["output.bias"]
        outputs.append(state)
    return outputs


def average_update(own, made):
    """It begins with the first step."""
    keep, outputs = torch.sigmoid(own["keep"]), made[:1]
    for x in made[1:]:
        outputs.append(keep * outputs[-1] + (1 - keep) * x)
    return outputs


UPDATES = {"gru": gru_update, "mlp": mlp_update, "average": average_update}


def graphsage_linear(case, parameters, graphs, features):
    inputs = []
    for graph, x in zip(graphs, features):
        for layer in range(case["layers"]):
            x = relu(sage_layer(case, parameters, layer, graph, x))
        inputs.append(x)
    return [causal_sum(case, parameters, inputs[: t + 1]) for t in range(len(inputs))]


def causal_sum(case, parameters, past):
    recent = past[::-1][: case["window"]]
    return sum(x @ parameters[f"time.{k}.weight"] for k, x in enumerate(recent)) + parameters["time.bias"]


MODELS = {
    "gcn": (gcn_shapes, gcn),
    "wd-gcn": (wd_gcn_shapes, wd_gcn),
    "gcn-gru": (gcn_gru_shapes, gcn_gru),
    "gat-lstm": (gat_lstm_shapes, gat_lstm),
    "t-gcn": (t_gcn_shapes, t_gcn),
    "a3t-gcn": (a3t_gcn_shapes, a3t_gcn),
    "evolvegcn-o": (evolvegcn_o_shapes, evolvegcn_o),
    "evolvegcn-h": (evolvegcn_h_shapes, evolvegcn_h),
    "dysat": (dysat_shapes, dysat),
    "mpnn-lstm": (mpnn_lstm_shapes, mpnn_lstm),
    "dcrnn": (dcrnn_shapes, dcrnn),
    "gc-lstm": (gc_lstm_shapes, gc_lstm),
    "stgcn": (stgcn_shapes, stgcn),
    "graphsage-linear": (graphsage_linear_shapes, graphsage_linear),
    "roland": (roland_shapes, roland),
}


# Blocks: models above each other, each of which reads what the one below made of every vertex at every step.


def block(case, number):
    """The settings of one block. What is below another one has no last layer: all of them have their ReLU."""
    width = case["features"] if number == 0 else case["hidden"]
    return case | {"features": width, "below": number + 1 < case.get("blocks", 1)}


def prefix(case, number):
    return f"blocks.{number}." if case.get("blocks", 1) > 1 else ""


def shapes(case):
    """The shapes of all parameters by name."""
    return {
        prefix(case, number) + name: shape
        for number in range(case.get("blocks", 1))
        for name, shape in MODELS[case["model"]][0](block(case, number)).items()
    }


def forward(case, parameters, graphs, features):
    for number in range(case.get("blocks", 1)):
        start = prefix(case, number)
        own = {name[len(start) :]: value for name, value in parameters.items() if name.startswith(start)}
        features = MODELS[case["model"]][1](block(case, number), own, graphs, features)
    return features
