"""Bytes that each strategy sends in an epoch, on three kinds of graphs: one table.

    python3 bench/bytes.py [--workers 4] [--binary FILE] [--output bench/results/bytes.md]

DGC (section 2.2) says which partitioning is best where: whole sequences of vertices (PTS) where edges are few
and snapshots many, whole snapshots (PSS) where snapshots are dense, and that the shuffle between structure
and time encoders (PSS-TS) sends in proportion to vertices. `kymo plan` predicts the bytes, and tests check
that training sends as many. The whole sequence is one window here, as it is there, and DySAT is the model
that DGC measures with: its attention needs all steps of a vertex in one place. An LSTM's state crosses the
borders between workers only once each, so whole snapshots send little, also where edges are few: less than
PTS on the first graph.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
GRAPHS = {
    "few edges, many snapshots": "uniform --vertices 20000 --edges 2000 --steps 200",
    "dense snapshots": "uniform --vertices 2000 --edges 400000 --steps 20",
    "stackoverflow-like": "stackoverflow-like --scale 0.01",
}
MODEL = "--layers 2 --hidden 32 --mode sequence --set data.features=degrees"
MODELS = ["dysat", "wd-gcn"]


def readable(count):
    for unit in ["B", "KiB", "MiB", "GiB"]:
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--binary", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path)
    args = parser.parse_args()
    binary = args.binary or ROOT / "target" / "release" / "kymo"
    if not args.binary:
        subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=ROOT, check=True)
    text = [
        "# Bytes between workers",
        "",
        __doc__.strip().split("\n\n")[2],
        "",
        f"{datetime.date.today().isoformat()}, {args.workers} workers, `{MODEL}`.",
        "Gradients of parameters are left out: they are the same for all.",
        "`python3 bench/bytes.py` makes this file.",
        "",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, kind in GRAPHS.items():
            store = pathlib.Path(folder) / name.replace(" ", "-").replace(",", "")
            subprocess.run([binary, "generate", *kind.split(), "-o", store], check=True, capture_output=True)
            task = [] if "uniform" in kind else ["--task", "link-prediction"]
            plans = []
            for model in MODELS:
                command = [
                    binary,
                    "plan",
                    store,
                    "--workers",
                    str(args.workers),
                    "--model",
                    model,
                    *MODEL.split(),
                    *task,
                    "--json",
                ]
                plans.append(
                    json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                )
            text += [
                f"## {name}",
                "",
                f"`kymo generate {kind}`",
                "",
                "| strategy | "
                + " | ".join(
                    f"{model}: rows sent | of neighbours and pairs | states | shuffled" for model in MODELS
                )
                + " |",
                "|---" * (1 + 4 * len(MODELS)) + "|",
            ]
            for both in zip(*plans):
                cells = []
                for plan in both:
                    sums = {
                        kind: sum(share["sent"][kind] for share in plan["workers"])
                        for kind in plan["workers"][0]["sent"]
                    }
                    rows = [
                        sums["neighbours"] + sums["collected"] + sums["pairs"],
                        sums["states"],
                        sums["shuffled"],
                    ]
                    cells += map(readable, [sum(rows), *rows])
                text.append(f"| `{both[0]['strategy']}` | " + " | ".join(cells) + " |")
            text.append("")
    print("\n".join(text))
    if args.output:
        temporary = args.output.with_name(args.output.name + ".partial")
        temporary.write_text("\n".join(text))
        os.replace(temporary, args.output)


if __name__ == "__main__":
    main()
