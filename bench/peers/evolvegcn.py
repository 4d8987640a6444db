"""EvolveGCN-O in PyTorch under the protocol that its authors publish with their code, on the snapshots of bench/suites/evolvegcn.toml: do
the figures of the paper come out?

    python3 bench/peers/evolvegcn.py [--only college] [--seeds 1,2,3] [--cell matrix|pygt] [--directed] [--epochs N] [--data ../shared/data]
        [--output bench/results/evolvegcn-peer.json]

Needs torch and numpy (and torch-geometric-temporal for `--cell pygt`): see bench/peers/run.py, which installs them.

As in the authors' parameter files and code (IBM/EvolveGCN): an edge stands for both directions, its weight is the number of events; the
symmetric normalisation with a loop at every vertex; one-hot degrees; two layers of 100 columns with a random leaky ReLU; 10 snapshots of
history and the present one; for every link so many pairs without one, the source drawn from those of the links, the target from the ends
of edges in the history; cross-entropy weighed by class; a classifier with one hidden layer; Adam, one sample a step, in the order of
time; MAP on validation every 5 epochs, the best epoch tested, an end after 50 epochs without a better one. Not the same: the authors'
code looks at validation after every epoch from the seventh on, and leaves the ReLU random there.

`--cell matrix` is the GRU of the authors' code, whose columns are the columns of a weight; `--cell pygt` is the layer of PyTorch Geometric
Temporal, which is square, so that all columns are as many as there are degrees.
`--directed` takes edges as they are in the files, as Kymo does unless it is told otherwise.

`mrr-evolvegcn` and `map` are those of crates/model/src/metric: all pairs are ranked, steps count the same.
"""

import argparse
import gzip
import json
import math
import os
import pathlib
import statistics
import sys
import time
import types

import numpy
import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# The file, its columns (source, target, time) and separator, the window in seconds, and the authors' parameters.
DATA = {
    "college": {"file": "collegemsg/CollegeMsg.txt.gz", "columns": (0, 1, 2), "separator": None, "window": 190_080, "rate": 0.001,
                "weights": (0.1, 0.9), "negatives": 50, "classifier": 100, "train": 0.71, "epochs": 1000, "patience": 50,
                "published": {"mrr-evolvegcn": 0.1379, "map": 0.0270}},
    "otc": {"file": "bitcoin-otc/soc-sign-bitcoinotc.csv.gz", "columns": (0, 1, 3), "separator": ",", "window": 1_200_000, "rate": 0.01,
            "weights": (0.05, 0.95), "negatives": 100, "classifier": 400, "train": 0.7, "epochs": 500, "patience": 50,
            "published": {"mrr-evolvegcn": 0.0968, "map": 0.0028}},
}
HIDDEN, HISTORY, VALIDATION, EVERY = 100, 10, 0.1, 5


class Snapshots:
    """For every step: the edges, sorted; the normalised matrix; the degrees."""

    def __init__(self, case):
        with gzip.open(arguments.data / case["file"], "rt") as file:
            rows = [line.split(case["separator"]) for line in file if line.strip()]
        source, target, stamp = (numpy.array([float(row[column]) for row in rows]) for column in case["columns"])
        _, ends = numpy.unique(numpy.concatenate([source, target]).astype(numpy.int64), return_inverse=True)
        self.vertices = int(ends.max()) + 1
        source, target = ends[: len(rows)], ends[len(rows) :]
        steps = ((stamp - stamp.min()) // case["window"]).astype(numpy.int64)
        self.edges, self.matrices, self.degrees = [], [], []
        for step in range(int(steps.max()) + 1):
            here = steps == step
            keys = source[here] * self.vertices + target[here]
            if not arguments.directed:
                keys = numpy.concatenate([keys, target[here] * self.vertices + source[here]])
            keys, counts = numpy.unique(keys, return_counts=True)
            self.edges.append(numpy.stack([keys // self.vertices, keys % self.vertices]))
            self.matrices.append(self.normalised(self.edges[-1], counts))
            self.degrees.append(torch.from_numpy(numpy.bincount(self.edges[-1][0], minlength=self.vertices)))
        self.width = int(max(degrees.max() for degrees in self.degrees)) + 1

    def normalised(self, edges, counts):
        """A row hears the targets of its edges and itself."""
        loops = numpy.arange(self.vertices)
        rows, columns = numpy.concatenate([edges[0], loops]), numpy.concatenate([edges[1], loops])
        values = numpy.concatenate([counts, numpy.ones(self.vertices)])
        root = numpy.bincount(rows, weights=values, minlength=self.vertices) ** -0.5
        values = torch.from_numpy((values * root[rows] * root[columns]).astype(numpy.float32))
        matrix = torch.sparse_coo_tensor(torch.from_numpy(numpy.stack([rows, columns])), values, (self.vertices, self.vertices))
        return matrix.coalesce().to_sparse_csr()


class MatrixGru(torch.nn.Module):
    """A weight that is input and state of a gated recurrent unit; matrices multiply from the left."""

    def __init__(self, rows, columns):
        super().__init__()
        limit = lambda width: 1 / math.sqrt(width)
        self.weight = torch.nn.Parameter(torch.empty(rows, columns).uniform_(-limit(columns), limit(columns)))
        self.input = torch.nn.Parameter(torch.empty(3, rows, rows).uniform_(-limit(rows), limit(rows)))
        self.state = torch.nn.Parameter(torch.empty(3, rows, rows).uniform_(-limit(rows), limit(rows)))
        self.bias = torch.nn.Parameter(torch.zeros(3, rows, columns))

    def weights(self, steps):
        weight = self.weight
        for _ in range(steps):
            update, reset = torch.sigmoid((self.input[:2] + self.state[:2]) @ weight + self.bias[:2])
            candidate = torch.tanh(self.input[2] @ weight + self.state[2] @ (reset * weight) + self.bias[2])
            weight = (1 - update) * weight + update * candidate
            yield weight


class SquareGru(torch.nn.Module):
    """The weights of PyTorch Geometric Temporal's layer."""

    def __init__(self, rows, _):
        super().__init__()
        # It imports torch_sparse for a type that this layer does not use.
        sys.modules.setdefault("torch_sparse", types.SimpleNamespace(SparseTensor=object))
        from torch_geometric_temporal.nn.recurrent import EvolveGCNO

        self.layer = EvolveGCNO(rows)

    def weights(self, steps):
        weight = self.layer.initial_weight
        for _ in range(steps):
            _, weight = self.layer.recurrent_layer(weight, weight)
            yield weight[0]


class Model(torch.nn.Module):
    def __init__(self, width, classifier):
        super().__init__()
        hidden = HIDDEN if arguments.cell == "matrix" else width
        cell = MatrixGru if arguments.cell == "matrix" else SquareGru
        self.cells = torch.nn.ModuleList([cell(width, hidden), cell(hidden, hidden)])
        self.activation = torch.nn.RReLU()
        self.first, self.second = torch.nn.Linear(2 * hidden, classifier), torch.nn.Linear(classifier, 2)

    def embed(self, snapshots, step):
        steps = range(step - HISTORY, step + 1)
        # A one-hot row times a weight is a row of the weight.
        products = [weight[snapshots.degrees[t]] for t, weight in zip(steps, self.cells[0].weights(len(steps)))]
        rows = [self.activation(snapshots.matrices[t] @ product) for t, product in zip(steps, products)]
        *_, weight = self.cells[1].weights(len(steps))
        return self.activation(snapshots.matrices[step] @ (rows[-1] @ weight))

    def ends(self, embeddings):
        """What the classifier's first layer makes of each end."""
        source, target = self.first.weight.chunk(2, 1)
        return embeddings @ source.t() + self.first.bias, embeddings @ target.t()


def absent(random, links, history, vertices, each):
    """Pairs that are no links, none of them twice."""
    wanted = each * links.shape[1]
    source, target = random.choice(links[0], 4 * wanted), random.choice(history, 4 * wanted)
    keys = (source * vertices + target)[source != target]
    _, first = numpy.unique(keys, return_index=True)
    keys = keys[numpy.sort(first)]
    keys = keys[~numpy.isin(keys, links[0] * vertices + links[1])][:wanted]
    return numpy.stack([keys // vertices, keys % vertices])


def judge(model, snapshots, steps):
    """MRR by source and average precision over all pairs: means over steps."""
    reciprocals, precisions = [], []
    model.eval()
    with torch.no_grad():
        for step in steps:
            links = snapshots.edges[step + 1]
            if links.shape[1] == 0:
                continue
            source, target = model.ends(model.embed(snapshots, step))
            out = model.second.weight[1] - model.second.weight[0]
            scores = torch.empty(snapshots.vertices, snapshots.vertices)
            for vertex in range(snapshots.vertices):
                scores[vertex] = torch.relu(source[vertex] + target) @ out
            is_link = torch.zeros(scores.shape, dtype=torch.bool)
            is_link[links[0], links[1]] = True
            means = []
            for vertex in numpy.unique(links[0]):
                row, mine = scores[vertex], scores[vertex][is_link[vertex]]
                ordered = torch.sort(row).values
                above = len(row) - torch.searchsorted(ordered, mine, right=True)
                equal = torch.searchsorted(ordered, mine, right=True) - torch.searchsorted(ordered, mine)
                means.append((1 / (above + (equal + 1) / 2)).mean().item())
            reciprocals.append(statistics.fmean(means))
            ordered, order = torch.sort(scores.flatten(), descending=True)
            hits = torch.cumsum(is_link.flatten()[order].double(), 0)
            # Equal scores share the precision at the last of them.
            last = torch.cat([ordered[1:] != ordered[:-1], torch.tensor([True])])
            hits, ranks = hits[last], torch.nonzero(last).flatten().double() + 1
            gained = torch.diff(hits, prepend=torch.zeros(1, dtype=torch.double))
            precisions.append((gained * hits / ranks).sum().item() / hits[-1].item())
    model.train()
    return {"mrr-evolvegcn": statistics.fmean(reciprocals), "map": statistics.fmean(precisions)}


def run(name, seed):
    case, begun = DATA[name], time.monotonic()
    torch.manual_seed(seed)
    torch.set_num_threads(arguments.threads)
    random = numpy.random.default_rng(seed)
    snapshots = Snapshots(case)
    last = len(snapshots.edges) - 1
    bounds = [HISTORY, int(last * case["train"]), int(last * (case["train"] + VALIDATION)), last]
    train, validation, test = (range(start, end) for start, end in zip(bounds, bounds[1:]))
    model = Model(snapshots.width, case["classifier"])
    optimiser = torch.optim.Adam(model.parameters(), lr=case["rate"])
    weights = torch.tensor(case["weights"])
    best, kept, waited = -1.0, None, 0
    for epoch in range(arguments.epochs or case["epochs"]):
        total = 0.0
        for step in train:
            links = snapshots.edges[step + 1]
            if links.shape[1] == 0:
                continue
            history = numpy.concatenate([numpy.unique(snapshots.edges[t]) for t in range(step - HISTORY, step + 1)])
            pairs = numpy.concatenate([links, absent(random, links, history, snapshots.vertices, case["negatives"])], 1)
            labels = torch.zeros(pairs.shape[1], dtype=torch.long)
            labels[: links.shape[1]] = 1
            source, target = model.ends(model.embed(snapshots, step))
            logits = model.second(torch.relu(source[pairs[0]] + target[pairs[1]]))
            loss = (weights[labels] * torch.nn.functional.cross_entropy(logits, labels, reduction="none")).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item()
        if (epoch + 1) % EVERY:
            continue
        reached = judge(model, snapshots, validation)
        waited += EVERY
        if reached["map"] > best:
            best, waited = reached["map"], 0
            kept = {key: value.clone() for key, value in model.state_dict().items()}
            tested = judge(model, snapshots, test)
        print(f"{name}, seed {seed}, epoch {epoch + 1}: loss {total / len(train):.4f}, validation {reached}, best epoch's test {tested},"
              f" {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
        if waited >= case["patience"]:
            break
    model.load_state_dict(kept)
    return judge(model, snapshots, test) | {"validation": best, "epochs": epoch + 1, "seconds": round(time.monotonic() - begun)}


def main():
    results = {}
    for name, case in DATA.items():
        if arguments.only and name not in arguments.only.split(","):
            continue
        if not (arguments.data / case["file"]).exists():
            print(f"{name} is not there, left out")
            continue
        runs = [run(name, int(seed)) for seed in arguments.seeds.split(",")]
        means = {metric: statistics.fmean(run[metric] for run in runs) for metric in case["published"]}
        results[name] = {"runs": runs, "mean": means, "published": case["published"]}
        print(name, json.dumps(results[name]), flush=True)
    if arguments.output:
        facts = {"date": time.strftime("%Y-%m-%d"), "command": " ".join(["python3", *sys.argv]), "torch": torch.__version__,
                 "cell": arguments.cell, "directed": arguments.directed}
        temporary = arguments.output + ".partial"
        pathlib.Path(temporary).write_text(json.dumps(facts | {"results": results}, indent=1) + "\n")
        os.replace(temporary, arguments.output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / ".." / "shared" / "data")
    parser.add_argument("--only")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--cell", choices=["matrix", "pygt"], default="matrix")
    parser.add_argument("--directed", action="store_true")
    parser.add_argument("--epochs", type=int, help="instead of the authors' number")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output")
    arguments = parser.parse_args()
    main()
