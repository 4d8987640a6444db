"""Strategies over three hosts: what an epoch takes and sends, beside what `kymo plan` says beforehand.

    python3 bench/hosts.py --kymo KYMO --rates 1gbit 100mbit --output bench/results/hosts.json

Strategies and rates may be measured a few at a time: the results of others stay.

Hosts are network namespaces (`ci/hosts`), each with the same share of the processors (control groups, version
1), so that three of them compute as fast on two cores as each would alone. The pace of a worker is measured
first, by a scheduler's profile of windows; what the wire carries is measured by `kymo doctor` across the
hosts. The plan is given these, and nothing of the runs themselves. Needs root.
"""

import argparse
import atexit
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
GROUPS = pathlib.Path("/sys/fs/cgroup/cpu")
STRATEGIES = ["psg", "dygnex", "pts", "pss-ts", "esdg", "vertex-metis"]

# Joins the group of its host before it becomes the command. The groups are mounted a second time, at a place
# of our own: a network namespace has a /sys without them.
WRAPPER = """#!/bin/sh
echo $$ > %s/kymo-$(hostname)/tasks || exit 1
exec "$@"
"""


def groups(share):
    for host in ["node-1", "node-2", "node-3"]:
        group = GROUPS / f"kymo-{host}"
        group.mkdir(exist_ok=True)
        (group / "cpu.cfs_quota_us").write_text("-1")
        (group / "cpu.cfs_period_us").write_text("2000")
        (group / "cpu.cfs_quota_us").write_text(str(int(2000 * share)))


def mounted():
    """Another place at which the groups are, until this ends."""
    place = tempfile.mkdtemp()
    subprocess.run(["mount", "--bind", GROUPS, place], check=True)
    atexit.register(os.rmdir, place)
    atexit.register(subprocess.run, ["umount", "--lazy", place])
    return place


def across(rate, ranks, wrapper, command):
    environment = dict(os.environ, RATE=rate, RANKS=str(ranks))
    line = [str(ROOT / "ci/hosts"), "run", str(wrapper), *map(str, command)]
    done = subprocess.run(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(line)}\n{done.stdout}{done.stderr}")
    return done.stdout


def seconds(run):
    """Training seconds of an epoch, without the first, which reads the data, and without validation."""
    epochs = [json.loads(line) for line in open(run / "metrics.jsonl") if '"edges_per_second"' in line]
    return epochs


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kymo", required=True)
    parser.add_argument("--rates", nargs="+", default=["1gbit", "100mbit"])
    parser.add_argument("--strategies", nargs="+", default=STRATEGIES)
    parser.add_argument("--epochs", type=int, default=9, help="the first of which also reads; a pace of "
                        "two or three differs by a third from the next")
    parser.add_argument("--share", type=float, default=0.5, help="of a core, for each host: two "
                        "may meet on one")
    parser.add_argument("--graph", default="power-law --vertices 10000 --edges 100000 --steps 20 "
                        "--edge-change 0.1 --features 32", help="what `kymo generate` is asked for")
    parser.add_argument("--train", default="--model wd-gcn --layers 2 --hidden 32 --set train.patience=0",
                        help="options of `kymo train` and `kymo plan`")
    parser.add_argument("--output", required=True)
    args = parser.parse_args()
    args.graph, args.train = args.graph.split(), args.train.split()
    work = pathlib.Path(tempfile.mkdtemp())
    wrapper = work / "on-host"
    wrapper.write_text(WRAPPER % mounted())
    wrapper.chmod(0o755)
    groups(args.share)
    store = work / "store"
    subprocess.run([args.kymo, "generate", *args.graph, "-o", store, "--quiet"], check=True)
    how = [*args.train, "--epochs", args.epochs, "--threads", "1", "--quiet"]
    costs = ["--set", "parallel.costs=edges"]
    # The pace of a worker, with all three at work: cores share more than the groups divide. A scheduler
    # measures windows stage by stage, whatever is sent meanwhile.
    across("1gbit", 3, wrapper, [args.kymo, "train", store, *how, "--strategy", "dygnex",
                                 "--set", f"parallel.profile_epochs={args.epochs}", "-o", work / "pace"])
    edges = None
    rows = []
    for rate in args.rates:
        told = across(rate, 3, wrapper, [args.kymo, "doctor", "--json"])
        wire = json.loads(told)["wire"]
        print(f"{rate:8} {wire['rate'] / 1e6:.2f} MB/s, {wire['latency'] * 1e3:.3f} ms", flush=True)
        planned = subprocess.run(
            [args.kymo, "plan", store, *args.train, *costs, "--workers", "3",
             "--strategy", ",".join(args.strategies), "--exact", "--pace", work / "pace",
             "--wire", f"{wire['rate'] / 1e6:.3f}MB/s", "--latency", str(wire["latency"]), "--json"],
            check=True, stdout=subprocess.PIPE)
        plans = {plan["strategy"]: plan for plan in json.loads(planned.stdout)}
        for strategy in args.strategies:
            run = work / f"{strategy}-{rate}"
            command = [args.kymo, "train", store, *how, *costs, "--strategy", strategy, "-o", run]
            across(rate, 3, wrapper, command)
            plan, summary = plans[strategy], json.load(open(run / "summary.json"))
            edges = sum(share["edges"] for share in plan["workers"])
            epochs = seconds(run)
            took = statistics.median(edges / epoch["edges_per_second"] for epoch in epochs[1:])
            sent = sum(sum(worker["sent"]) for worker in summary["workers"]["workers"]) / args.epochs
            foretold = sum(sum(share["sent"].values()) for share in plan["workers"])
            hidden = summary["workers"]["summary"].get("hidden")
            planned, ratio = plan["seconds"], plan["seconds"] / took
            rows.append({"rate": rate, "strategy": strategy, "seconds": took, "planned": planned,
                         "wire": wire, "ratio": ratio, "bytes": sent, "planned_bytes": foretold,
                         "hidden": hidden})
            print(f"{rate:8} {strategy:13} {took:8.3f} s, planned {planned:8.3f} ({ratio:.2f}); "
                  f"{sent / 1e6:9.2f} MB, planned {foretold / 1e6:9.2f}; hidden {hidden}", flush=True)
            shutil.rmtree(run)
    how = {"graph": args.graph, "train": args.train, "share": args.share}
    output = pathlib.Path(args.output)
    before = json.loads(output.read_text()) if output.exists() else {}
    # What was measured in the same way, of other strategies or rates, stays.
    if all(before.get(key) == value for key, value in how.items()):
        done = {(row["rate"], row["strategy"]) for row in rows}
        rows = [row for row in before["rows"] if (row["rate"], row["strategy"]) not in done] + rows
    output.write_text(json.dumps({**how, "rows": rows}, indent=1) + "\n")
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
