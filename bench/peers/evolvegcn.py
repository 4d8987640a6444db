"""EvolveGCN-O in PyTorch under the protocol that its authors publish with their code, on the snapshots of
bench/suites/evolvegcn.toml: do the figures of the paper come out, and what do the differences of Kymo's run
make of them?

    python3 bench/peers/evolvegcn.py [--only otc] [--seeds 1,2,3] [--change relu,order]
        [--device cuda] [--data ../shared/data]
        [--epochs N] [--every N] [--output FILE]

Needs torch and numpy: see bench/peers/run.py, which installs them.

As in the authors' parameter files and code (IBM/EvolveGCN): an edge stands for both directions, its weight is
the number of events; the symmetric normalisation with a loop at every vertex; one-hot degrees; two layers of
100 columns with a random leaky ReLU, also where they are judged; weights that evolve by a GRU whose columns
are theirs; 10 snapshots of history and the present one; for every link a number of pairs without one, the
source drawn from those of the links, the target from the vertices of each snapshot of the history;
cross-entropy weighed by class; a classifier with one hidden layer; Adam, one sample a step, in the order of
time; MAP on validation, the best epoch tested, an end after 50 epochs without a better one. `--change` takes
some of it as Kymo's run has it: see CHANGES.

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

import numpy
import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# The file, its columns (source, target, time) and separator, the window in seconds, and the authors'
# parameters.
DATA = {
    "college": {
        "file": "collegemsg/CollegeMsg.txt.gz",
        "columns": (0, 1, 2),
        "separator": None,
        "window": 190_080,
        "rate": 0.001,
        "weights": (0.1, 0.9),
        "negatives": 50,
        "classifier": 100,
        "train": 0.71,
        "epochs": 1000,
        "patience": 50,
        "published": {"mrr-evolvegcn": 0.1379, "map": 0.0270},
    },
    "otc": {
        "file": "bitcoin-otc/soc-sign-bitcoinotc.csv.gz",
        "columns": (0, 1, 3),
        "separator": ",",
        "window": 1_200_000,
        "rate": 0.01,
        "weights": (0.05, 0.95),
        "negatives": 100,
        "classifier": 400,
        "train": 0.7,
        "epochs": 500,
        "patience": 50,
        "published": {"mrr-evolvegcn": 0.0968, "map": 0.0028},
    },
}
HIDDEN, HISTORY, VALIDATION = 100, 10, 0.1

# What the run of bench/suites/evolvegcn.toml has instead.
CHANGES = {
    "weights": "classes are not weighed in the loss",
    "lstm": "weights evolve by the paper's LSTM, and begin as Glorot and Bengio have it",
    "relu": "layers end in a ReLU, behind a bias",
    "classifier": "the classifier has as many hidden columns as the layers",
    "window": "the present snapshot is one of the ten",
    "order": "samples come in random order",
    "sources": "every link's own source gets its absent pairs, which may repeat",
    "targets": "absent targets are drawn from all vertices that an edge was ever at, all equally likely",
}


class Snapshots:
    """For every step: the edges, sorted; the normalised matrix; the degrees; the vertices that edges are
    at."""

    def __init__(self, case):
        with gzip.open(arguments.data / case["file"], "rt") as file:
            rows = [line.split(case["separator"]) for line in file if line.strip()]
        source, target, stamp = (
            numpy.array([float(row[column]) for row in rows]) for column in case["columns"]
        )
        _, ends = numpy.unique(numpy.concatenate([source, target]).astype(numpy.int64), return_inverse=True)
        self.vertices = int(ends.max()) + 1
        source, target = ends[: len(rows)], ends[len(rows) :]
        steps = ((stamp - stamp.min()) // case["window"]).astype(numpy.int64)
        self.edges, self.matrices, self.degrees, self.active = [], [], [], []
        for step in range(int(steps.max()) + 1):
            here = steps == step
            keys = numpy.concatenate(
                [source[here] * self.vertices + target[here], target[here] * self.vertices + source[here]]
            )
            keys, counts = numpy.unique(keys, return_counts=True)
            edges = numpy.stack([keys // self.vertices, keys % self.vertices])
            self.edges.append(torch.from_numpy(edges).to(arguments.device))
            self.active.append(torch.from_numpy(numpy.unique(edges)).to(arguments.device))
            self.matrices.append(self.normalised(edges, counts).to(arguments.device))
            self.degrees.append(
                torch.from_numpy(numpy.bincount(edges[0], minlength=self.vertices)).to(arguments.device)
            )
        self.width = int(max(degrees.max() for degrees in self.degrees)) + 1

    def normalised(self, edges, counts):
        """A row aggregates the targets of its edges and itself."""
        loops = numpy.arange(self.vertices)
        rows, columns = numpy.concatenate([edges[0], loops]), numpy.concatenate([edges[1], loops])
        values = numpy.concatenate([counts, numpy.ones(self.vertices)])
        root = numpy.bincount(rows, weights=values, minlength=self.vertices) ** -0.5
        values = torch.from_numpy((values * root[rows] * root[columns]).astype(numpy.float32))
        matrix = torch.sparse_coo_tensor(
            torch.from_numpy(numpy.stack([rows, columns])), values, (self.vertices, self.vertices)
        )
        return matrix.coalesce()


def uniform(limit, *shape):
    return torch.nn.Parameter(torch.empty(shape, device=arguments.device).uniform_(-limit, limit))


def glorot(*shape):
    return uniform(math.sqrt(6 / (shape[-1] + shape[-2])), *shape)


class MatrixGru(torch.nn.Module):
    """A weight that is input and state of a gated recurrent unit; matrices multiply from the left."""

    def __init__(self, rows, columns):
        super().__init__()
        self.weight = uniform(columns**-0.5, rows, columns)
        self.input, self.state = uniform(rows**-0.5, 3, rows, rows), uniform(rows**-0.5, 3, rows, rows)
        self.bias = uniform(0, 3, rows, columns)

    def forward(self, steps):
        weight = self.weight
        for _ in range(steps):
            update, reset = torch.sigmoid((self.input[:2] + self.state[:2]) @ weight + self.bias[:2])
            candidate = torch.tanh(self.input[2] @ weight + self.state[2] @ (reset * weight) + self.bias[2])
            weight = (1 - update) * weight + update * candidate
        return weight


class MatrixLstm(torch.nn.Module):
    """The same with a long short-term memory, as in equation 5 of the paper; input and state are one."""

    def __init__(self, rows, columns):
        super().__init__()
        self.weight, self.state, self.bias = (
            glorot(rows, columns),
            glorot(4 * rows, rows),
            glorot(4 * rows, columns),
        )

    def forward(self, steps):
        weight, cell = self.weight, 0
        for _ in range(steps):
            enter, keep, new, out = (self.state @ weight + self.bias).chunk(4)
            cell = torch.sigmoid(keep) * cell + torch.sigmoid(enter) * torch.tanh(new)
            weight = torch.sigmoid(out) * torch.tanh(cell)
        return weight


class Model(torch.nn.Module):
    def __init__(self, width, classifier):
        super().__init__()
        cell = MatrixLstm if "lstm" in arguments.change else MatrixGru
        self.cells = torch.nn.ModuleList([cell(width, HIDDEN), cell(HIDDEN, HIDDEN)])
        self.biases = (
            torch.nn.ParameterList([uniform(0, HIDDEN), uniform(0, HIDDEN)])
            if "relu" in arguments.change
            else [0, 0]
        )
        # It stays random where the model is judged, as in the authors' code.
        self.activation = torch.nn.ReLU() if "relu" in arguments.change else torch.nn.RReLU()
        columns = HIDDEN if "classifier" in arguments.change else classifier
        self.first, self.second = torch.nn.Linear(2 * HIDDEN, columns), torch.nn.Linear(columns, 2)
        self.to(arguments.device)

    def embed(self, snapshots, step):
        """Weights evolve through the window; the last snapshot is all that they are used for."""
        first, second = (cell(HISTORY + ("window" not in arguments.change)) for cell in self.cells)
        # A one-hot row times a weight is a row of the weight.
        rows = self.activation(snapshots.matrices[step] @ first[snapshots.degrees[step]] + self.biases[0])
        return self.activation(snapshots.matrices[step] @ (rows @ second) + self.biases[1])

    def ends(self, embeddings):
        """What the classifier's first layer makes of each end."""
        source, target = self.first.weight.chunk(2, 1)
        return embeddings @ source.t() + self.first.bias, embeddings @ target.t()


def drawn(of, count):
    return of[torch.randint(len(of), (count,), device=arguments.device)]


def absent(snapshots, step, each):
    """Pairs that are no links of the next step, and no loops."""
    links, vertices = snapshots.edges[step + 1], snapshots.vertices
    wanted = each * links.shape[1]
    count = wanted if "sources" in arguments.change else 4 * wanted
    if "targets" in arguments.change:
        pool = torch.unique(torch.cat(snapshots.active[: step + 1]))
    else:
        pool = torch.cat(snapshots.active[step - HISTORY : step + 1])
    source = links[0].repeat(each) if "sources" in arguments.change else drawn(links[0], count)
    keys = source * vertices + drawn(pool, count)
    if "sources" not in arguments.change:
        # Of those that are the same, the first.
        ordered, order = torch.sort(keys, stable=True)
        first = torch.ones_like(ordered, dtype=torch.bool)
        first[1:] = ordered[1:] != ordered[:-1]
        keys = keys[torch.sort(order[first]).values]
    keys = keys[~torch.isin(keys, links[0] * vertices + links[1]) & (keys // vertices != keys % vertices)][
        :wanted
    ]
    return torch.stack([keys // vertices, keys % vertices])


def scores_of(source, target, out):
    """The scores of some sources with all targets."""
    return (torch.relu(source[:, None] + target[None]) * out).sum(-1)


def judge(model, snapshots, steps):
    """MRR by source and average precision over all pairs: means over steps."""
    reciprocals, precisions = [], []
    with torch.no_grad():
        for step in steps:
            links = snapshots.edges[step + 1]
            if links.shape[1] == 0:
                continue
            source, target = model.ends(model.embed(snapshots, step))
            out = model.second.weight[1] - model.second.weight[0]
            scores = torch.empty(len(source), len(target), device=source.device)
            for some in torch.arange(len(source), device=source.device).split(
                256 if arguments.device == "cuda" else 1
            ):
                scores[some] = all_scores(source[some], target, out)
            mine = scores[links[0], links[1]]
            above, equal = torch.empty_like(mine), torch.empty_like(mine)
            for some in torch.arange(len(mine), device=mine.device).split(512):
                rows = scores[links[0, some]]
                above[some] = (rows > mine[some, None]).sum(1).float()
                equal[some] = (rows == mine[some, None]).sum(1).float()
            sources, place = torch.unique(links[0], return_inverse=True)
            sums = torch.zeros(len(sources), device=mine.device).index_add_(
                0, place, 1 / (above + (equal + 1) / 2)
            )
            reciprocals.append((sums / torch.bincount(place)).mean().item())
            # Equal scores share the precision at the last of them.
            at_least = lambda of: len(of) - torch.searchsorted(torch.sort(of).values, mine)
            precisions.append((at_least(mine) / at_least(scores.flatten()).double()).mean().item())
    return {"mrr-evolvegcn": statistics.fmean(reciprocals), "map": statistics.fmean(precisions)}


def run(name, seed):
    case, begun = DATA[name], time.monotonic()
    torch.manual_seed(seed)
    snapshots = Snapshots(case)
    last = len(snapshots.edges) - 1
    bounds = [HISTORY, int(last * case["train"]), int(last * (case["train"] + VALIDATION)), last]
    train, validation, test = (list(range(start, end)) for start, end in zip(bounds, bounds[1:]))
    model = Model(snapshots.width, case["classifier"])
    optimiser = torch.optim.Adam(model.parameters(), lr=case["rate"], fused=arguments.device == "cuda")
    weights = torch.tensor(
        (1.0, 1.0) if "weights" in arguments.change else case["weights"], device=arguments.device
    )
    best, tested, waited = -1.0, None, 0
    for epoch in range(1, (arguments.epochs or case["epochs"]) + 1):
        losses = []
        for step in (
            train[place]
            for place in (torch.randperm(len(train)) if "order" in arguments.change else range(len(train)))
        ):
            links = snapshots.edges[step + 1]
            if links.shape[1] == 0:
                continue
            pairs = torch.cat([links, absent(snapshots, step, case["negatives"])], 1)
            labels = (torch.arange(pairs.shape[1], device=arguments.device) < links.shape[1]).long()
            source, target = model.ends(model.embed(snapshots, step))
            logits = model.second(
                torch.relu(source.index_select(0, pairs[0]) + target.index_select(0, pairs[1]))
            )
            loss = (
                weights[labels] * torch.nn.functional.cross_entropy(logits, labels, reduction="none")
            ).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.detach())
        if epoch % arguments.every:
            continue
        reached = judge(model, snapshots, validation)
        waited += arguments.every
        if reached["map"] > best:
            best, waited, tested = reached["map"], 0, judge(model, snapshots, test) | {"best epoch": epoch}
        print(
            f"{name}, {arguments.change}, seed {seed}, epoch {epoch}: "
            f"loss {torch.stack(losses).mean().item():.4f}, validation {reached},"
            f" best epoch's test {tested}, {time.monotonic() - begun:.0f} s",
            file=sys.stderr,
            flush=True,
        )
        if waited >= case["patience"] or time.monotonic() - begun > arguments.seconds:
            break
    return tested | {"validation": best, "epochs": epoch, "seconds": round(time.monotonic() - begun)}


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
        print(name, arguments.change, json.dumps(results[name]), flush=True)
    if arguments.output:
        facts = {"date": time.strftime("%Y-%m-%d"), "torch": torch.__version__, "changed": arguments.change}
        temporary = arguments.output + ".partial"
        pathlib.Path(temporary).write_text(json.dumps(facts | {"results": results}, indent=1) + "\n")
        os.replace(temporary, arguments.output)


def changes(names):
    names = list(CHANGES) if names == "all" else [name for name in names.split(",") if name]
    for name in names:
        if name not in CHANGES:
            raise argparse.ArgumentTypeError(f"there is no {name}; there are {', '.join(CHANGES)}, all")
    return names


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / ".." / "shared" / "data")
    parser.add_argument("--only")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument(
        "--change",
        type=changes,
        default=[],
        help="; ".join(f"{name}: {what}" for name, what in CHANGES.items()),
    )
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--epochs", type=int, help="instead of the authors' number")
    parser.add_argument("--every", type=int, default=5, help="epochs from one look at validation to the next")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="a run ends at the first evaluation after this time"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    all_scores = torch.compile(scores_of, dynamic=True) if arguments.device == "cuda" else scores_of
    main()
