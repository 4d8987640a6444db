"""A window of T-GCN or WD-GCN in torch, as all comparisons with torch compute it.

Variants: `csr` (sparse CSR products, aggregated before the dense product where nothing flows back into the
features), `cached` (and the first layer's aggregated input kept for every snapshot), `compile` and
`compile-cached` (the same with torch.compile around everything dense), `lstm` and `lstm-cached`
(torch.nn.LSTM, which is cuDNN's on a GPU).

A graph is anything with `along` and, where something flows back through it, `back` (its transpose), and a
place `heard` for the input that is kept, None at first.
"""

import torch


class Aggregate(torch.autograd.Function):
    """A sparse product whose backward pass uses the transpose that is there already."""

    @staticmethod
    def forward(context, graph, x):
        context.graph = graph
        return graph.along @ x

    @staticmethod
    def backward(context, gradient):
        return None, context.graph.back @ gradient.contiguous()


def dense(x, weight, bias):
    return torch.addmm(bias, x, weight)


def error(outputs, weight, bias, counted, targets):
    """The mean squared error of the head after every step that counts."""
    predictions = torch.stack([outputs[t] for t in counted]) @ weight + bias
    return ((predictions.squeeze(2) - torch.stack(targets)) ** 2).mean()


def gated_window(gates, state, *goal):
    (to_update, to_reset, to_candidate), hidden, outputs = state.chunk(3, 1), None, []
    for g in gates:
        update, reset, candidate = g.chunk(3, 1)
        if hidden is None:
            hidden = (1 - torch.sigmoid(update)) * torch.tanh(candidate)
        else:
            z = torch.sigmoid(update + hidden @ to_update)
            r = torch.sigmoid(reset + hidden @ to_reset)
            n = torch.tanh(candidate + (r * hidden) @ to_candidate)
            hidden = z * hidden + (1 - z) * n
        outputs.append(hidden)
    return error(outputs, *goal)


def lstm_window(inputs, weight, state, bias, *goal):
    hidden = cell = None
    outputs = []
    for x in inputs:
        gates = torch.addmm(bias, x, weight)
        if hidden is not None:
            gates = gates + hidden @ state
        i, f, g, o = gates.chunk(4, 1)
        new = torch.sigmoid(i) * torch.tanh(g)
        cell = new if cell is None else torch.sigmoid(f) * cell + new
        hidden = torch.sigmoid(o) * torch.tanh(cell)
        outputs.append(hidden)
    return error(outputs, *goal)


class Window:
    """Computes with the parameters `params`, by Kymo's names; torch.nn.LSTM takes its own out of them."""

    def __init__(self, variant, layers, params):
        self.layers, self.params, self.fused = layers, params, None
        self.keeps = variant.endswith("cached")
        self.compiles = variant.startswith("compile")
        self.dense, self.gated_window, self.lstm_window = map(
            self.compiled, [dense, gated_window, lstm_window]
        )
        if variant.startswith("lstm"):
            self.fused = torch.nn.LSTM(*params["time.state"].shape[:1] * 2)
            with torch.no_grad():
                self.fused.weight_ih_l0.copy_(params.pop("time.input").t())
                self.fused.weight_hh_l0.copy_(params.pop("time.state").t())
                self.fused.bias_ih_l0.copy_(params.pop("time.bias")[0])
                self.fused.bias_hh_l0.zero_()
            self.fused.bias_hh_l0.requires_grad_(False)

    def compiled(self, function):
        return torch.compile(function, dynamic=False) if self.compiles else function

    def parameters(self):
        """All that is learnt."""
        of_torch = self.fused.parameters() if self.fused is not None else []
        return [parameter for parameter in [*self.params.values(), *of_torch] if parameter.requires_grad]

    def goal(self, counted, targets):
        return self.params["head.weight"], self.params["head.bias"], counted, targets

    def error(self, outputs, counted, targets):
        return error(outputs, *self.goal(counted, targets))

    def convolve(self, graph, x, weight, bias, of_features):
        """Aggregated first where nothing flows back into x, or where x is not wider than the result."""
        if not x.requires_grad:
            # Without gradients, as in a validation, this is so for all layers.
            if self.keeps and of_features:
                graph.heard = graph.along @ x if graph.heard is None else graph.heard
                return self.dense(graph.heard, weight, bias)
            return self.dense(graph.along @ x, weight, bias)
        if x.shape[1] <= weight.shape[1]:
            return self.dense(Aggregate.apply(graph, x), weight, bias)
        return Aggregate.apply(graph, x @ weight) + bias

    def layers_below(self, graph, x, count):
        for layer in range(count):
            weight, bias = (self.params[f"structure.{layer}.{name}"] for name in ["weight", "bias"])
            x = torch.relu(self.convolve(graph, x, weight, bias, layer == 0))
        return x

    def gated(self, gates, counted, targets):
        return self.gated_window(gates, self.params["gate.state"], *self.goal(counted, targets))

    def lstm(self, inputs, counted, targets):
        if self.fused is not None:
            outputs, _ = self.fused(torch.stack(inputs))
            return self.error(list(outputs), counted, targets)
        cell = (self.params[f"time.{name}"] for name in ["input", "state", "bias"])
        return self.lstm_window(inputs, *cell, *self.goal(counted, targets))

    def t_gcn(self, graphs, features, counted, targets):
        """The error of a window of T-GCN: targets of the steps of it that count."""
        gates = []
        for graph, x in zip(graphs, features):
            x = self.layers_below(graph, x, self.layers - 1)
            gate = self.params["gate.input"], self.params["gate.bias"]
            gates.append(self.convolve(graph, x, *gate, self.layers == 1))
        return self.gated(gates, counted, targets)

    def wd_gcn(self, graphs, features, counted, targets):
        """The same of WD-GCN."""
        inputs = [self.layers_below(graph, x, self.layers) for graph, x in zip(graphs, features)]
        return self.lstm(inputs, counted, targets)
