"""Runs a suite: every case with every seed, one table.

    python3 bench/run.py links [--data ../shared/data] [--seeds 1,2,3] [--only NAME,...] [--jobs 1]
        [--minutes M] [--finished FILE] [--keep FOLDER] [--output bench/results] [--binary FILE] [--again]

A suite is a file in bench/suites: data sets with the arguments of `kymo ingest`, those that are made of them
with the arguments of `kymo generate`, and cases with settings of `kymo train`. The table and all figures go
to bench/results/SUITE.md and .json, with date, machine, the commands, and where the model is behind a rule
that learns nothing. Data sets that are not there are named and left out. Nothing but Python 3.11 and the
release binary is needed.

`--jobs N` has N runs at a time; results are the same, only seconds are those of a busy machine. The table is
written after every case. `--minutes M` ends it after that time, with the cases that are finished; with
`--finished FILE`, which remembers every run, the next call goes on from there. `--again` writes the table
anew from the figures that are there, and runs nothing.
"""

import argparse
import datetime
import functools
import json
import os
import pathlib
import platform
import re
import shlex
import shutil
import statistics
import subprocess
import tempfile
import textwrap
import time
import tomllib

from pool import Failed, OutOfTime, Pool, threads

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"

# The metrics of which less is better; of all others more is.
LOWER_IS_BETTER = {"mse", "mae", "rmse", "mape"}
# The metric that decides where a suite names none: the first one of the task in docs/training.md.
DECIDES = {
    "node-regression": "mse",
    "node-classification": "accuracy",
    "link-prediction": "mrr-tgb",
    "edge-regression": "mse",
    "edge-classification": "macro-f1",
}


def load(name):
    return tomllib.loads((ROOT / "bench" / "suites" / f"{name}.toml").read_text())


def ingest(pool, suite, folder, data):
    """The stores that can be made; the names of the data sets that are not there."""
    there, missing = [], []
    for name, arguments in suite["data"].items():
        # Files are named relative to the folder of the data; everything that exists there is one.
        parts = [str(data / part) if (data / part).is_file() else part for part in shlex.split(arguments)]
        (there if pathlib.Path(parts[0]).is_file() else missing).append((name, parts))

    def store(item):
        name, parts = item
        pool.kymo("ingest", *parts, "--overwrite", "-o", folder / name)

    def copy(item):
        name, (kind, source, *rest) = item
        pool.kymo("generate", kind, folder / source, *rest, "--overwrite", "-o", folder / name)

    made = set()
    # What is made of others comes after them.
    for make, items in [(store, there), (copy, suite.get("made", {}).items())]:
        if make is copy:
            items = [(name, shlex.split(arguments)) for name, arguments in items]
            items = [(name, parts) for name, parts in items if parts[1] in made]
        for (name, _), _, problem in pool.each(make, items):
            if problem is None:
                made.add(name)
            elif isinstance(problem, Failed):
                raise SystemExit(str(problem))
    return made, [name for name, _ in missing]


def commands_of(suite, data):
    """What makes a store."""
    if data in suite["data"]:
        return f"kymo ingest {suite['data'][data]} -o {data}"
    kind, source, *rest = shlex.split(suite["made"][data])
    made = f"kymo generate {shlex.join([kind, source, *rest])} -o {data}"
    return f"{commands_of(suite, source)}; {made}"


def options(settings):
    return [part for key, value in settings.items() for part in ("--set", f"{key}={plain(value)}")]


def key_of(suite, case, seed):
    """What a run is remembered by: all that it follows from."""
    return f"{commands_of(suite, case['data'])}; {command(case, case['settings'] | {'train.seed': seed})}"


def train(pool, suite, case, seed, folder, cost, total):
    """What one run came to: its test, epochs and seconds."""
    settings, key = case["settings"] | {"train.seed": seed}, key_of(suite, case, seed)
    if key in pool.finished:
        return pool.finished[key]
    count = threads(pool.jobs, cost, total)
    sharing = [] if count is None else ["--threads", count]
    run = folder / "runs" / f"{case['name']}-{case['data']}-{seed}".replace(" ", "-")
    # What an earlier call did not finish.
    shutil.rmtree(run, ignore_errors=True)
    begun = time.monotonic()
    train = pool.kymo("train", folder / case["data"], *options(settings), *sharing, "-o", run, "--json")
    summary, test = json.loads(train), None
    wall = time.monotonic() - begun
    if "evaluate" in case:
        test = pool.kymo("evaluate", run, "--metrics", case["evaluate"], *sharing, "--json")
        test = json.loads(test)
    test = test or summary["test"]
    found = {
        "test": {"metrics": test["metrics"], "baselines": test["baselines"]},
        "epochs": summary["epochs"],
        "best_epoch": summary["best_epoch"],
        "wall": wall,
    }
    pool.remember(key, found)
    return found


def plain(value):
    return json.dumps(value) if isinstance(value, (list, bool)) else value


def command(case, settings):
    options = " ".join(f"--set {key}={shlex.quote(str(plain(value)))}" for key, value in settings.items())
    then = f"; kymo evaluate RUN --metrics {case['evaluate']}" if "evaluate" in case else ""
    return f"kymo train {case['data']} {options} -o RUN{then}"


def wrapped(commands):
    """Shell commands over lines of at most 110 columns, one after the other."""
    split = functools.partial(
        textwrap.wrap, width=108, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    # An option stays with its value.
    kept = re.sub(r"(--?[a-z-]+) (?!-)", "\\1\0", commands)
    lines = "\n".join(" \\\n".join(split(command)) for command in kept.split("; "))
    return lines.replace("\0", " ")


def paragraph(text):
    return textwrap.fill(text, width=110, break_long_words=False, break_on_hyphens=False)


def spread(values):
    mean = statistics.fmean(values)
    return f"{mean:.4f} ± {statistics.stdev(values):.4f}" if len(values) > 1 else f"{mean:.4f}"


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--only", help="names of cases or data sets; the table is left alone")
    shared(parser)
    parser.add_argument("--dry", action="store_true", help="print, but write nothing")
    parser.add_argument("--again", action="store_true", help="write the table anew; nothing is run")
    return parser.parse_args()


def shared(parser):
    """What the study has as well."""
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / ".." / "shared" / "data")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--minutes", type=float, help="end with what is finished by then")
    parser.add_argument("--finished", type=pathlib.Path, help="a file of what is finished, to go on from")
    parser.add_argument(
        "--keep", type=pathlib.Path, help="where stores and runs stay; a temporary folder otherwise"
    )
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS, help="where results go")
    parser.add_argument(
        "--binary", type=pathlib.Path, help="the binary to run; target/release/kymo, built anew, otherwise"
    )


def pool_of(args):
    if not args.binary:
        subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=ROOT, check=True)
    for folder in filter(None, [args.keep, args.output, args.finished and args.finished.parent]):
        folder.mkdir(parents=True, exist_ok=True)
    return Pool(args.binary or ROOT / "target" / "release" / "kymo", args.jobs, args.minutes, args.finished)


def main():
    args = arguments()
    suite = load(args.suite)
    cases = [
        ({"evaluate": suite["evaluate"]} if "evaluate" in suite else {}) | case for case in suite["case"]
    ]
    for case in cases:
        case["settings"] = suite.get("settings", {}) | case.get("settings", {})
    if args.again:
        known = json.loads((args.output / f"{args.suite}.json").read_text())
        write(args.output, suite, cases, known, known.pop("rows"))
        return
    pool = pool_of(args)
    with tempfile.TemporaryDirectory() as temporary:
        complaints = measure(args, suite, cases, pool, args.keep or pathlib.Path(temporary))
    if complaints:
        raise SystemExit("\n".join(complaints))


def measure(args, suite, cases, pool, folder):
    """Runs the cases and writes what they came to; what went wrong."""
    made, missing = ingest(pool, suite, folder, args.data)
    if missing:
        print(f"not there, left out: {', '.join(missing)}")
    only = set(args.only.split(",")) if args.only else None
    wanted = [
        case for case in cases if case["data"] in made and (not only or {case["name"], case["data"]} & only)
    ]
    seeds = [int(seed) for seed in args.seeds.split(",")]
    facts = {"suite": args.suite, "date": datetime.date.today().isoformat(), "machine": machine()}
    facts |= {"jobs": args.jobs, "seeds": seeds}
    costs = [cost(args.suite, case) for case in wanted]
    items = [(number, seed) for number in range(len(wanted)) for seed in seeds]
    total = sum(
        costs[number] for number, seed in items if key_of(suite, wanted[number], seed) not in pool.finished
    )
    if args.jobs > 1:
        # The longest first, so that nobody waits for one that began last.
        items.sort(key=lambda item: -costs[item[0]])

    def work(item):
        number, seed = item
        case = wanted[number]
        return train(pool, suite, case, seed, folder, costs[number], total)

    found, rows, complaints, late = {}, {}, [], False
    for (number, seed), result, problem in pool.each(work, items):
        late |= isinstance(problem, OutOfTime)
        if isinstance(problem, Failed):
            complaints.append(str(problem))
        if problem:
            continue
        found[number, seed] = result
        if all((number, seed) in found for seed in seeds):
            rows[number] = row(wanted[number], [found[number, seed] for seed in seeds])
            print(line(rows[number]), flush=True)
            # After every case: suites take long, and what is done stays.
            if not args.dry and not only:
                write(args.output, suite, cases, facts, [rows[number] for number in sorted(rows)])
    return complaints + (["the time is over, not everything is finished"] if late else [])


def cost(name, case):
    """About how many seconds a run takes: what it took before, or what the suite says."""
    try:
        rows = json.loads((RESULTS / f"{name}.json").read_text())["rows"]
    except OSError:
        rows = []
    before = [row["seconds"] for row in rows if (row["name"], row["data"]) == (case["name"], case["data"])]
    return before[0] if before else case.get("seconds", 30)


def row(case, found):
    tests = [one["test"] for one in found]
    metrics = {name: [test["metrics"][name] for test in tests] for name in tests[0]["metrics"]}
    return {
        "name": case["name"],
        "data": case["data"],
        "command": command(case, case["settings"]),
        "decides": decides(case),
        "metrics": metrics,
        # Baselines learn nothing; the pairs they are judged on follow the seed.
        "baselines": {
            base: {name: mean([test["baselines"][base][name] for test in tests]) for name in metrics}
            for base in tests[0]["baselines"]
        },
        "published": case.get("published", {}),
        "epochs": [one["epochs"] for one in found],
        "best_epoch": [one["best_epoch"] for one in found],
        "seconds": round(statistics.fmean(one["wall"] for one in found), 1),
    }


def mean(values):
    """None, which JSON has for what is no number, where one of the values is none."""
    return None if None in values else statistics.fmean(values)


def figure(value):
    return "none" if value is None else f"{value:.4f}"


def decides(case):
    named = case["settings"].get("task.metrics")
    return named[0] if named else DECIDES[case["settings"]["task.name"]]


def standing(row, metric=None):
    """Whether a row is `ahead` of every baseline, `within` a deviation of the best one, or `behind`, by the
    metric that decides or by another one, and that in words."""
    metric = metric or row["decides"]
    values = row["metrics"][metric]
    model, deviation = statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0
    sign = -1 if metric in LOWER_IS_BETTER else 1
    # By how much the model is better than each; the baseline that it is the least ahead of comes first.
    known = {base: values[metric] for base, values in row["baselines"].items() if values[metric] is not None}
    gains = sorted((sign * (model - value), base) for base, value in known.items())
    if not gains:
        return "ahead", f"there is no baseline to compare {metric} with"
    least, best = gains[0]
    figures = f"{metric} {spread(values)} against {known[best]:.4f}"
    if least > 0 and least >= deviation:
        return "ahead", f"ahead of every baseline, {figures} (`{best}`)"
    if least > -deviation or least == 0:
        return "within", f"within a deviation of `{best}`, {figures}"
    before = [f"`{base}`" for gain, base in gains if gain <= -deviation and gain < 0]
    return "behind", f"behind {' and '.join(before)}, {figures}"


def verdict(row):
    """Where a row stands: by the metric that decides, and other metrics by which it is behind."""
    others = [standing(row, metric) for metric in row["metrics"] if metric != row["decides"]]
    behind = [words for found, words in others if found == "behind"]
    also = f" By other metrics: {'; '.join(behind)}." if behind else ""
    return f"{row['name']}: {standing(row)[1]}.{also}"


def summary(cases, rows):
    """How often the model is ahead, and of what there is no figure."""
    groups = {}
    for row in rows:
        groups.setdefault(row["name"], []).append((row["data"], standing(row)[0]))
    if all(len(group) == 1 for group in groups.values()):
        groups = {"all": [(f"{name} on {data}", found) for name, [(data, found)] in groups.items()]}
    lines = []
    for name, group in groups.items():

        def there(which):
            data = [data for data, found in group if found == which]
            return f"{len(data)} ({', '.join(data)})" if data else "0"

        ahead = sum(found == "ahead" for _, found in group)
        lines.append(
            f"- {name}: ahead of every baseline on {ahead} of {len(group)}, by the metric that decides and "
            f"by at least a standard deviation; within a deviation of the best baseline on "
            f"{there('within')}; behind one on {there('behind')}."
        )
    done = {(row["name"], row["data"]) for row in rows}
    left = [f"{case['data']} ({case['name']})" for case in cases if (case["name"], case["data"]) not in done]
    if left:
        lines.append(f"- Without figures yet: {', '.join(left)}.")
    fill = functools.partial(textwrap.fill, subsequent_indent="  ", break_long_words=False,
                             break_on_hyphens=False)
    return [fill(line, width=110) for line in lines]


def line(row):
    parts = [f"{name} {spread(values)}" for name, values in row["metrics"].items()]
    bases = [
        f"{base} {', '.join(map(figure, values.values()))}"
        for base, values in row["baselines"].items()
    ]
    return (
        f"{row['data']}, {row['name']}: {'; '.join(parts)} | {' | '.join(bases)} "
        f"| epochs {row['best_epoch']}/{row['epochs']}, {row['seconds']} s | {standing(row)[1]}"
    )


def machine():
    try:
        facts = pathlib.Path("/proc/cpuinfo").read_text()
        model = next(
            line.split(":")[1].strip() for line in facts.splitlines() if line.startswith("model name")
        )
    except (OSError, StopIteration):
        model = platform.machine()
    return f"{os.cpu_count()} cores of {model}"


def write(folder, suite, cases, facts, rows):
    """The results as figures and as a table."""
    for case in cases:
        for row in rows:
            if (row["name"], row["data"]) == (case["name"], case["data"]):
                row.setdefault("decides", decides(case))
    name, jobs = facts["suite"], facts.get("jobs", 1)
    text = [
        f"# {suite['title']}",
        "",
        suite["about"].strip(),
        "",
        *summary(cases, rows),
        "",
        paragraph(
            f"{facts['date']}, {facts['machine']}, seeds {', '.join(map(str, facts['seeds']))}: "
            "mean and standard deviation of the test"
            f"{f'; {jobs} runs at a time, which the seconds show' if jobs > 1 else ''}."
        ),
        f"`python3 bench/run.py {name}` makes this file.",
        "",
    ]
    for data in dict.fromkeys(row["data"] for row in rows):
        mine = [row for row in rows if row["data"] == data]
        metrics = list(mine[0]["metrics"])
        ingested = wrapped(commands_of(suite, data))
        text += [f"## {data}", "", "```sh", ingested, "```", "",
                 "| | " + " | ".join(metrics) + " | epochs | seconds |", "|---" * (len(metrics) + 3) + "|"]
        for row in mine:
            values = " | ".join(spread(row["metrics"][metric]) for metric in metrics)
            text.append(f"| {row['name']} | {values} | {max(row['epochs'])} | {row['seconds']} |")
            if row["published"]:
                published = " | ".join(str(row["published"].get(metric, "")) for metric in metrics)
                text.append(f"| published | {published} | | |")
        for base, values in mine[0]["baselines"].items():
            text.append(f"| {base} | " + " | ".join(figure(values[metric]) for metric in metrics) + " | | |")
        text.append("")
        text += [paragraph(verdict(row)) + "\n" for row in mine]
        commands = (f"# {row['name']}\n" + wrapped(row["command"]) for row in mine)
        text += ["```sh", *commands, "```", ""]
    replace(folder / f"{name}.md", "\n".join(text))
    replace(folder / f"{name}.json", json.dumps(facts | {"rows": rows}, indent=1) + "\n")


def replace(path, content):
    temporary = path.with_name(path.name + ".partial")
    temporary.write_text(content)
    os.replace(temporary, path)


if __name__ == "__main__":
    main()
