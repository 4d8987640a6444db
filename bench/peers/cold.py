"""Kymo against torch from a cold start: a store on disk, nothing in memory, training until the end of the
third epoch.

    python3 bench/peers/cold.py --kymo KYMO [--python PYTHON] [--scale 1] [--models t-gcn,wd-gcn]
        [--variants kymo,alone,csr,cached,compile,compile-cached,lstm-cached] [--epochs 3] [--stride 1]
        [--windows 1] [--layers 1] [--threads 2] [--memory 4GiB] [--folder FOLDER]
        [--output bench/results/cold.json]

PYTHON needs torch and numpy; nothing is installed. `arxiv-like` is generated into FOLDER (a temporary one
without the option; what is there already is used again). Where all of it takes too long at once, several
calls with other `--variants` but the same FOLDER and output add to what the output has.

Both sides read that store and train on the same windows from the same parameters: forward, backward,
clipping and Adam for every window, in random order, the validation after every epoch, with the settings of
`kymo train` left alone but for `--hidden 64`, `--epochs`, `--memory` and `task.past=0`. The torch side
(cold_torch.py) makes its matrices once and holds them.

Programs run one after the other. Before each, the pages of the store are dropped from the cache as far as the
system does so, and compiled code of earlier ones is out of reach. Time counts from the start of a process to
the end of the last epoch: on Kymo's side until the line of that epoch is in metrics.jsonl. Peak memory is
that of the whole process as the system has it, mapped files included, and on Kymo's side the test at the end.

With `--windows 8` eight windows that follow each other make an iteration on both sides: the torch side runs
them one after the other, as its users do, Kymo together; `alone` is Kymo without that. Then what counts is an
epoch, the shortest of those after the first.

The edges of every step must be the same, and the loss of the first window from the same parameters must agree
to 1e-4: Kymo trains on that window alone with a rate that changes nothing (train.stride), and the torch side
begins with it.
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
VARIANTS = {
    "t-gcn": ["kymo", "alone", "csr", "cached", "compile", "compile-cached"],
    "wd-gcn": ["kymo", "alone", "csr", "cached", "compile", "compile-cached", "lstm-cached"],
}
# Kymo, and Kymo without windows that are run together.
OURS = ["kymo", "alone"]
# What cold_torch.py takes for granted.
SETTINGS = {
    "task": {"name": "node-regression", "horizon": 1, "target": "standardised"},
    "data": {"standardise": True, "lags": 1},
    "model": {"blocks": 1, "normalisation": "both", "dropout": 0.0},
    "train": {"mode": "windows", "window": 4, "loss": "auto", "optimiser": "adam", "learning_rate": 0.01,
              "weight_decay": 0.0, "clip": 1.0, "schedule": "constant"},
    "split": {"train": 0.7, "validation": 0.15},
}


def run(command, log, **more):
    """Runs a program: what it printed, when it was started, the most memory it held."""
    with open(log, "w") as errors:
        begun = time.time()
        command = [*map(str, command)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, **more)
        printed = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        last = (log.read_text().strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {last}")
    return printed, begun, used.ru_maxrss * 1024


def forget(store):
    """Drops the pages of the store from the system's cache, as far as it does so without rights."""
    for path in store.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def train(args, folder, store, model, name, *options):
    """The folder of a run by Kymo, when it was started, the most memory it held."""
    output = folder / f"{model}-{args.layers}-{name}"
    command = [args.kymo, "train", store, "--model", model, "--hidden", 64, "--threads", args.threads]
    # The torch side does not see past values.
    command += ["--layers", args.layers, "--set", "task.past=0"]
    _, begun, memory = run([*command, "--quiet", "-o", output, *options], folder / "kymo.log")
    return output, begun, memory


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def kymo(args, folder, store, model, share):
    forget(store)
    options = ["--epochs", args.epochs, "--memory", args.memory, "--set", f"train.stride={args.stride}"]
    if args.windows > 1:
        options += ["--set", f"parallel.windows={args.windows}", "--set", "parallel.order=runs"]
        options += ["--set", f"parallel.share={'true' if share else 'false'}"]
    shutil.rmtree(folder / f"{model}-{args.layers}-cold", ignore_errors=True)
    output, begun, memory = train(args, folder, store, model, "cold", *options)
    settings = tomllib.loads((output / "settings.toml").read_text())
    for section, wanted in SETTINGS.items():
        for key, value in wanted.items():
            if settings[section][key] != value:
                raise SystemExit(f"{section}.{key} is {settings[section][key]}, the torch side has {value}")
    epochs = [line["seconds"] for line in lines(output)]
    # The file was written to for the last time when the last epoch had ended.
    total = (output / "metrics.jsonl").stat().st_mtime - begun
    return {
        "prepared": total - sum(epochs), "epochs": epochs, "total": total, "memory": memory,
        "losses": [line["loss"] for line in lines(output)],
    }


def torch(args, folder, store, model, variant, checkpoint):
    forget(store)
    command = [args.python, HERE / "cold_torch.py", store, checkpoint, model, variant]
    with tempfile.TemporaryDirectory(dir=folder) as compiled:
        # On as many threads as Kymo has, whatever the machine has; nothing compiled before.
        environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": compiled, "OMP_NUM_THREADS": str(args.threads)}
        printed, begun, memory = run(
            [*command, args.epochs, args.stride, args.threads, args.windows, args.layers],
            folder / "torch.log",
            env=environment,
        )
    told = json.loads(printed.splitlines()[-1])
    ends = [told["prepared"], *told["ends"]]
    return {
        "started": told["begun"] - begun, "prepared": told["prepared"] - begun,
        "epochs": [end - start for start, end in zip(ends, ends[1:])], "total": ends[-1] - begun,
        "memory": memory, "memory_before": told["memory_before"], "losses": told["losses"],
        "first_loss": told["first_loss"], "edges_of_steps": told["edges"], "edges": told["edges_trained"],
        "torch": told["torch"],
    }


def compare(args, folder, store, model, edges, results, save):
    """Kymo and all variants on a model: a line for each, added to the results of earlier calls."""
    name = f"probe-{args.scale:g}"
    probe = folder / f"{model}-{args.layers}-{name}"
    if not (probe / "summary.json").exists():
        shutil.rmtree(probe, ignore_errors=True)
        one = ["--epochs", 1, "--learning-rate", "1e-30", "--set", "train.stride=1000000"]
        train(args, folder, store, model, name, *one)
    expected = lines(probe)[0]["loss"]
    print(f"{model}: loss of the first window {expected:.6f}")
    heads = f"{'to CSR':>8} {'epochs':>26} {'total':>9} {'peak':>9} {'of it before':>12}   time  memory"
    print(f"    {'':14} {heads}")
    for variant in args.variants.split(",") if args.variants else VARIANTS[model]:
        try:
            result = kymo(args, folder, store, model, variant == "kymo") if variant in OURS else torch(
                args, folder, store, model, variant, probe / "checkpoint.safetensors"
            )
        except RuntimeError as problem:
            print(f"    {variant:14} {problem}", flush=True)
            results[variant] = {"problem": str(problem)}
            continue
        if result.pop("edges_of_steps", edges) != edges:
            raise SystemExit(f"{model}, {variant}: other numbers of edges than kymo inspect counts")
        if abs(result.get("first_loss", expected) - expected) > 1e-4 * max(1, abs(expected)):
            raise SystemExit(f"{model}: {variant} has the loss {result['first_loss']}, kymo {expected}")
        results[variant] = result
        # Without Kymo there is nothing to be compared with yet.
        ours = results.get("kymo", result)
        epochs = " ".join(f"{seconds:8.2f}" for seconds in result["epochs"])
        before = f"{result['memory_before'] / 2**20:8.0f} MiB" if "memory_before" in result else ""
        print(
            f"    {variant:14} {result['prepared']:6.2f} s {epochs:>26} {result['total']:7.2f} s "
            f"{result['memory'] / 2**20:5.0f} MiB {before:>12} {result['total'] / ours['total']:6.2f} "
            f"{result['memory'] / ours['memory']:7.2f}",
            flush=True,
        )
        save(model, {"first_loss": expected, "contenders": results})
    peers = [name for name in results if name not in OURS and "total" in results[name]]
    if not peers or "total" not in results.get("kymo", {}):
        print("    one of both sides is missing: nothing is compared", flush=True)
        return
    if args.windows > 1:
        epoch = {name: min(result["epochs"][1:]) for name, result in results.items() if "total" in result}
        best = min(peers, key=epoch.get)
        ours = ", ".join(f"{epoch[best] / epoch[name]:.2f} ({name})" for name in OURS if name in epoch)
        print(f"    an epoch of {args.windows} windows an iteration over that of {best}: {ours}", flush=True)
        ratios = {name: epoch[best] / epoch[name] for name in OURS if name in epoch}
        save(model, {"best": best, "epoch_ratios": ratios, "contenders": results})
        return
    best = min(peers, key=lambda name: results[name]["total"])
    ratio, share = (results[best][key] / results["kymo"][key] for key in ["total", "memory"])
    print(
        f"    {ratio:.2f} x as fast as the best torch variant ({best}), limit 3; "
        f"peak memory {1 / share:.2f} of its, limit 0.25",
        flush=True,
    )
    found = {"best": best, "ratio": ratio, "memory_share": 1 / share}
    save(model, {"first_loss": expected} | found | {"contenders": results})


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kymo", default=HERE.parent.parent / "target" / "release" / "kymo")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--models", default=",".join(VARIANTS))
    parser.add_argument("--variants", help="kymo and those of window.py; all by default")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--stride", type=int, default=1, help="steps between windows, on both sides")
    parser.add_argument("--windows", type=int, default=1, help="windows of an iteration, on both sides")
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", default="4GiB", help="what Kymo may take")
    parser.add_argument("--folder", help="where the store and the runs go")
    parser.add_argument("--output")
    args = parser.parse_args()
    known = {variant for variants in VARIANTS.values() for variant in [*variants, "lstm"]}
    for names, known in [(args.variants or "kymo", known), (args.models, VARIANTS.keys())]:
        if unknown := set(names.split(",")) - known:
            parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    args.kymo = pathlib.Path(args.kymo).resolve()
    facts = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} cores, {platform.machine()}",
        "workload": f"arxiv-like --scale {args.scale:g}, {args.epochs} epochs, train.stride={args.stride}"
        + (f", parallel.windows={args.windows}" if args.windows > 1 else "")
        + (f", {args.layers} layers" if args.layers > 1 else ""),
        "memory": args.memory,
        "threads": args.threads,
    }
    print(facts, flush=True)
    cases = {}
    if args.output and pathlib.Path(args.output).exists():
        before = json.loads(pathlib.Path(args.output).read_text())
        cases = before.pop("cases")
        if {**before, "date": ""} != {**facts, "date": ""}:
            raise SystemExit(f"{args.output} is of another workload: {before}; remove it, or name another")
    facts["cases"] = cases

    def save(model, case):
        cases[model] = case
        if args.output:
            partial = pathlib.Path(args.output + ".partial")
            partial.write_text(json.dumps(facts, indent=1) + "\n")
            os.replace(partial, args.output)

    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(args.folder or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        store = folder / f"arxiv-like-{args.scale:g}"
        if not store.exists():
            generate = [args.kymo, "generate", "arxiv-like", "--scale", args.scale, "-o", store]
            run(generate, folder / "kymo.log")
        told, *_ = run([args.kymo, "inspect", store, "--json"], folder / "kymo.log")
        edges = [step["edges"] for step in json.loads(told)["per_step"]]
        for model in args.models.split(","):
            results = cases.get(model, {}).get("contenders", {})
            compare(args, folder, store, model, edges, results, save)


if __name__ == "__main__":
    main()
