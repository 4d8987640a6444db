"""DGC's chunks beside the partitionings that it is compared with: seconds and bytes of an epoch, and how even
workers are (DGC, Figures 4, 12 and 14).

    python3 bench/dgc.py --kymo KYMO [--data ../shared/data] [--ranks 4] [--epochs 4] [--models t-gcn,...]
        [--graphs NAME,...] [--strategies pss,...] [--output bench/results/dgc.json]

KYMO is built with `--features mpi`; every worker is a process under `mpirun`, with one thread. The whole
sequence is one window, as in the paper, features are degrees, models have 32 columns. Graphs are real ones,
and made ones like those of Figure 13: 50 steps whose edges are normally distributed about 20,000, with a
deviation of 0, 5,000 and 10,000 (`edges-0`, ...), among 5,000 vertices in communities; and lifetimes of
vertices from all steps to a few (`lives-1.0`, `lives-0.5`, `lives-0.2`: the shortest over all). The pace
is that of training in the best epoch after the first, without the validation, which the first worker judges
by itself (`edges_per_second` of `metrics.jsonl`). Bytes are what workers sent; their busy seconds are those
of the whole run. A strategy that fails or is not done within ten minutes is told as such.

Results are added to those that the output has: a few graphs or strategies at a time are fine.
"""

import argparse
import csv
import json
import pathlib
import platform
import random
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
STRATEGIES = ["pss", "pss-count", "pts", "pts-count", "pss-ts", "vertex-metis", "dgc-greedy", "dgc"]
MODELS = ["t-gcn", "dysat", "mpnn-lstm"]
# Layers of structure, as in the paper.
LAYERS = {"t-gcn": 2, "dysat": 1, "mpnn-lstm": 2}
# Files and options of `kymo ingest`.
REAL = {
    "mathoverflow": "sx-mathoverflow/sx-mathoverflow.txt.gz --steps 50",
    "epinions": "epinions-trust/soc-epinions-trust-dir.edges.gz --events 20000",
    "dblp": "dblp-labelled/dblp.txt.gz --undirected --steps 25",
    "as-733": "as-733/deltas.tsv.gz --undirected",
}
MADE = {f"edges-{deviation}": (deviation, 1.0) for deviation in (0, 5000, 10000)}
MADE |= {f"lives-{shortest}": (0, shortest) for shortest in (1.0, 0.5, 0.2)}
VERTICES, STEPS, EDGES, COMMUNITY = 5_000, 50, 20_000, 100


def made(path, deviation, shortest):
    """A table of edges: most of them stay within a community, among vertices that are alive."""
    draw = random.Random(7)
    lives = []
    for _ in range(VERTICES):
        length = round(STEPS * draw.uniform(shortest, 1.0))
        first = draw.randint(0, STEPS - length)
        lives.append((first, first + length))
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["src", "dst", "t"])
        for step in range(STEPS):
            alive = [vertex for vertex, (first, end) in enumerate(lives) if first <= step < end]
            groups = {}
            for vertex in alive:
                groups.setdefault(vertex // COMMUNITY, []).append(vertex)
            for _ in range(max(100, round(draw.gauss(EDGES, deviation)))):
                source = draw.choice(alive)
                near = groups[source // COMMUNITY] if draw.random() < 0.9 else alive
                rows.writerow([source, draw.choice(near), step])


def run(*command, limit=600):
    words = list(map(str, command))
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=limit).stdout


def store_of(name, folder, args):
    store = folder / name
    if store.exists():
        return store
    if name in REAL:
        first, *rest = REAL[name].split()
        if not (args.data / first).is_file():
            return None
        run(args.kymo, "ingest", args.data / first, *rest, "-o", store)
    else:
        table = folder / f"{name}.csv"
        made(table, *MADE[name])
        run(args.kymo, "ingest", table, "--steps", STEPS, "-o", store)
    return store


def measure(store, model, strategy, folder, args):
    common = ["--task", "link-prediction", "--model", model, "--layers", LAYERS[model], "--hidden", 32,
              "--mode", "sequence",
              "--strategy", strategy, "--set", "data.features=degrees", "--set", "link.history=false"]
    plan = json.loads(run(args.kymo, "plan", store, "--workers", args.ranks, "--exact", "--json", *common))
    plan = plan[0] if isinstance(plan, list) else plan
    output = folder / f"run-{store.name}-{model}-{strategy}"
    run("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", args.ranks, "--mca",
        "mpi_yield_when_idle", 1, args.kymo, "train", store, *common, "--threads", 1, "--epochs", args.epochs,
        "--set", "train.patience=0", "--quiet", "-o", output)
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    summary = json.loads((output / "summary.json").read_text())
    workers = summary["workers"]
    return {"pace": max(line["edges_per_second"] for line in lines[1:]), "planned": plan["seconds"],
            "epoch": min(line["seconds"] for line in lines[1:]),
            "sent": sum(worker["sent"][0] for worker in workers["workers"]) / args.epochs,
            "busy": [worker["busy"] for worker in workers["summary"]["workers"]],
            "note": plan.get("note"), "loss": lines[-1]["loss"]}


ABOUT = """# DGC's chunks beside other partitionings

`python3 bench/dgc.py` makes this file; its head says what is measured. {ranks} processes under `mpirun` share
two cores. M edges/s while training, and that over the fastest; bytes of rows that all workers send in an
epoch; the busiest worker over the least busy one, without the first, which judges the validation.

| graph | model | strategy | M edges/s | of the fastest | rows, MiB | divergence |
|---|---|---|---|---|---|---|
"""


def table(results):
    rows = []
    for graph, models in results["cases"].items():
        for model, all_of in models.items():
            fastest = max((found["pace"] for found in all_of.values() if "pace" in found), default=1)
            for strategy, found in all_of.items():
                if "pace" not in found:
                    rows.append(f"| {graph} | {model} | `{strategy}` | – | – | – | – |")
                    continue
                busy = found["busy"][1:]
                rows.append(f"| {graph} | {model} | `{strategy}` | {found['pace'] / 1e6:.2f} | "
                            f"{found['pace'] / fastest:.2f} | {found['sent'] / 2**20:.1f} | "
                            f"{max(busy) / min(busy):.2f} |")
    return ABOUT.format(ranks=results["ranks"]) + "\n".join(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kymo", type=pathlib.Path, default=ROOT / "target/release/kymo")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / ".." / "shared" / "data")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--graphs", default=",".join([*REAL, *MADE]))
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "bench/results/dgc.json")
    args = parser.parse_args()
    args.kymo, args.data = args.kymo.resolve(), args.data.resolve()
    results = json.loads(args.output.read_text()) if args.output.exists() else {"cases": {}}
    results |= {"machine": platform.machine(), "ranks": args.ranks}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name in args.graphs.split(","):
            store = store_of(name, folder, args)
            if store is None:
                print(f"{name}: not there, left out")
                continue
            for model in args.models.split(","):
                for strategy in args.strategies.split(","):
                    case = results["cases"].setdefault(name, {}).setdefault(model, {})
                    try:
                        case[strategy] = found = measure(store, model, strategy, folder, args)
                        print(f"{name:14} {model:10} {strategy:13} {found['pace'] / 1e6:8.3f}", flush=True)
                    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                        said = (getattr(error, "stderr", "") or "error: out of time").splitlines()
                        why = next((line for line in said if line.startswith("error")), "no message")
                        case[strategy] = {"failed": why}
                        print(f"{name:14} {model:10} {strategy:13} failed: {why}", flush=True)
                    args.output.write_text(json.dumps(results, indent=1) + "\n")
                    args.output.with_suffix(".md").write_text(table(results))


if __name__ == "__main__":
    main()
