"""T-GCN and DCRNN of Kymo and of PyTorch Geometric Temporal, trained the same way on Chickenpox and Twitter
tennis: test errors side by side.

    python3 bench/peers/forecast.py [--data ../shared/data] [--seeds 1,2,3,4,5] [--only tennis/dcrnn]
        [--python PYTHON]
        [--output bench/results/forecast.json]

The same everywhere: samples split by time 70/15/15, windows of four snapshots in random order, the state from
zero at the beginning of each, a linear head on the last state, mean squared error, Adam at 0.01, gradients
clipped at norm 1, at most 100 epochs, stopped after 10 without a better validation, the best epoch's
parameters tested. Chickenpox: the last four values of a county are its features, the next is predicted.
Tennis: degree and transitivity are the features, log(1 + mentions) of the next hour is predicted.

What cannot be the same: PyTorch Geometric Temporal's T-GCN has a linear map behind each convolution; its
DCRNN takes wrong weights against the edges (see tests/reference/README.md); and random numbers differ, hence
several seeds. Its DCRNN gives NaN where a vertex has no incoming edge, so on the tennis graphs both DCRNNs
get a loop at every vertex that has none.
"""

import argparse
import gzip
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import types

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HIDDEN, WINDOW, RATE, EPOCHS, PATIENCE = 32, 4, 0.01, 100, 10

# The data sets, what Kymo is told about them, and what they are called in the table.
DATA = {
    "chickenpox": (
        "chickenpox/chickenpox.json",
        # The peer sees past values among the features alone.
        ["--set", "data.lags=4", "--set", "data.standardise=false", "--set", "task.target=raw"]
        + ["--set", "task.past=0"],
    ),
    "tennis": (
        "twitter-tennis/twitter_tennis_rg17.json.gz",
        # The peer does not see past values either.
        ["--set", "data.standardise=true", "--set", "task.target=log", "--set", "task.past=0"],
    ),
}
MODELS = {"t-gcn": [], "dcrnn": ["--set", "model.walks=1"]}
# The peer divides by the number of incoming edges, which is zero at most vertices: with a loop at each it
# gives numbers.
LOOPS = {("tennis", "dcrnn")}


def kymo(data, model, seeds, folder):
    """Test errors of Kymo."""
    file, settings = DATA[data]
    program, store, path = ROOT / "target" / "release" / "kymo", folder / data, arguments.data / file
    if (data, model) in LOOPS:
        store, path = folder / f"{data}-loops", folder / f"{data}-loops.json"
        raw = read(data)
        for t in range(raw["time_periods"]):
            hour = raw[str(t)]
            missing = sorted(
                set(range(len(hour["X"]))) - {source for source, target in hour["edges"] if source == target}
            )
            hour["edges"] += [[vertex, vertex] for vertex in missing]
            hour["weights"] += [1.0] * len(missing)
        path.write_text(json.dumps(raw))
    if not store.exists():
        subprocess.run([program, "ingest", path, "-o", store], check=True, capture_output=True)
    errors, begun = [], time.monotonic()
    for seed in seeds:
        command = [
            program,
            "train",
            store,
            "--model",
            model,
            "--hidden",
            HIDDEN,
            "--window",
            WINDOW,
            "--epochs",
            EPOCHS,
            "--seed",
            seed,
            "--learning-rate",
            RATE,
            "--set",
            f"train.patience={PATIENCE}",
            *settings,
            *MODELS[model],
            "--json",
            "-o",
            folder / f"{data}-{model}-{seed}",
        ]
        summary = json.loads(
            subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout
        )
        errors.append(summary["test"]["metrics"]["mse"])
    baselines = {name: values["mse"] for name, values in summary["test"]["baselines"].items()}
    return errors, (time.monotonic() - begun) / len(seeds), baselines


def read(data):
    path = arguments.data / DATA[data][0]
    return json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())


def steps_of(data):
    """For every step: features, edges, weights, targets."""
    import torch

    raw = read(data)
    if data == "chickenpox":
        values = torch.tensor(raw["FX"])
        edges = torch.tensor(raw["edges"]).t()
        zeros = torch.zeros(3, values.shape[1])
        padded = torch.cat([zeros, values])
        return [
            (torch.stack([padded[t + 3 - lag] for lag in range(4)], 1), edges, None, values[t])
            for t in range(len(values))
        ]
    count = raw["time_periods"]
    hours = [raw[str(t)] for t in range(count)]
    features = torch.stack([torch.tensor(hour["X"], dtype=torch.float32) for hour in hours])
    train = features[: int((count - 1) * 0.7)]
    scale = train.std((0, 1), correction=0)
    features = (features - train.mean((0, 1))) / torch.where(scale > 0, scale, torch.ones_like(scale))
    return [
        (
            features[t],
            torch.tensor(hour["edges"]).reshape(-1, 2).t(),
            torch.tensor(hour["weights"], dtype=torch.float32),
            torch.log1p(torch.tensor(hour["y"], dtype=torch.float32)),
        )
        for t, hour in enumerate(hours)
    ]


def with_loops(features, edges, weights, targets):
    """The same step with a loop at every vertex that has none."""
    import torch

    missing = torch.ones(len(features), dtype=torch.bool)
    missing[edges[0][edges[0] == edges[1]]] = False
    loops = torch.nonzero(missing).t().repeat(2, 1)
    return features, torch.cat([edges, loops], 1), torch.cat([weights, torch.ones(loops.shape[1])]), targets


def peer(data, model, seeds):
    """Test errors of PyTorch Geometric Temporal."""
    import torch

    # It imports torch_sparse for a type that these cells do not use.
    sys.modules.setdefault("torch_sparse", types.SimpleNamespace(SparseTensor=object))
    from torch_geometric_temporal.nn.recurrent import DCRNN, TGCN

    # Graphs this small are slower with more threads.
    torch.set_num_threads(1)
    steps = steps_of(data)
    if (data, model) in LOOPS:
        steps = [with_loops(*step) for step in steps]
    samples = len(steps) - 1
    first, second = int(samples * 0.7 + 1e-9), int(samples * 0.85 + 1e-9)
    errors, begun = [], time.monotonic()
    for seed in seeds:
        torch.manual_seed(seed)
        shuffler = random.Random(seed)
        width = steps[0][0].shape[1]
        cell = TGCN(width, HIDDEN) if model == "t-gcn" else DCRNN(width, HIDDEN, 2)
        head = torch.nn.Linear(HIDDEN, 1)
        parameters = [*cell.parameters(), *head.parameters()]
        optimiser = torch.optim.Adam(parameters, lr=RATE)

        def error(sample):
            hidden = None
            for features, edges, weights, _ in steps[sample + 1 - WINDOW : sample + 1]:
                hidden = cell(features, edges, weights, hidden)
            return ((head(hidden).squeeze(1) - steps[sample + 1][3]) ** 2).mean()

        def mean(part):
            with torch.no_grad():
                return statistics.fmean(error(sample).item() for sample in part)

        best, kept, waited = math.inf, None, 0
        for _ in range(EPOCHS):
            order = list(range(WINDOW - 1, first))
            shuffler.shuffle(order)
            for sample in order:
                optimiser.zero_grad()
                error(sample).backward()
                torch.nn.utils.clip_grad_norm_(parameters, 1.0)
                optimiser.step()
            reached = mean(range(first, second))
            waited += 1
            if reached < best:
                best, kept, waited = reached, [parameter.detach().clone() for parameter in parameters], 0
            if waited >= PATIENCE:
                break
        with torch.no_grad():
            for parameter, value in zip(parameters, kept):
                parameter.copy_(value)
        errors.append(mean(range(second, samples)))
    return errors, (time.monotonic() - begun) / len(seeds)


def spread(errors):
    return f"{statistics.fmean(errors):.4f} ± {statistics.stdev(errors):.4f}"


def main():
    if arguments.peer:
        data, model = arguments.peer.split("/")
        print(json.dumps(peer(data, model, seeds)))
        return
    subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=ROOT, check=True)
    sys.path.insert(0, str(HERE))
    import run

    interpreter = arguments.python or run.python()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for data in DATA:
            if not (arguments.data / DATA[data][0]).exists():
                print(f"{data} is not there, left out")
                continue
            for model in MODELS:
                if arguments.only and f"{data}/{model}" not in arguments.only.split(","):
                    continue
                ours, seconds, baselines = kymo(data, model, seeds, pathlib.Path(folder))
                command = [
                    interpreter,
                    __file__,
                    "--peer",
                    f"{data}/{model}",
                    "--data",
                    arguments.data,
                    "--seeds",
                    arguments.seeds,
                ]
                answer = subprocess.run(
                    list(map(str, command)), check=True, capture_output=True, text=True
                ).stdout
                theirs, their_seconds = json.loads(answer.splitlines()[-1])
                print(
                    f"{data}, {model}: test mse kymo {spread(ours)} ({seconds:.1f} s), "
                    f"PyTorch Geometric Temporal {spread(theirs)}"
                    f" ({their_seconds:.1f} s); baselines {baselines}",
                    flush=True,
                )
                results[f"{data} {model}"] = {
                    "kymo": ours,
                    "kymo_seconds": seconds,
                    "peer": theirs,
                    "peer_seconds": their_seconds,
                    "baselines": baselines,
                }
    if arguments.output:
        if arguments.only and pathlib.Path(arguments.output).exists():
            results = json.loads(pathlib.Path(arguments.output).read_text())["results"] | results
        temporary = arguments.output + ".partial"
        pathlib.Path(temporary).write_text(
            json.dumps({"date": time.strftime("%Y-%m-%d"), "seeds": seeds, "results": results}, indent=1)
            + "\n"
        )
        os.replace(temporary, arguments.output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / ".." / "shared" / "data")
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument(
        "--only", help="cases to run, as in tennis/dcrnn; the others stay in the output as they are"
    )
    parser.add_argument("--python")
    parser.add_argument("--output")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    main()
