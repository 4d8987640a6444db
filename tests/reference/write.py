"""Writes the reference files of the models: inputs, parameters, outputs, gradients, one file per case.

First the plain definitions in models.py are held against PyTorch Geometric and PyTorch Geometric Temporal
(peers.py, diffusion.py), and nothing is written if they disagree. Numbers are drawn as float32, computed with
in float64 and stored as float32. The same versions write the same bytes.
"""

import json
import pathlib
import struct
import sys
import zlib

import numpy
import torch

import diffusion
import graphs
import models
import peers

HERE = pathlib.Path(__file__).parent
LIMIT = 60_000
CONVOLVING = ["gcn", "t-gcn", "wd-gcn", "gcn-gru", "evolvegcn-o", "evolvegcn-h"]
CONVOLVING += ["gc-lstm", "stgcn", "a3t-gcn"]


def settings(model, layers=1, vertices=7, heads=1, **more):
    common = {
        "model": model,
        "hidden": 6,
        "layers": layers,
        "heads": heads,
        "vertices": vertices,
        "features": 5,
    }
    return common | {"steps": len(graphs.STEPS)} | more


def cases():
    """Every case by the name of its file."""
    all = {f"gcn-{layers}": settings("gcn", layers, normalisation="both") for layers in [1, 2, 3]}
    for normalisation in ["right", "none"]:
        all[f"gcn-{normalisation}"] = settings("gcn", normalisation=normalisation)
    for normalisation in ["both", "right"]:
        all[f"gcn-zero-degree-{normalisation}"] = settings("gcn", normalisation=normalisation)
    for layers in [1, 2]:
        all[f"wd-gcn-{layers}"] = settings("wd-gcn", layers, normalisation="both")
        all[f"gcn-gru-{layers}"] = settings("gcn-gru", layers, normalisation="both")
        all[f"gat-lstm-{layers}"] = settings("gat-lstm", layers, heads=2)
        all[f"t-gcn-{layers}"] = settings("t-gcn", layers, normalisation="both")
        all[f"evolvegcn-o-{layers}"] = settings("evolvegcn-o", layers, normalisation="both")
        all[f"evolvegcn-h-{layers}"] = settings("evolvegcn-h", layers, vertices=9, normalisation="both")
        all[f"dysat-{layers}"] = settings("dysat", layers, heads=2, window=3 + layers)
        all[f"graphsage-linear-mean-{layers}"] = settings(
            "graphsage-linear", layers, aggregate="mean", window=3
        )
    all["evolvegcn-h-few"] = settings("evolvegcn-h", vertices=4, normalisation="both")
    all["evolvegcn-h-ties"] = settings("evolvegcn-h", vertices=9, normalisation="both")
    all["mpnn-lstm"] = settings("mpnn-lstm", 2, normalisation="right")
    all["dcrnn"] = settings("dcrnn", diffusion=2)
    for layers in [1, 2]:
        all[f"gc-lstm-{layers}"] = settings("gc-lstm", layers, diffusion=2, normalisation="both")
        all[f"a3t-gcn-{layers}"] = settings("a3t-gcn", layers, normalisation="both")
        all[f"roland-{layers}"] = settings("roland", layers, update="gru")
        all[f"stgcn-{layers}"] = settings("stgcn", layers, diffusion=2, kernel=3, normalisation="both")
    for update in ["mlp", "average"]:
        all[f"roland-{update}"] = settings("roland", 2, update=update)
    all["graphsage-linear-pool"] = settings("graphsage-linear", aggregate="pool", window=3)
    return all | blocks()


def blocks():
    """Two and three blocks, narrow ones: their files are small."""
    every = {
        "gcn": {},
        "t-gcn": {},
        "wd-gcn": {"layers": 2},
        "gcn-gru": {},
        "gat-lstm": {"layers": 2, "heads": 2},
        "evolvegcn-o": {},
        "evolvegcn-h": {"layers": 2},
        "dysat": {"heads": 2, "window": 4},
        "mpnn-lstm": {"layers": 2, "normalisation": "right"},
        "dcrnn": {"diffusion": 2},
        "a3t-gcn": {},
        "gc-lstm": {"diffusion": 1},
        "stgcn": {"diffusion": 1, "kernel": 3},
        "graphsage-linear": {"aggregate": "mean", "window": 3},
        "roland": {"layers": 2, "update": "gru"},
    }
    narrow = {"hidden": 4, "features": 3}
    all = {}
    for model, more in every.items():
        normalised = {"normalisation": "both"} if model in CONVOLVING else {}
        case = settings(model, **(normalised | more)) | narrow
        all[f"{model}-blocks-2"] = case | {"blocks": 2}
        all[f"{model}-blocks-3"] = case | {"layers": 1, "blocks": 3}
    return all


def normal(random, shape, scale=1.0):
    return torch.tensor(random.standard_normal(shape) * scale, dtype=torch.float32).double()


def draw(name, case, seed):
    """Graphs, features, parameters and probes of a case."""
    random = numpy.random.default_rng([zlib.crc32(name.encode()), seed])
    steps = graphs.graphs(case["vertices"], random)
    if name.startswith("gcn-zero-degree"):
        steps[0] = graphs.with_zero_degree(steps[0], 6)
    features = [normal(random, (case["vertices"], case["features"])) for _ in steps]
    shapes = models.shapes(case)
    parameters = {key: normal(random, shape, 0.5) for key, shape in sorted(shapes.items())}
    if name == "evolvegcn-h-ties":
        make_ties(features, parameters, case["hidden"])
    probes = [normal(random, (case["vertices"], case["hidden"])) for _ in steps]
    return steps, features, parameters, probes


def make_ties(features, parameters, columns):
    """Ties that rounding cannot break: scores are sums of few quarters. In every step the last vertex that is
    chosen and the first that is not have the same features, and so have the best two."""
    parameters["evolve.0.score"] = quarters(parameters["evolve.0.score"])
    for step, x in enumerate(features):
        x = quarters(x)
        _, order = models.ranking(x, parameters["evolve.0.score"])
        x[order[columns]] = x[order[columns - 1]]
        x[order[1]] = x[order[0]]
        features[step] = x


def quarters(x):
    return (x * 4).round() / 4


def run(case, steps, features, parameters, probes):
    """Outputs per step, gradients per parameter and gradients per step's features."""
    leaves = {key: value.clone().requires_grad_() for key, value in parameters.items()}
    inputs = [x.clone().requires_grad_() for x in features]
    outputs = models.forward(case, leaves, steps, inputs)
    sum((output * probe).sum() for output, probe in zip(outputs, probes)).backward()
    gradients = {key: gradient(leaf) for key, leaf in leaves.items()}
    return [output.detach() for output in outputs], gradients, [gradient(x) for x in inputs]


def gradient(leaf):
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad


def tensors(name, case):
    """Everything that the file of a case holds. A seed whose values come close to a kink is passed over."""
    for seed in range(1000):
        drawn = draw(name, case, seed)
        try:
            if name != "evolvegcn-h-ties":  # a tie is a kink
                check_gradients(case, drawn)
            computed = run(case, *drawn)
            # Where all scores of a softmax grow alike, what they share gets no gradient but rounding: such a
            # seed says nothing.
            if "blocks" in case and any(one.abs().max() < 1e-3 for one in computed[1].values()):
                continue
            return collect(*drawn, *computed), rounding(case, drawn)
        except models.Kink:
            continue
    raise SystemExit(f"{name}: every seed comes close to a kink")


def check_gradients(case, drawn):
    """The slope of the loss along a random direction, by the gradients and by two more forward passes."""
    steps, features, parameters, probes = drawn
    _, gradients, gradients_of_features = run(case, *drawn)
    directions = {key: torch.randn_like(value) for key, value in parameters.items()}
    moves = [torch.randn_like(x) for x in features]

    def loss(distance):
        moved = {key: value + distance * directions[key] for key, value in parameters.items()}
        inputs = [x + distance * move for x, move in zip(features, moves)]
        outputs = models.forward(case, moved, steps, inputs)
        return sum(float((output * probe).sum()) for output, probe in zip(outputs, probes))

    slope = sum(float((gradients[key] * directions[key]).sum()) for key in gradients)
    slope += sum(float((one * move).sum()) for one, move in zip(gradients_of_features, moves))
    measured = (loss(1e-6) - loss(-1e-6)) / 2e-6
    assert abs(slope - measured) < 1e-5 * max(1, abs(slope)), (slope, measured)


def collect(steps, features, parameters, probes, outputs, gradients, gradients_of_features):
    held = {}
    for t, step in enumerate(steps):
        held[f"edges.{t}"] = step.edges
        held[f"weights.{t}"] = step.weights
        held[f"features.{t}"] = features[t]
        held[f"probe.{t}"] = probes[t]
        held[f"outputs.{t}"] = outputs[t]
        held[f"gradients.features.{t}"] = gradients_of_features[t]
    for key in parameters:
        held[f"parameters.{key}"] = parameters[key]
        held[f"gradients.{key}"] = gradients[key]
    return held


def rounding(case, drawn):
    """How far the same pass in float32 is from the one in float64, as a share of the largest
    value of each tensor, or of one where that is larger."""
    steps, features, parameters, probes = drawn
    exact = run(case, *drawn)
    steps = [step._replace(weights=step.weights.float()) for step in steps]
    small = {key: value.float() for key, value in parameters.items()}
    rounded = run(case, steps, [x.float() for x in features], small, [x.float() for x in probes])
    pairs = [(exact[1][key], rounded[1][key]) for key in small]
    pairs += zip(exact[0] + exact[2], rounded[0] + rounded[2])
    return max(float((one - other).abs().max() / one.abs().max().clamp(min=1)) for one, other in pairs)


def save(path, held, metadata):
    """Writes safetensors by hand: the library does not keep the order of the metadata, so its bytes would
    differ."""
    header, data = {"__metadata__": {key: str(value) for key, value in metadata.items()}}, b""
    for key, value in sorted(held.items(), key=lambda entry: (entry[1].dtype != torch.int64, entry[0])):
        kind, array = ("I64", value.numpy()) if value.dtype == torch.int64 else ("F32", value.float().numpy())
        start, data = len(data), data + array.astype(array.dtype.newbyteorder("<")).tobytes()
        header[key] = {"dtype": kind, "shape": list(value.shape), "data_offsets": [start, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def check_file(path, held):
    """Reads the file back with the library."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        assert set(file.keys()) == set(held)
        for key, value in held.items():
            stored = file.get_tensor(key)
            assert torch.isfinite(stored).all() and torch.equal(stored, value.to(stored.dtype)), key
    assert path.stat().st_size < LIMIT, path


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    peers.check()
    diffusion.check()
    for name, case in cases().items():
        held, difference = tensors(name, case)
        path = HERE / f"{name}.safetensors"
        save(path, held, case)
        check_file(path, held)
        print(f"{path.name}: {path.stat().st_size} bytes, float32 differs by {difference:.1e}")


if __name__ == "__main__":
    sys.exit(main())
