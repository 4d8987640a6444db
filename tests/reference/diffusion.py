"""Checks the diffusion of models.py against DCRNN of PyTorch Geometric Temporal, which agrees in part.

As in peers.py, on which this stands; README.md tells what differs and why.
"""

import numpy
import torch
from peers import HIDDEN, VERTICES, WIDTH, agree, differ, normal, randomise, ring, run, with_float64
from torch_geometric_temporal.nn.recurrent import DCRNN
from torch_geometric_temporal.nn.recurrent.dcrnn import BatchedDConv, DConv

import graphs
import models


def check():
    run([dcrnn_forward, dcrnn_backward, dcrnn_weights, dcrnn_third_power, dcrnn_batched])


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
