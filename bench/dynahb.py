"""DynaHB's hybrid batches beside its baselines: how long training takes until it is as good as full batches
(DynaHB, Tables 2 and 7, Figures 6 and 7).

    python3 bench/dynahb.py [--kymo KYMO] [--data ../shared/data] [--models t-gcn,evolvegcn-o] [--workers 1,2]
        [--graphs NAME,...] [--strategies pyd,...] [--epochs 100] [--output bench/results/dynahb.json]

The setting is that of the paper, `examples/dynahb.toml`: log(1 + in-degree of the next step), edges that live
for three steps, the first 40 % of the steps trained on, and ten epochs without a better validation are the
end. Batches of some vertices have a twentieth of them, batches of some windows a fifth. `dynahb` averages
models every second where there are several workers, `sync` is the same with gradients that are summed in
every step; so do the baselines. A worker has one thread.

What counts is the clock of epochs (`seconds` of metrics.jsonl): reading, taking batches out, training and
validation. The goal is the best validation of full batches (`pyd`), within 1 %: when its mse is reached
first. Memory is the peak of the process. A training that is not done within the limit counts as far as it
came.

Results are added to those that the output has: a few graphs or strategies at a time are fine.
"""

import argparse
import json
import math
import pathlib
import platform
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Files and options of `kymo ingest`: steps are chosen so that there are some fifty to eighty.
GRAPHS = {
    "collegemsg": "collegemsg/CollegeMsg.txt.gz --window 3d",
    "otc": "bitcoin-otc/soc-sign-bitcoinotc.csv.gz --window 30d",
    "email": "email-eu-core-temporal/email-Eu-core-temporal.txt.gz --time-unit s --window 10d",
    "mathoverflow": "sx-mathoverflow/sx-mathoverflow.txt.gz --window 30d",
    "wikipedia": "wikipedia-edits/wikipedia.txt.gz --time-unit s --window 12h",
}
# How each differs from the preset; a fifth of the windows are put in for `some`.
FULL, SOME = {"train.batch_windows": 1}, {"train.batch_windows": "some"}
STRATEGIES = {"pyd": FULL, "adt": FULL, "dbov": FULL, "bvr": FULL, "dbos": SOME, "sync": SOME,
              "dynahb": SOME | {"averaging.seconds": 1.0}}
LIMIT = 300


def run(*command, limit=600):
    words = list(map(str, command))
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=limit).stdout


def measure(kymo, store, steps, model, strategy, workers, epochs, folder):
    output = folder / f"{store.name}-{model}-{strategy}-{workers}"
    settings = {"averaging.seconds": 0.0} | STRATEGIES[strategy]
    if settings["train.batch_windows"] == "some":
        settings["train.batch_windows"] = max(2, round(0.2 * 0.4 * steps))
    if workers == 1:
        settings["averaging.seconds"] = 0.0
    name = "dynahb" if strategy == "sync" else strategy
    command = [kymo, "train", store, "--config", ROOT / "examples" / "dynahb.toml", "--model", model,
               "--strategy", name, "--workers", workers, "--threads", 1, "--epochs", epochs, "--quiet",
               "-o", output]
    for setting, value in settings.items():
        command += ["--set", f"{setting}={value}"]
    try:
        run(*command, limit=LIMIT)
    except subprocess.TimeoutExpired:
        pass
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    seconds, passed = 0.0, []
    for line in lines:
        seconds += line["seconds"]
        passed.append([round(seconds, 4), round(line["validation"]["mse"], 6)])
    found = {"passed": passed, "memory": max(line["memory"] for line in lines)}
    if (output / "summary.json").exists():
        found["test"] = json.loads((output / "summary.json").read_text())["test"]["metrics"]["mse"]
    return found


ABOUT = """# DynaHB's batches beside its baselines

`python3 bench/dynahb.py` makes this file; its head says what is measured. Two cores, one thread a worker.
Seconds of an epoch; epochs and seconds until ten of them bring nothing better, with the best validation
(mse); seconds until the best validation of `pyd` is reached within 1 %, and those of `dbos` over them; peak
memory.

| graph | model | workers | strategy | epoch, s | epochs | seconds | best | goal, s | over `dbos` | MiB |
|---|---|---|---|---|---|---|---|---|---|---|
"""


def reached(found, goal):
    return next((seconds for seconds, mse in found["passed"] if mse <= goal), None)


def table(results):
    lines, ratios = [], {}
    for case, of_case in results.items():
        rows = []
        graph, model, workers = case.split("/")
        if "pyd" not in of_case or "passed" not in of_case["pyd"]:
            continue
        goal = 1.01 * min(mse for _, mse in of_case["pyd"]["passed"])
        of_dbos = reached(of_case["dbos"], goal) if "passed" in of_case.get("dbos", {}) else None
        for strategy, found in of_case.items():
            if "passed" not in found:
                rows.append([strategy, found["failed"], *[""] * 6])
                continue
            seconds, best = found["passed"][-1][0], min(mse for _, mse in found["passed"])
            count, to_goal = len(found["passed"]), reached(found, goal)
            ratio = of_dbos / to_goal if of_dbos and to_goal else None
            if ratio:
                ratios.setdefault(model, {}).setdefault(strategy, []).append(ratio)
            cells = [f"{seconds / count:.3f}", count, f"{seconds:.1f}", f"{best:.4f}",
                     f"{to_goal:.2f}" if to_goal else "–", f"{ratio:.2f}" if ratio else "–",
                     f"{found['memory'] / 2**20:.0f}"]
            rows.append([strategy, *cells])
        for strategy, *cells in rows:
            cells = [graph, f"`{model}`", workers, f"`{strategy}`", *cells]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    about = "Seconds of `dbos` to the goal over those of others, geometric means:"
    text = ABOUT + "\n".join(lines) + f"\n\n{about}\n\n"
    for model, of_model in ratios.items():
        means = [f"`{strategy}` {math.exp(sum(map(math.log, all_of)) / len(all_of)):.2f}"
                 for strategy, all_of in of_model.items() if strategy != "dbos"]
        text += f"- `{model}`: {', '.join(means)}\n"
    return text


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kymo", type=pathlib.Path, default=ROOT / "target/release/kymo")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / ".." / "shared" / "data")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--models", default="t-gcn,evolvegcn-o")
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "bench/results/dynahb.json")
    args = parser.parse_args()
    kymo, data = args.kymo.resolve(), args.data.resolve()
    results = json.loads(args.output.read_text())["cases"] if args.output.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for graph in args.graphs.split(","):
            first, *rest = GRAPHS[graph].split()
            if not (data / first).is_file():
                print(f"{graph}: not there, left out")
                continue
            store = folder / graph
            run(kymo, "ingest", data / first, *rest, "--edge-life", 3, "-o", store)
            steps = len(json.loads(run(kymo, "inspect", store, "--json"))["per_step"])
            for model in args.models.split(","):
                for workers in map(int, args.workers.split(",")):
                    case = results.setdefault(f"{graph}/{model}/{workers}", {})
                    for strategy in args.strategies.split(","):
                        try:
                            found = measure(kymo, store, steps, model, strategy, workers, args.epochs, folder)
                        except subprocess.CalledProcessError as error:
                            said = error.stderr.splitlines()
                            found = {"failed": next((line for line in said if "error" in line), "no message")}
                        case[strategy] = found
                        told = found.get("failed") or found["passed"][-1]
                        print(f"{graph:13} {model:12} {workers} {strategy:7} {told}", flush=True)
                        whole = {"machine": platform.machine(), "cases": results}
                        args.output.write_text(json.dumps(whole) + "\n")
                        args.output.with_suffix(".md").write_text(table(results))


if __name__ == "__main__":
    main()
