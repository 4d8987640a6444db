"""Schedules of windows: how good they are, how long they take to find, and what they are worth in training.

    python3 bench/schedules.py [--workers 2,4] [--binary FILE] [--output bench/results/schedules.md]

Three parts: a simulated cluster (`kymo simulate`, 10,000 groups), training here (imbalance, efficiency and
predicted against measured epochs, from the timelines that runs leave), and convergence (losses and test of
`psg`, `dygnex` and `real` over the same epochs). Workers have one thread each; with more workers than cores
they share cores, and efficiency says little.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIMULATED = "--groups 10000 --workers 4,64,512,1024 --strategy psg,blad,dygnex-g,fold,dygnex"
GRAPH = "power-law --vertices 20000 --edges 200000 --steps 60 --trend stackoverflow"
MODEL = "--model t-gcn --hidden 64 --window 4 --set train.patience=0"
EPOCHS, PROFILE = 8, 4


def epochs(folder, workers):
    """For every epoch: seconds from its first window to its last sum of gradients, and how long each worker
    trained."""
    spans, zero = [], None
    for worker in range(workers):
        head, *lines = (folder / "trace" / f"worker-{worker}.jsonl").read_text().splitlines()
        mine = [json.loads(line) for line in lines]
        # Times count from the worker's own origin.
        origin = json.loads(head)["origin"]
        zero = origin if zero is None else zero
        spans += [
            (span["start"] + origin - zero, span["end"] + origin - zero, worker, span)
            for span in mine
            if span["kind"] in ("compute", "all_reduce", "evaluate", "wait")
        ]
    spans.sort(key=lambda span: span[:3])
    found, now = [], None
    for start, end, worker, span in spans:
        if span["kind"] == "evaluate":
            if now:
                found.append(now)
            now = None
            continue
        if span["kind"] == "wait":
            # Waiting for rows is inside the time of a window; other waiting is outside.
            if now and span["name"] == "rows":
                now["busy"][worker] -= (end - start) / 1e9
            continue
        now = now or {"start": start, "end": end, "busy": [0.0] * workers}
        now["end"] = max(now["end"], end)
        if span["kind"] == "compute" and span["name"] in ("window", "windows"):
            now["busy"][worker] += (end - start) / 1e9
    return [
        ((epoch["end"] - epoch["start"]) / 1e9, epoch["busy"]) for epoch in found if sum(epoch["busy"]) > 0
    ]


def picture(curves):
    """Losses over epochs, on a logarithmic scale, as SVG."""
    width, height, left, bottom = 640, 300, 60, 40
    most, least = (bound(value for _, losses in curves for value in losses) for bound in (max, min))
    high, low = math.log10(most), math.log10(least)
    longest = max(len(losses) for _, losses in curves)
    place = lambda epoch, loss: (
        f"{left + (width - left - 10) * epoch / (longest - 1):.1f}",
        f"{10 + (height - bottom - 10) * (high - math.log10(loss)) / max(high - low, 1e-9):.1f}",
    )
    colours = ["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728"]
    text = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for number, ((name, losses), colour) in enumerate(zip(curves, colours)):
        points = " ".join(",".join(place(epoch, loss)) for epoch, loss in enumerate(losses))
        text.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        text.append(f'<text x="{width - 230}" y="{30 + 16 * number}" fill="{colour}">{name}</text>')
    for value in (most, least):
        text.append(f'<text x="4" y="{place(0, value)[1]}" dy="4">{value:.3f}</text>')
    text.append(
        f'<text x="{width // 2 - 60}" y="{height - 10}">epochs 1 to {longest}, training loss</text></svg>'
    )
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", default="2,4")
    parser.add_argument("--binary", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path)
    args = parser.parse_args()
    binary = args.binary or ROOT / "target" / "release" / "kymo"
    if not args.binary:
        subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=ROOT, check=True)

    def kymo(*arguments):
        return subprocess.run(
            [str(binary), *map(str, arguments)], check=True, capture_output=True, text=True
        ).stdout

    text = [
        "# Schedules of windows",
        "",
        f"{datetime.date.today().isoformat()}, {os.cpu_count()} cores. "
        "`python3 bench/schedules.py` makes this file.",
        "",
        "## On a simulated cluster",
        "",
        f"`kymo simulate {SIMULATED}`",
        "",
        "```",
        kymo("simulate", *SIMULATED.split()).rstrip(),
        "```",
        "",
    ]
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        kymo("generate", *GRAPH.split(), "-o", folder / "store")
        text += [
            "## In training",
            "",
            f"`kymo generate {GRAPH}`,",
            f"`kymo train {MODEL} --epochs {EPOCHS}`,",
            f"one thread per worker. Medians over the last {EPOCHS - PROFILE - 1} epochs.",
            "",
            "| workers | strategy | seconds of an epoch | predicted | measured / predicted "
            "| calibrated by the first epoch | imbalance | efficiency | iterations |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for workers in map(int, args.workers.split(",")):
            for strategy in ["psg", "blad", "esdg", "dygnex-g", "dygnex"]:
                run = folder / f"{strategy}-{workers}"
                kymo(
                    "train",
                    folder / "store",
                    *MODEL.split(),
                    "--epochs",
                    EPOCHS,
                    "--workers",
                    workers,
                    "--strategy",
                    strategy,
                    "--threads",
                    workers,
                    "--json",
                    "-o",
                    run,
                )
                last = epochs(run, workers)[PROFILE + 1 : EPOCHS]
                seconds = statistics.median(wall for wall, _ in last)
                busy = [statistics.median(epoch[1][worker] for epoch in last) for worker in range(workers)]
                plan = (
                    json.loads((run / "schedule.json").read_text())
                    if (run / "schedule.json").exists()
                    else None
                )
                calibrated = (
                    plan
                    and plan.get("calibration")
                    and f"{seconds / (plan['predicted'] * plan['calibration']):.2f}"
                )
                predicted = (
                    (
                        f"{plan['predicted']:.2f}",
                        f"{seconds / plan['predicted']:.2f}",
                        plan["optimiser_steps"],
                        calibrated or "",
                    )
                    if plan
                    else ("", "", "", "")
                )
                text.append(
                    f"| {workers} | `{strategy}` | {seconds:.2f} | {predicted[0]} | {predicted[1]} "
                    f"| {predicted[3]} | {max(busy) * workers / max(sum(busy), 1e-9):.3f} "
                    f"| {100 * sum(busy) / (workers * seconds):.1f} % | {predicted[2]} |"
                )
                if (run / "profile.json").exists():
                    model = json.loads((run / "profile.json").read_text())["model"]
                    print(
                        workers,
                        strategy,
                        "cost model's error on windows held out:",
                        model and round(100 * model["error"], 1),
                        "%",
                        flush=True,
                    )
        text += [
            "",
            "## Convergence",
            "",
            "`kymo train` with 2 workers, 100 epochs, on the built-in data's kind at seed 1; those that are",
            "scheduled have half the steps of the optimiser.",
            "",
            "| strategy | loss after 10 | 25 | 50 | 100 epochs | test mse |",
            "|---|---|---|---|---|---|",
        ]
        curves = []
        for strategy, more in [
            ("psg", []),
            ("psg", ["--set", "parallel.windows=4"]),
            ("dygnex", []),
            ("dygnex", ["--set", "parallel.scale_rate=true"]),
            ("real-g", []),
            ("real", []),
        ]:
            run = folder / f"long-{strategy}-{len(text)}"
            summary = json.loads(
                kymo(
                    "train",
                    "--workers",
                    2,
                    "--strategy",
                    strategy,
                    "--epochs",
                    100,
                    "--set",
                    "train.patience=0",
                    *more,
                    "--json",
                    "-o",
                    run,
                )
            )
            losses = [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]
            curves.append((" ".join([strategy, *more[1:]]), losses))
            cells = " | ".join(f"{losses[epoch - 1]:.4f}" for epoch in [10, 25, 50, 100])
            text.append(
                f"| `{strategy}` {' '.join(more[1:])} | {cells} | {summary['test']['metrics']['mse']:.4f} |"
            )
    print("\n".join(text))
    if args.output:
        drawing = args.output.with_name("convergence.svg")
        drawing.with_name("convergence.svg.partial").write_text(picture(curves))
        os.replace(drawing.with_name("convergence.svg.partial"), drawing)
        text += ["", "![losses over epochs](convergence.svg)"]
        partial = args.output.with_name(args.output.name + ".partial")
        partial.write_text("\n".join(text) + "\n")
        os.replace(partial, args.output)


if __name__ == "__main__":
    main()
