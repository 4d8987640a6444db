"""What reuse is worth: REAL's ablation (Figures 8 and 11 to 13) on generated graphs.

    python3 bench/reuse.py [--kymo FILE] [--graphs arxiv,stackoverflow,reddit] [--models t-gcn,...]
        [--blocks 1,2] [--epochs 4] [--windows 16] [--set model.normalisation=right] [--output ablation.md]

For every graph, model and number of blocks the same windows are trained on by two workers of one thread each:

    nothing     psg, one window after the other, nothing kept
    type I      what consecutive snapshots have in common is aggregated once (parallel.increments): by
                increments, or, for attention, by going through their edges together
    type II     windows of a worker that overlap are run together (parallel.share)
    real-g      scheduled by the greedy algorithm
    real        scheduled by the best of all
    kept        and products with features are kept from epoch to epoch (run.keep)
    esdg, blad  others, which reuse nothing
    kept alone  blad, with products kept and nothing else

An iteration has `--windows` of them in all, half at each worker, so that all do the same steps of the
optimiser. What counts is the pace of training (`edges_per_second` of metrics.jsonl) in the best epoch after
the first two; the schedulers measure one epoch. The bound is Amdahl's for reading, aggregation and the
products of structure in the forward pass: what is left of an epoch without them, by the stages that `blad`
measured (profile.json). Gradients that are shared can bring more than that. The part gained is the time saved
by the best of `type I` to `kept` over the time that the bound saves. Aggregation is that of `blad` over
that of `kept alone`, reading included: where a model multiplies features by weights first (wide ones), what
it aggregates changes with every step of the optimiser, and nothing can be kept.
"""

import argparse
import datetime
import json
import pathlib
import platform
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
GRAPHS = {"arxiv": "arxiv-like --scale 0.03 --steps 48",
          "stackoverflow": "stackoverflow-like --scale 0.0025 --steps 48",
          "reddit": "reddit-like --scale 0.03 --steps 48"}
NOTHING = {"parallel.increments": "false", "parallel.share": "false", "run.keep": "false"}
RUNS = {"parallel.order": "runs"}
VARIANTS = {
    "nothing": ("psg", {**NOTHING, **RUNS}),
    "type I": ("psg", {**NOTHING, **RUNS, "parallel.increments": "true"}),
    "type II": ("psg", {**RUNS, "run.keep": "false"}),
    "real-g": ("real-g", {"run.keep": "false"}),
    "real": ("real", {"run.keep": "false"}),
    "kept": ("real", {}),
    "esdg": ("esdg", NOTHING),
    "blad": ("blad", NOTHING),
    "kept alone": ("blad", {"parallel.increments": "false", "parallel.share": "false"}),
}


def train(kymo, store, model, blocks, epochs, windows, more, variant, folder):
    strategy, settings = VARIANTS[variant]
    # Schedulers say how many windows each of the two workers has.
    many = {"parallel.windows": windows} if strategy in ("psg", "esdg") else {"parallel.groups": windows // 2}
    # What is kept shows from the second epoch on.
    profiled = "3" if strategy == "blad" else "1"
    settings = {"train.patience": "0", "parallel.profile_epochs": profiled, "train.window": "8", **many,
                **settings}
    command = [kymo, "train", store, "--model", model, "--hidden", "64", "--blocks", str(blocks),
               "--workers", "2", "--strategy", strategy, "--epochs", str(epochs), "--quiet", "-o", folder]
    for setting in more:
        command += ["--set", setting]
    for setting, value in settings.items():
        command += ["--set", f"{setting}={value}"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip().splitlines()[-1:]
    epochs = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return max(epoch["edges_per_second"] for epoch in epochs[2:]), epochs[-1]["loss"]


def stages(folder):
    """Seconds of all windows: reading, aggregation, products, the time encoder, the way back, the rest."""
    profile = json.loads((folder / "profile.json").read_text())
    windows = profile["seconds"]
    total = [sum(statistics.median(epoch[stage] for epoch in window) for window in windows)
             for stage in range(len(profile["stages"]))]
    return dict(zip(profile["stages"], total))


def main():
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--kymo", default=ROOT / "target" / "release" / "kymo", type=pathlib.Path)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--models", default="t-gcn,wd-gcn,gat-lstm,evolvegcn-o")
    parser.add_argument("--blocks", default="1,2")
    parser.add_argument("--epochs", default=4, type=int)
    parser.add_argument("--windows", default=16, type=int, help="of an iteration")
    parser.add_argument("--set", default=[], action="append", help="a setting of all runs")
    parser.add_argument("--output", default="ablation.md", type=pathlib.Path)
    options = parser.parse_args()
    kymo = options.kymo.resolve()
    table, notes = [], []
    with tempfile.TemporaryDirectory() as made:
        made = pathlib.Path(made)
        for graph in options.graphs.split(","):
            store = made / graph
            subprocess.run([kymo, "generate", *GRAPHS[graph].split(), "-o", store, "--quiet"], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for model in options.models.split(","):
                for blocks in map(int, options.blocks.split(",")):
                    row, found = {}, {}
                    for variant in VARIANTS:
                        folder = made / "-".join([graph, model, str(blocks), variant.replace(" ", "")])
                        case = (kymo, store, model, blocks, options.epochs, options.windows, options.set)
                        row[variant], said = train(*case, variant, folder)
                        if row[variant] is None:
                            notes.append(f"{graph}, {model}, {blocks} blocks, {variant}: {said}")
                        elif (folder / "profile.json").exists():
                            found[variant] = stages(folder)
                    table.append((graph, model, blocks, row, found))
                    # What there is so far: the whole takes half an hour.
                    write(options.output, table, notes)
                    print(table[-1], flush=True)


def bounded(found):
    """Shares of the time that `blad` takes, the bound, and what is left of aggregation where it is kept."""
    if "blad" not in found:
        return {}, None, None
    total = sum(found["blad"].values())
    share = {stage: seconds / total for stage, seconds in found["blad"].items()}
    bound = 1 / (1 - share["load"] - share["aggregation"] - share["products"])
    read = [found[variant]["load"] + found[variant]["aggregation"] for variant in ("blad", "kept alone")
            if variant in found]
    return share, bound, read[0] / max(read[1], 1e-4) if len(read) == 2 else None


def gained(row, bound):
    """Of the time that could be saved, the part that the best of Kymo's variants saves."""
    paces = [row[variant] for variant in ("type I", "type II", "real-g", "real", "kept") if row.get(variant)]
    if not (bound and paces and row.get("nothing")):
        return "–"
    return f"{100 * (1 - row['nothing'] / max(paces)) / (1 - 1 / bound):.0f} %"


def write(output, table, notes):
    ratio = lambda row, variant: f"{row[variant] / row['nothing']:.2f}" if row.get(variant) else "–"
    stages = "of an epoch: reading, aggregation, products, time, backward"
    head = list(VARIANTS)[1:-1] + ["bound", "gained", "aggregation", stages]
    lines = [
        "# What reuse is worth",
        "",
        f"{datetime.date.today()}, {platform.machine()}, two workers. `bench/reuse.py` makes this",
        "table; what the columns are stands at its head. Figures are the pace of training over that of",
        "`nothing`, in one run each.",
        "",
        "| graph | model | blocks | " + " | ".join(head) + " |",
        "|---" * (len(head) + 3) + "|",
    ]
    for graph, model, blocks, row, found in table:
        share, bound, aggregation = bounded(found)
        parts = " ".join(f"{100 * share.get(stage, 0):.0f}" for stage in
                         ("load", "aggregation", "products", "time encoder", "backward"))
        cells = [graph, f"`{model}`", str(blocks), *(ratio(row, variant) for variant in list(VARIANTS)[1:-1]),
                 f"{bound:.2f}" if bound else "–", gained(row, bound),
                 f"{aggregation:.1f}" if aggregation else "–", f"{parts} %"]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", *(f"- {note}" for note in notes)]
    output.write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
