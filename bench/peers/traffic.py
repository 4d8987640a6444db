"""The week of METR-LA, twelve horizons of five minutes in one training: Kymo beside models of PyTorch
Geometric Temporal, test mae at 15, 30 and 60 minutes.

    python3 bench/peers/traffic.py [--data ../shared/data] [--seeds 1,2,3] [--only a3tgcn] [--device cuda]
        [--kymo target/release/kymo] [--output bench/results/traffic.json]

The same everywhere: the speeds of the sensors and the graph between them, samples split by time 70/15/15,
absolute errors, Adam, gradients clipped at norm 1, the best epoch by validation is tested, on the same
sensors, steps and horizons: those that `kymo predict --split test` lists, with the same truth.

The peers read the last twelve speeds, standardised by training, and predict twelve; each is as in the
documentation of its library: A3TGCN2 (A3T-GCN for batches), BatchedDCRNN, STConv (the block of STGCN, twice).
They are trained with all samples in batches of 32, at the rates 0.01 and 0.001 (`--rates`) with the first
seed; the rate with the better validation is kept for all seeds. At most 30 epochs (Kymo: 24), stopped after 5
without a better one.
`--device` is where the peers are trained; Kymo is on the cores in any case.
"""

import argparse
import concurrent.futures
import csv
import gzip
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import types

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FOLDER = "metr-la-week"
HORIZONS, PAST, HIDDEN, BATCH, EPOCHS, PATIENCE = 12, 12, 32, 32, 30, 5
SHOWN = [3, 6, 12]
# The settings were found by validation, with the first seed; batches are as the peers have them in those of
# 32 windows.
WIDE = ["--model", "dcrnn", "--window", "12", "--hidden", "64", "--learning-rate", "0.003",
        "--set", "parallel.windows=8"]
OFF = ["--set", "task.season=off"]
KYMO = {
    "kymo, default": [],
    "kymo, dcrnn, 64 columns": WIDE,
    "kymo, default, without a season": OFF,
    "kymo, dcrnn, 64 columns, without a season": [*WIDE, *OFF],
    "kymo, dcrnn, without a season": ["--model", "dcrnn", "--window", "12", "--set", "parallel.windows=32",
                                      *OFF],
    "kymo, gc-lstm, without a season": ["--model", "gc-lstm", "--window", "12", "--set", "parallel.windows=8",
                                        *OFF],
}
PEERS = ["a3tgcn", "dcrnn", "stgcn"]


def run(*command):
    words = list(map(str, command))
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def kymo(folder, seeds):
    """Test errors of Kymo, and what they are of: the truth by step and horizon."""
    store, data = folder / "metr", arguments.data / FOLDER
    run(arguments.kymo, "ingest", data / "los_adj.csv", "--signal", data / "los_speed.csv.gz", "-o", store)
    found, truth = {}, {}
    def once(name, seed):
        out = folder / f"{name.replace(' ', '')}-{seed}"
        settings = ["--set", "task.horizons=1..12", "--set", "train.patience=5", "--metrics", "mae,mse"]
        settings += ["--epochs", 24, "--seed", seed, "--threads", 1, *KYMO[name]]
        begun = time.monotonic()
        run(arguments.kymo, "train", store, *settings, "-o", out, "--json")
        seconds, table = time.monotonic() - begun, folder / f"{out.name}.csv"
        run(arguments.kymo, "predict", out, "--split", "test", "-o", table)
        epochs = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        best = min(epoch["validation"]["mae"] for epoch in epochs)
        sums = {horizon: [0.0, 0] for horizon in range(1, HORIZONS + 1)}
        with open(table, newline="") as file:
            for row in csv.DictReader(file):
                horizon, step, vertex = int(row["horizon"]), int(row["step"]), row["vertex"]
                true = float(row["truth"])
                truth[step, horizon, vertex] = true
                sums[horizon][0] += abs(float(row["value"]) - true)
                sums[horizon][1] += 1
        errors = [total / count for total, count in sums.values()]
        print(json.dumps([name, seed, best, errors, seconds]), file=sys.stderr, flush=True)
        return errors, best, seconds

    chosen = arguments.models.split(";") if arguments.models else list(KYMO)
    cases = [(name, seed) for seed in seeds for name in chosen]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        done = dict(zip(cases, pool.map(lambda case: once(*case), cases)))
    for name in chosen:
        errors, best, seconds = zip(*(done[name, seed] for seed in seeds))
        found[name] = {"errors": errors, "validation": best, "seconds": statistics.fmean(seconds)}
    return found, truth


def signal():
    """Speeds [steps, sensors], edges [2, E], weights [E]."""
    import torch

    data = arguments.data / FOLDER
    with gzip.open(data / "los_speed.csv.gz", "rt") as file:
        rows = [[float(cell) for cell in line.split(",")] for line in list(file)[1:]]
    matrix = torch.tensor(
        [[float(cell) for cell in line.split(",")] for line in (data / "los_adj.csv").read_text().split()]
    )
    edges = matrix.nonzero().t().contiguous()
    return torch.tensor(rows), edges, matrix[edges[0], edges[1]]


def made(name, sensors):
    """A peer that maps speeds [batch, 12, sensors] to [batch, 12, sensors]."""
    import torch

    sys.modules.setdefault("torch_sparse", types.SimpleNamespace(SparseTensor=object))
    from torch_geometric_temporal.nn.attention import STConv
    from torch_geometric_temporal.nn.recurrent import A3TGCN2, BatchedDCRNN

    class Attentive(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = A3TGCN2(1, HIDDEN, PAST, BATCH)
            self.head = torch.nn.Linear(HIDDEN, HORIZONS)

        def forward(self, x, edges, weights):
            hidden = self.cell(x.permute(0, 2, 1).unsqueeze(2), edges, weights)
            return self.head(torch.relu(hidden)).permute(0, 2, 1)

    class Diffusing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = BatchedDCRNN(1, HIDDEN, 2)
            self.head = torch.nn.Linear(HIDDEN, HORIZONS)

        def forward(self, x, edges, weights):
            hidden = self.cell(x.unsqueeze(3), edges, weights)
            return self.head(torch.relu(hidden[:, -1])).permute(0, 2, 1)

    class Convolving(torch.nn.Module):
        def __init__(self):
            super().__init__()
            # Each takes four steps: of twelve, four are left.
            self.first = STConv(sensors, 1, HIDDEN, HIDDEN, 3, 2)
            self.second = STConv(sensors, HIDDEN, HIDDEN, HIDDEN, 3, 2)
            self.head = torch.nn.Linear((PAST - 8) * HIDDEN, HORIZONS)

        def forward(self, x, edges, weights):
            hidden = self.second(self.first(x.unsqueeze(3), edges, weights), edges, weights)
            return self.head(hidden.permute(0, 2, 1, 3).flatten(2)).permute(0, 2, 1)

    return {"a3tgcn": Attentive, "dcrnn": Diffusing, "stgcn": Convolving}[name]()


class Peer:
    """One model on the data: trained, and judged by what Kymo was judged by."""

    def __init__(self, name, truth):
        import torch

        self.name = name
        self.values, self.edges, self.weights = (part.to(arguments.device) for part in signal())
        names = sorted({vertex for _, _, vertex in truth}, key=int)
        with gzip.open(arguments.data / FOLDER / "los_speed.csv.gz", "rt") as file:
            columns = {name.strip().strip('"'): place for place, name in enumerate(next(file).split(","))}
        # Sensors go by their names, or by their places where the graph knows only those.
        place = columns if set(names) <= set(columns) else {name: int(name) for name in names}
        samples = len(self.values) - HORIZONS
        self.first, self.second = int(samples * 0.7 + 1e-9), int(samples * 0.85 + 1e-9)
        # Predictions are listed by the step they are about; a sample is the step at which they are made.
        steps = sorted({step - horizon for step, horizon, _ in truth})
        assert steps == list(range(self.second, samples)), (steps[0], steps[-1], self.second, samples)
        self.test = torch.tensor(steps)
        # The truth that Kymo lists is what the file has.
        for (step, _, vertex), true in list(truth.items())[:: max(len(truth) // 1000, 1)]:
            assert abs(self.values[step, place[vertex]].item() - true) < 1e-3, (step, vertex)
        train = self.values[: self.first]
        self.mean, self.scale = train.mean(), train.std()
        self.scaled = (self.values - self.mean) / self.scale

    def batch(self, samples):
        import torch

        past = torch.stack([self.scaled[sample + 1 - PAST : sample + 1] for sample in samples.tolist()])
        come = torch.stack([self.scaled[sample + 1 : sample + 1 + HORIZONS] for sample in samples.tolist()])
        return past, come

    def errors(self, model, samples):
        """Mean absolute error of each horizon, in miles per hour."""
        import torch

        sums = torch.zeros(HORIZONS, device=arguments.device)
        with torch.no_grad():
            for some in samples.split(BATCH):
                # One of them takes batches of one size alone.
                padded = torch.cat([some, some[-1:].repeat(BATCH - len(some))])
                past, come = self.batch(padded)
                found = model(past, self.edges, self.weights)
                sums += (found - come).abs()[: len(some)].mean(2).sum(0)
        return (sums / len(samples) * self.scale).tolist()

    def trained(self, seed, rate):
        """The best validation error, and the test errors of that epoch."""
        import torch

        torch.manual_seed(seed)
        model = made(self.name, self.values.shape[1]).to(arguments.device)
        optimiser = torch.optim.Adam(model.parameters(), lr=rate)
        training = torch.arange(PAST - 1, self.first)
        validation = torch.arange(self.first, self.second)
        best, test, waited = math.inf, None, 0
        for epoch in range(EPOCHS):
            model.train()
            order = training[torch.randperm(len(training))]
            for some in order[: len(order) // BATCH * BATCH].split(BATCH):
                optimiser.zero_grad()
                past, come = self.batch(some)
                (model(past, self.edges, self.weights) - come).abs().mean().backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimiser.step()
            model.eval()
            reached = statistics.fmean(self.errors(model, validation))
            print(f"{self.name} seed {seed} rate {rate} epoch {epoch + 1}: {reached:.4f}", file=sys.stderr)
            waited += 1
            if reached < best:
                best, test, waited = reached, self.errors(model, self.test), 0
            if waited == PATIENCE or not math.isfinite(reached):
                break
        return best, test

    def judged(self, seeds):
        begun = time.monotonic()
        tried = {rate: self.trained(seeds[0], rate) for rate in map(float, arguments.rates.split(","))}
        rate = min(tried, key=lambda rate: tried[rate][0])
        done = [tried[rate]] + [self.trained(seed, rate) for seed in seeds[1:]]
        best, errors = zip(*done)
        seconds = (time.monotonic() - begun) / (len(seeds) + len(tried) - 1)
        return {"errors": errors, "validation": best, "rate": rate, "seconds": seconds}


def line(name, found):
    def figure(select):
        values = [select(errors) for errors in found["errors"]]
        spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
        return f"{statistics.fmean(values):.3f}{spread}"

    cells = [figure(lambda errors, at=at: errors[at - 1]) for at in SHOWN] + [figure(statistics.fmean)]
    best = statistics.fmean(found["validation"])
    return f"| {name} | {' | '.join(cells)} | {best:.3f} | {found['seconds']:.0f} s |"


def main():
    peers = [name for name in PEERS if arguments.only in (None, name)]
    if peers:
        import torch

        torch.set_num_threads(arguments.threads)
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        found, truth = kymo(pathlib.Path(folder), seeds)
    for name in peers:
        found[f"PyTorch Geometric Temporal, {name}"] = Peer(name, truth).judged(seeds)
    if arguments.output and arguments.output.exists():
        before = json.loads(arguments.output.read_text())
        # What was measured before, of other models, stays.
        found = {**(before["found"] if before["seeds"] == seeds else {}), **found}
    print("| test mae | 15 minutes | 30 minutes | 60 minutes | all twelve | validation | a training |")
    print("|---|---|---|---|---|---|---|")
    print("\n".join(line(name, one) for name, one in found.items()))
    if arguments.output:
        arguments.output.write_text(json.dumps({"seeds": seeds, "found": found}, indent=1) + "\n")


parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
parser.add_argument("--data", type=pathlib.Path, default=ROOT.parent / "shared" / "data")
parser.add_argument("--seeds", default="1,2,3")
parser.add_argument("--only", choices=[*PEERS, "kymo"])
parser.add_argument("--models", help="which trainings of Kymo, by their names, with ; between them")
parser.add_argument("--rates", default="0.01,0.001")
parser.add_argument("--kymo", type=pathlib.Path, default=ROOT / "target" / "release" / "kymo")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--device", default="cpu")
parser.add_argument("--jobs", type=int, default=1, help="trainings of Kymo at a time, one thread each")
parser.add_argument("--output", type=pathlib.Path)
arguments = parser.parse_args()

if __name__ == "__main__":
    main()
