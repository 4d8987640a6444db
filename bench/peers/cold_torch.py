"""The torch program in the comparison of cold starts: reads a store, makes a CSR matrix of every step once,
holds them in memory and trains.

    python cold_torch.py STORE CHECKPOINT MODEL VARIANT EPOCHS STRIDE THREADS WINDOWS LAYERS

Parameters begin as in CHECKPOINT. WINDOWS that follow each other make an iteration, one after the other, and
their mean gradient one step. Windows, task, loss, clipping, Adam and the validation after every epoch
are those of `kymo train` with its settings left alone. Prints one JSON object: when things were done, by the
clock of the machine, and what shows that the work was the same.
"""

import json
import random
import resource
import sys
import time

import numpy
import torch

from store import Store, arrays
from window import Window

SPLIT, WINDOW, HORIZON, RATE, CLIP = (0.7, 0.15), 4, 1, 0.01, 1.0


class Graph:
    """A step with a loop at every vertex, normalised by the degrees of both ends."""

    def __init__(self, edges, vertices, flows_back):
        loops = numpy.arange(vertices, dtype="<u8") * numpy.uint64((1 << 32) + 1)
        edges = numpy.insert(edges, numpy.searchsorted(edges, loops), loops)
        # Half the bytes of 64-bit indices, and what MKL wants: it would get a copy for every product.
        targets, sources = torch.from_numpy(edges.view("<i4").reshape(-1, 2)[:, ::-1].copy()).unbind(1)
        sources = sources.contiguous()
        degrees = torch.bincount(targets, minlength=vertices)
        starts = torch.zeros(vertices + 1, dtype=torch.int32)
        starts[1:] = degrees.cumsum(0)
        root = degrees.float().rsqrt()
        weights = root[sources] * torch.repeat_interleave(root, degrees)
        self.along = torch.sparse_csr_tensor(starts, sources, weights, (vertices, vertices))
        # Gradients flow back through all layers but the first.
        self.back = self.along.t().to_sparse_csr() if flows_back else None
        self.heard = None


class Scales:
    """Mean and deviation of columns over what is trained on."""

    def __init__(self):
        self.count, self.sums, self.squares, self.last = 0, 0.0, 0.0, None

    def add(self, rows):
        if self.last is None or self.last[0] is not rows:
            wide = rows.astype("f8")
            self.last = rows, wide.sum(0), (wide * wide).sum(0)
        self.count += len(rows)
        self.sums, self.squares = self.sums + self.last[1], self.squares + self.last[2]

    def scaled(self, rows):
        mean = self.sums / self.count
        variance = self.squares / self.count - mean * mean
        factor = numpy.where(variance > 1e-12, 1 / numpy.sqrt(numpy.maximum(variance, 1e-12)), 1)
        return (rows - mean.astype("f4")) * factor.astype("f4")


def read(path, layers):
    """Edges of every step, its matrix, its features and its targets, both scaled by the training steps."""
    store = Store(path)
    samples = store.length - HORIZON
    train, end = (int(samples * share + 1e-9) for share in [SPLIT[0], sum(SPLIT)])
    columns, values = Scales(), Scales()
    edges, graphs, raw, truth = [], [], [], []
    for t, step in enumerate(store.steps()):
        edges.append(len(step.edges))
        raw.append(step.features)
        truth.append(step.values)
        if t < train:
            columns.add(step.features)
        if HORIZON <= t < train + HORIZON:
            values.add(step.values)
        if t >= WINDOW + HORIZON - 1 and not numpy.array_equal(step.vertices, numpy.arange(store.vertices)):
            raise SystemExit(f"{path}: not every vertex has a value at step {t}")
        graphs.append(Graph(step.edges, store.vertices, layers > 1))
    features, last = [], (None, None)
    for rows in raw:
        # Steps with the same features have one matrix together.
        last = last if last[0] is rows else (rows, torch.from_numpy(columns.scaled(rows)))
        features.append(last[1])
    targets = [torch.from_numpy(values.scaled(step)) for step in truth]
    return edges, graphs, features, targets, range(train), range(train, end)


def main():
    path, checkpoint, model, variant = sys.argv[1:5]
    epochs, stride, threads, windows, layers = map(int, sys.argv[5:])
    torch.set_num_threads(threads)
    begun, before = time.time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    edges, graphs, features, targets, train, validation = read(path, layers)
    prepared = time.time()
    params = {
        name.removeprefix("parameter."): torch.nn.Parameter(torch.from_numpy(value.copy()))
        for name, value in arrays(checkpoint).items() if name.startswith("parameter.")
    }
    window = Window(variant, layers, params)
    error = {"t-gcn": window.t_gcn, "wd-gcn": window.wd_gcn}[model]
    optimiser = torch.optim.Adam(window.parameters(), lr=RATE)

    def loss_at(sample):
        steps = slice(sample + 1 - WINDOW, sample + 1)
        return error(graphs[steps], features[steps], [WINDOW - 1], [targets[sample + HORIZON]])

    def step(samples):
        optimiser.zero_grad()
        losses = []
        for sample in samples:
            loss = loss_at(sample)
            (loss / len(samples)).backward()
            losses.append(loss.item())
        torch.nn.utils.clip_grad_norm_(window.parameters(), CLIP)
        optimiser.step()
        return losses

    samples = list(train)[WINDOW - 1::stride]
    shuffle = random.Random(1).shuffle
    ends, losses, validations, first = [], [], [], None
    for epoch in range(epochs):
        runs = [samples[start:start + windows] for start in range(0, len(samples), windows)]
        order = runs[1:]
        shuffle(order)
        # The first window comes first: its loss is compared.
        found = [loss for run in runs[:1] + order for loss in step(run)]
        first = found[0] if first is None else first
        losses.append(sum(found) / len(found))
        with torch.no_grad():
            validations.append(sum(loss_at(sample).item() for sample in validation) / len(validation))
        ends.append(time.time())
    trained = sum(sum(edges[sample + 1 - WINDOW:sample + 1]) for sample in samples)
    print(json.dumps({
        "begun": begun, "prepared": prepared, "ends": ends, "memory_before": before, "first_loss": first,
        "losses": losses, "validations": validations, "edges": edges, "edges_trained": trained,
        "torch": torch.__version__,
    }))


if __name__ == "__main__":
    main()
