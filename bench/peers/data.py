"""The workload of the comparison: a skewed graph that changes by a tenth from step to step, targets that can
be learnt, and the first parameters of every model, as one safetensors file that all contenders read."""

import math

import numpy
from safetensors.numpy import save_file

HEADS = 4


def edges(vertices, count, random):
    """Distinct edges without loops, ends drawn by a power law."""
    weight = (numpy.arange(vertices) + 10.0) ** -0.7
    cumulated = numpy.cumsum(weight / weight.sum())
    order = random.permutation(vertices)

    def ends(number):
        return order[numpy.minimum(numpy.searchsorted(cumulated, random.random(number)), vertices - 1)]

    keys = numpy.empty(0, numpy.int64)
    while len(keys) < count:
        source, target = ends(count), ends(count)
        new = (target * vertices + source)[source != target]
        keys = numpy.unique(numpy.concatenate([keys, new]))
    return random.permutation(keys)[:count]


def shapes(model, layers, features, hidden):
    """The parameters of a model as Kymo names them."""
    widths = [(features if layer == 0 else hidden, hidden) for layer in range(layers)]
    found = {"head.weight": (hidden, 1), "head.bias": (1, 1)}
    lstm = {
        "time.input": (hidden, 4 * hidden),
        "time.state": (hidden, 4 * hidden),
        "time.bias": (1, 4 * hidden),
    }
    if model == "t-gcn":
        for layer, (width, out) in enumerate(widths[:-1]):
            found |= {f"structure.{layer}.weight": (width, out), f"structure.{layer}.bias": (1, out)}
        found |= {
            "gate.input": (widths[-1][0], 3 * hidden),
            "gate.bias": (1, 3 * hidden),
            "gate.state": (hidden, 3 * hidden),
        }
        return found
    for layer, (width, out) in enumerate(widths):
        found |= {f"structure.{layer}.weight": (width, out), f"structure.{layer}.bias": (1, out)}
        if model == "gat-lstm":
            found |= {f"structure.{layer}.{end}": (HEADS, out // HEADS) for end in ["source", "target"]}
        if model == "evolvegcn-o":
            found |= {f"evolve.{layer}.state": (4 * width, width), f"evolve.{layer}.bias": (4 * width, out)}
    return found if model == "evolvegcn-o" else found | lstm


def snapshots(vertices, count, steps, features, last):
    """Edges, features and targets; with `last`, only the last snapshot has targets, as windows are trained on
    by default."""
    random = numpy.random.default_rng(7)
    arrays = {"features": random.standard_normal((vertices, features)).astype(numpy.float32)}
    keys = edges(vertices, count, random)
    for step in range(steps):
        if step > 0:
            kept = keys[random.permutation(count)[: count - count // 10]]
            fresh = numpy.setdiff1d(edges(vertices, count, random), kept)
            keys = numpy.concatenate([kept, random.permutation(fresh)[: count - len(kept)]])
        keys = numpy.sort(keys)
        targets, sources = keys // vertices, keys % vertices
        degrees = numpy.bincount(targets, minlength=vertices)
        arrays[f"starts.{step}"] = numpy.concatenate([[0], numpy.cumsum(degrees)]).astype(numpy.int64)
        arrays[f"sources.{step}"] = sources.astype(numpy.int64)
        sums = numpy.bincount(targets, weights=arrays["features"][sources, 0], minlength=vertices)
        noise = 0.1 * random.standard_normal(vertices)
        if not last or step + 1 == steps:
            arrays[f"targets.{step}"] = (numpy.tanh(sums / numpy.maximum(degrees, 1)) + noise).astype(
                numpy.float32
            )
    return arrays, random


def write(
    path,
    model,
    layers,
    vertices=50_000,
    count=500_000,
    steps=4,
    features=32,
    hidden=64,
    last=False,
    made=None,
):
    """Writes the workload of a model; `made` are snapshots that were made before, for several models."""
    arrays, random = made or snapshots(vertices, count, steps, features, last)
    arrays, random = dict(arrays), random if made is None else numpy.random.default_rng(8)
    for name, shape in shapes(model, layers, features, hidden).items():
        limit = math.sqrt(6 / (shape[0] + shape[1])) if shape[0] > 1 else 0.1
        arrays[name] = random.uniform(-limit, limit, shape).astype(numpy.float32)
    save_file(arrays, path)
