"""Tables and figures of DyGNeX's and REAL's evaluations that a training with workers on one machine can show.

    python3 bench/papers.py [--kymo FILE] [--graphs arxiv,stackoverflow,reddit] [--workers 2]
        [--models t-gcn,wd-gcn,gat-lstm,evolvegcn-o] [--parts epochs,profiling,load,overlap,accuracy]
        [--output FILE]

    epochs     DyGNeX Table 4, Figures 4 and 14; REAL Figures 2, 4 and 27: of every graph, model and strategy
               the seconds of an epoch, how busy workers are, the share of an epoch that waits for rows, how
               far the schedule's prediction is off, and how far the linear cost model is
    profiling  DyGNeX Figure 13: the pace of training by the number of profiling epochs
    load       DyGNeX Figure 1: cells and edges of each worker by `esdg` and `blad`
    overlap    REAL Figure 3: the part of the edges that consecutive snapshots share, by rate of change
    accuracy   DyGNeX Figures 3, 11 and 12: classes of vertices after 100 epochs by `psg` and by schedules
               that pair groups, of smaller graphs: test accuracy and the loss of training

Graphs are those of reuse.py, windows have four steps, models 64 columns, workers one thread each. Epochs are
medians of those after profiling. The file is written anew after every part.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

from reuse import GRAPHS, ROOT
from schedules import epochs

STRATEGIES = ["esdg", "vertex-metis", "blad", "psg", "dygnex-g", "dygnex", "real-g", "real"]
PROFILE, EPOCHS = 3, 7
SMALL = {"arxiv": "arxiv-like --scale 0.01 --steps 48",
         "stackoverflow": "stackoverflow-like --scale 0.001 --steps 48",
         "reddit": "reddit-like --scale 0.003 --steps 48"}
PAIRED = {"psg": [], "psg, four windows": ["--set", "parallel.windows=4"], "dygnex-g": [], "dygnex": []}
BASIC = ["--hidden", 64, "--window", 4, "--set", "train.patience=0", "--set", "split.validation=0.05"]


def kymo(options, *arguments):
    command = list(map(str, [options.kymo, *arguments]))
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def train(options, store, run, model, strategy, *more):
    kymo(options, "train", store, "--model", model, "--workers", options.workers, "--threads",
         options.workers, "--strategy", strategy, *BASIC, "--quiet", *more, "-o", run)
    return run


def waiting(run, workers):
    """The share of all workers' time in windows that waits for rows of others."""
    waited, inside = 0, 0
    for worker in range(workers):
        for line in (run / "trace" / f"worker-{worker}.jsonl").read_text().splitlines()[1:]:
            span = json.loads(line)
            waited += (span["end"] - span["start"]) * (span["kind"] == "wait" and span["name"] == "rows")
            inside += (span["end"] - span["start"]) * (
                span["kind"] == "compute" and span["name"] in ("window", "windows"))
    return waited / max(inside, 1)


def measured(options, store, folder):
    """A row for each model and strategy."""
    heads = ["model", "strategy", "seconds of an epoch", "over the fastest", "busiest over mean", "busy",
             "waits for rows", "measured / predicted", "cost model off by"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for model in options.models.split(","):
        rows = []
        for strategy in STRATEGIES:
            run = train(options, store, folder / f"{model}-{strategy}", model, strategy, "--epochs", EPOCHS,
                        "--set", f"parallel.profile_epochs={PROFILE}")
            last = epochs(run, options.workers)[PROFILE + 1 : EPOCHS]
            seconds = statistics.median(wall for wall, _ in last)
            busy = [statistics.median(one[1][worker] for one in last) for worker in range(options.workers)]
            plan, profile = run / "schedule.json", run / "profile.json"
            predicted = json.loads(plan.read_text()).get("predicted") if plan.exists() else None
            fitted = json.loads(profile.read_text()).get("model") if profile.exists() else None
            rows.append([strategy, seconds, max(busy) * options.workers / max(sum(busy), 1e-9),
                         sum(busy) / (options.workers * seconds), waiting(run, options.workers),
                         seconds / predicted if predicted else None, fitted["error"] if fitted else None])
            print(store.name, model, *rows[-1], flush=True)
        fastest = min(row[1] for row in rows)
        for strategy, seconds, imbalance, busy, waits, off, error in rows:
            cells = [f"`{model}`", f"`{strategy}`", f"{seconds:.2f}", f"{seconds / fastest:.2f}",
                     f"{imbalance:.3f}", f"{100 * busy:.1f} %", f"{100 * waits:.1f} %",
                     "" if off is None else f"{off:.2f}", "" if error is None else f"{100 * error:.1f} %"]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def profiling(options, store, folder):
    lines = ["| profiling epochs | M edges/s after them | busiest over mean |", "|---|---|---|"]
    for count in [1, 2, 3, 4, 6]:
        run = train(options, store, folder / f"profiled-{count}", "t-gcn", "dygnex", "--epochs", count + 5,
                    "--set", f"parallel.profile_epochs={count}")
        told = (run / "metrics.jsonl").read_text().splitlines()[count + 1 :]
        pace = statistics.median(json.loads(line)["edges_per_second"] / 1e6 for line in told)
        last = epochs(run, options.workers)[count + 1 :]
        busy = [statistics.median(one[1][worker] for one in last) for worker in range(options.workers)]
        imbalance = max(busy) * options.workers / max(sum(busy), 1e-9)
        lines.append(f"| {count} | {pace:.2f} | {imbalance:.3f} |")
        print(lines[-1], flush=True)
    return lines


def accuracy(options, folder):
    lines = ["| graph | model | " + " | ".join(f"`{name}`: accuracy, losses" for name in PAIRED) + " |",
             "|---" * (len(PAIRED) + 2) + "|"]
    for name, graph in SMALL.items():
        store = folder / f"small-{name}"
        kymo(options, "generate", *graph.split(), "-o", store, "--quiet")
        for model in options.models.split(","):
            cells = []
            for strategy, more in PAIRED.items():
                run = folder / f"{name}-{model}-{strategy}".replace(" ", "")
                told = kymo(options, "train", store, "--task", "node-classification", "--model", model,
                            "--workers", options.workers, "--threads", options.workers, "--strategy",
                            strategy.split(",")[0], "--epochs", 100, "--set", "train.patience=0",
                            "--hidden", 64, "--window", 4, *more, "--json", "-o", run)
                losses = [json.loads(line)["loss"] for line in (run / "metrics.jsonl").open()]
                found = json.loads(told)["test"]["metrics"]["accuracy"]
                cells.append(f"{found:.3f}, {losses[9]:.3f} {losses[49]:.3f} {losses[99]:.3f}")
            lines.append(f"| {name} | `{model}` | " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    return ["Losses after 10, 50 and 100 epochs. A schedule has half as many steps of the optimiser in an",
            "epoch as `psg`, or as many with `parallel.windows=4` for it.", "", *lines]


def load(options, folder):
    """Cells and edges of each of four workers, of a graph that grows."""
    store = folder / "growing"
    kymo(options, "generate", "power-law", "--vertices", 20000, "--edges", 200000, "--steps", 48, "--trend",
         "stackoverflow", "-o", store, "--quiet")
    lines = ["| strategy | " + " | ".join(f"worker {worker}: cells, edges" for worker in range(4)) + " |",
             "|---" * 5 + "|"]
    for strategy in ["esdg", "blad", "psg", "pss-ts"]:
        told = kymo(options, "plan", store, "--workers", 4, "--strategy", strategy, *BASIC, "--json")
        workers = json.loads(told)[0]["workers"]
        lines.append(f"| `{strategy}` | " + " | ".join(
            f"{worker['cells']:,}, {worker['edges']:,}" for worker in workers) + " |")
    return lines


def overlap(options, folder):
    """How much of consecutive snapshots is the same."""
    lines = ["| edges that change a step | shared with the step before "
             "| distinct edges of four snapshots over all of their edges | of eight |", "|---|---|---|---|"]
    for rate in [0.01, 0.02, 0.05, 0.1, 0.15, 0.2]:
        row = []
        for steps in [4, 8]:
            store = folder / f"rate-{rate}-{steps}"
            kymo(options, "generate", "power-law", "--vertices", 20000, "--edges", 200000, "--steps", steps,
                 "--edge-change", rate, "--features", 0, "-o", store, "--quiet")
            found = json.loads(kymo(options, "inspect", store, "--json"))
            row.append(found["distinct_edges"] / found["edges"])
        shared = statistics.fmean(step["overlap"] for step in found["per_step"][1:])
        lines.append("| " + " | ".join(f"{100 * share:.1f} %" for share in [rate, shared, *row]) + " |")
    return lines


def main():
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--kymo", default=ROOT / "target" / "release" / "kymo", type=pathlib.Path)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--models", default="t-gcn,wd-gcn,gat-lstm,evolvegcn-o")
    parser.add_argument("--workers", default=2, type=int)
    parser.add_argument("--parts", default="epochs,profiling,load,overlap,accuracy")
    parser.add_argument("--output", default=ROOT / "bench" / "results" / "papers.md", type=pathlib.Path)
    options = parser.parse_args()
    parts = options.parts.split(",")
    today = datetime.date.today().isoformat()
    text = ["# DyGNeX's and REAL's evaluations, on one machine", "",
            f"`python3 bench/papers.py` makes this file; what is measured stands at its head. {today}, "
            f"{os.cpu_count()} cores,", f"{options.workers} workers of one thread each.", ""]

    def write():
        partial = options.output.with_name(options.output.name + ".partial")
        partial.write_text("\n".join(text) + "\n")
        os.replace(partial, options.output)

    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        for graph in options.graphs.split(","):
            store = folder / graph
            kymo(options, "generate", *GRAPHS[graph].split(), "-o", store, "--quiet")
            if "epochs" in parts:
                runs = folder / f"runs-{graph}"
                rows = measured(options, store, runs)
                text += [f"## {graph}: `kymo generate {GRAPHS[graph]}`", "", *rows, ""]
                write()
        first = folder / options.graphs.split(",")[0]
        others = [("profiling", "Pace by profiling epochs", lambda: profiling(options, first, folder)),
                  ("load", "Cells and edges of four workers", lambda: load(options, folder)),
                  ("overlap", "What snapshots share", lambda: overlap(options, folder)),
                  ("accuracy", "Accuracy after 100 epochs", lambda: accuracy(options, folder))]
        for part, title, act in others:
            if part in parts:
                text += [f"## {title}", "", *act(), ""]
                write()


if __name__ == "__main__":
    main()
