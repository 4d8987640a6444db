"""Runs a suite: every case with every seed, one table.

    python3 bench/run.py links [--data ../shared/data] [--seeds 1,2,3] [--only NAME,...]
        [--keep FOLDER] [--binary FILE]

A suite is a file in bench/suites: data sets with the arguments of `kymo ingest`, those that are made of them
with the arguments of `kymo generate`, and cases with settings of `kymo train`. The table and all figures go
to bench/results/SUITE.md and .json, with date, machine and the commands. Data sets that are not there are
named and left out. Nothing but Python 3.11 and the release binary is needed.
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
import statistics
import subprocess
import tempfile
import textwrap
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


BINARY = ROOT / "target" / "release" / "kymo"


def kymo(*arguments):
    command = [str(BINARY), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(command)}\n{done.stderr}")
    return done.stdout


def ingest(suite, folder, data):
    """The stores that can be made; the names of the data sets that are not there."""
    made, missing = set(), []
    for name, arguments in suite["data"].items():
        parts = shlex.split(arguments)
        # Files are named relative to the folder of the data; everything that exists there is one.
        parts = [str(data / part) if (data / part).is_file() else part for part in parts]
        if not pathlib.Path(parts[0]).is_file():
            missing.append(name)
            continue
        kymo("ingest", *parts, "-o", folder / name)
        made.add(name)
    for name, arguments in suite.get("made", {}).items():
        kind, source, *rest = shlex.split(arguments)
        if source in made:
            kymo("generate", kind, folder / source, *rest, "-o", folder / name)
            made.add(name)
    return made, missing


def commands_of(suite, data):
    """What makes a store."""
    if data in suite["data"]:
        return f"kymo ingest {suite['data'][data]} -o {data}"
    kind, source, *rest = shlex.split(suite["made"][data])
    made = f"kymo generate {shlex.join([kind, source, *rest])} -o {data}"
    return f"{commands_of(suite, source)}; {made}"


def train(case, seed, folder, settings):
    """The summary of one run."""
    options = [
        part
        for key, value in (settings | {"train.seed": seed}).items()
        for part in ("--set", f"{key}={plain(value)}")
    ]
    run = folder / "runs" / f"{case['name']}-{case['data']}-{seed}".replace(" ", "-")
    begun = time.monotonic()
    summary = json.loads(kymo("train", folder / case["data"], *options, "-o", run, "--json"))
    summary["wall"] = time.monotonic() - begun
    if "evaluate" in case:
        summary["test"] = json.loads(kymo("evaluate", run, "--metrics", case["evaluate"], "--json"))
    return summary


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


def spread(values):
    mean = statistics.fmean(values)
    return f"{mean:.4f} ± {statistics.stdev(values):.4f}" if len(values) > 1 else f"{mean:.4f}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / ".." / "shared" / "data")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--only", help="names of cases or data sets")
    parser.add_argument(
        "--keep", type=pathlib.Path, help="where stores and runs stay; a temporary folder otherwise"
    )
    parser.add_argument(
        "--binary", type=pathlib.Path, help="the binary to run; target/release/kymo, built anew, otherwise"
    )
    parser.add_argument("--dry", action="store_true", help="print, but leave bench/results alone")
    args = parser.parse_args()
    suite = tomllib.loads((ROOT / "bench" / "suites" / f"{args.suite}.toml").read_text())
    if args.binary:
        global BINARY
        BINARY = args.binary.resolve()
    else:
        subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=ROOT, check=True)
    seeds = [int(seed) for seed in args.seeds.split(",")]
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or pathlib.Path(temporary)
        made, missing = ingest(suite, folder, args.data)
        if missing:
            print(f"not there, left out: {', '.join(missing)}")
        rows = []
        for case in suite["case"]:
            if args.only and not {case["name"], case["data"]} & set(args.only.split(",")):
                continue
            if case["data"] not in made:
                continue
            settings = suite.get("settings", {}) | case.get("settings", {})
            case = {"evaluate": suite["evaluate"]} | case if "evaluate" in suite else case
            summaries = [train(case, seed, folder, settings) for seed in seeds]
            rows.append(row(case, settings, summaries))
            print(line(rows[-1]), flush=True)
            # After every case: suites take long, and what is done stays.
            if not args.dry and not args.only:
                write(args.suite, suite, seeds, rows)


def row(case, settings, summaries):
    tests = [summary["test"] for summary in summaries]
    metrics = {name: [test["metrics"][name] for test in tests] for name in tests[0]["metrics"]}
    return {
        "name": case["name"],
        "data": case["data"],
        "command": command(case, settings),
        "metrics": metrics,
        # Baselines learn nothing; the pairs they are judged on follow the seed.
        "baselines": {
            base: {
                name: statistics.fmean(test["baselines"][base][name] for test in tests) for name in metrics
            }
            for base in tests[0]["baselines"]
        },
        "published": case.get("published", {}),
        "epochs": [summary["epochs"] for summary in summaries],
        "best_epoch": [summary["best_epoch"] for summary in summaries],
        "seconds": round(statistics.fmean(summary["wall"] for summary in summaries), 1),
    }


def line(row):
    parts = [f"{name} {spread(values)}" for name, values in row["metrics"].items()]
    bases = [
        f"{base} {', '.join(f'{value:.4f}' for value in values.values())}"
        for base, values in row["baselines"].items()
    ]
    return (
        f"{row['data']}, {row['name']}: {'; '.join(parts)} | {' | '.join(bases)} "
        f"| epochs {row['best_epoch']}/{row['epochs']}, {row['seconds']} s"
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


def write(name, suite, seeds, rows):
    """The results as figures and as a table."""
    facts = {"suite": name, "date": datetime.date.today().isoformat(), "machine": machine(), "seeds": seeds}
    folder = ROOT / "bench" / "results"
    text = [
        f"# {suite['title']}",
        "",
        suite["about"].strip(),
        "",
        f"{facts['date']}, {facts['machine']}, seeds {', '.join(map(str, seeds))}: "
        "mean and standard deviation of the test.",
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
            text.append(f"| {base} | " + " | ".join(f"{values[metric]:.4f}" for metric in metrics) + " | | |")
        commands = (f"# {row['name']}\n" + wrapped(row["command"]) for row in mine)
        text += ["", "```sh", *commands, "```", ""]
    for path, content in [
        (folder / f"{name}.md", "\n".join(text)),
        (folder / f"{name}.json", json.dumps(facts | {"rows": rows}, indent=1) + "\n"),
    ]:
        temporary = path.with_name(path.name + ".partial")
        temporary.write_text(content)
        os.replace(temporary, path)


if __name__ == "__main__":
    main()
