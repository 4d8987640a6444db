"""Which settings are best where nothing is said, chosen by validation alone; the test is never looked at.

    python3 bench/study.py [classes,regression,links] [--data ../shared/data] [--jobs 1] [--minutes M]
        [--finished FILE] [--keep FOLDER] [--output bench/results] [--binary FILE] [--grid bench/study.toml]

bench/study.toml has the grid of each kind of task and the suite whose sets it is tried on. By successive
halving, all candidates are trained for a few epochs with one seed, the best of them for more, and the last
few, beside today's default, as long as `kymo train` does, with three seeds. A rung is judged on those sets
that all of its candidates have finished: a candidate has a rank on each, and the relation of its validation
to that of the default (the other way round where less is better, so that more than 1 is always better). The
best mean ranks go on.

With `--minutes M` every rung has an even share of the time that is left, sets that take little come first,
and what is not finished by then is left out. With `--finished FILE`, which remembers every run, the next call
goes on. Results go to study.json, and to study.md below what is written there by hand.
"""

import argparse
import datetime
import itertools
import json
import pathlib
import shutil
import statistics
import tempfile
import tomllib

import run
from pool import Failed, OutOfTime, threads

BEGIN, END = "<!-- from here: bench/study.py -->", "<!-- to here: bench/study.py -->"
# How settings are called in tables.
CALLED = {
    "model.name": "{}",
    "model.hidden": "{} columns",
    "train.learning_rate": "rate {}",
    "train.window": "window {}",
}


def label(settings):
    return ", ".join(CALLED.get(key, key + " {}").format(value) for key, value in settings.items())


def candidates(kind):
    """Every point of the grid by its label; the default, which comes first, has no settings of its own."""
    keys = kind["grid"]
    points = (dict(zip(keys, values)) for values in itertools.product(*keys.values()))
    return {"default": {}} | {label(point): point for point in points if point != kind["default"]}


def validate(pool, suite, case, name, candidate, kind, rung, seed, folder, cost, spare):
    """The validation of one run by the metric that decides, or None and what was wrong."""
    epochs = min(rung["epochs"], kind["late"].get(case["data"], rung["epochs"]))
    settings = case["settings"] | kind.get("settings", {}) | candidate
    settings |= {"train.epochs": epochs, "train.seed": seed}
    key = f"validation of {run.commands_of(suite, case['data'])}; {run.command(case, settings)}"
    if key in pool.finished:
        return pool.finished[key]
    count = threads(pool.jobs, *cost)
    sharing = [] if count is None else ["--threads", count]
    place = folder / "runs" / f"{case['data']}-{name}-{rung['epochs']}-{seed}".replace(" ", "-")
    shutil.rmtree(place, ignore_errors=True)
    found = {"value": None, "epochs": 0, "problem": None}
    try:
        options = run.options(settings)
        output = pool.kymo("train", folder / case["data"], *options, *sharing, "-o", place, "--json",
                           spare=spare)
        # Of the summary the validation and nothing else: what the test came to must not decide.
        summary = json.loads(output)
        found["value"] = summary["validation"][run.decides(case)]
        found["epochs"] = summary["epochs"]
        if not candidate:
            used = tomllib.loads((place / "settings.toml").read_text())
            found["used"] = {key: used[key.split(".")[0]][key.split(".")[1]] for key in kind["default"]}
    except Failed as failed:
        found["problem"] = str(failed).splitlines()[-1]
    shutil.rmtree(place, ignore_errors=True)
    pool.remember(key, found)
    return found


def ranks(values, lower):
    """The rank of each value from 1, ties in the middle; what has none comes last."""
    worst = float("inf")
    cost = {name: worst if value is None else value if lower else -value for name, value in values.items()}
    return {
        name: sum(other < own for other in cost.values())
        + (sum(other == own for other in cost.values()) + 1) / 2
        for name, own in cost.items()
    }


def judge(found, names, sets, seeds, lower):
    """Mean rank and mean relation to the default of each candidate, by seed, over sets that all finished.
    `found[name, data, seed]` is a validation or None."""
    done = [data for data in sets
            if all((name, data, seed) in found for name in names for seed in seeds)]
    usual = {}
    for data in done:
        values = [found["default", data, seed] for seed in seeds]
        usual[data] = None if None in values else statistics.fmean(values)
    table = {name: {"ranks": [], "relations": [], "failed": 0, "ahead": 0} for name in names}
    for seed in seeds if done else []:
        by_set = [ranks({name: found[name, data, seed] for name in names}, lower[data]) for data in done]
        for name, row in table.items():
            row["ranks"].append(statistics.fmean(rank[name] for rank in by_set))
            relations = []
            for data in done:
                value = found[name, data, seed]
                row["failed"] += value is None
                if usual[data]:
                    relation = 0.0 if value is None else value / usual[data]
                    relations.append(1 / relation if lower[data] and relation else relation)
            if relations:
                row["relations"].append(statistics.fmean(relations))
    for name, row in table.items():
        for data in done:
            values = [found[name, data, seed] for seed in seeds]
            if usual[data] is not None and None not in values:
                mean = statistics.fmean(values)
                row["ahead"] += mean < usual[data] if lower[data] else mean > usual[data]
        row["values"] = {data: [found[name, data, seed] for seed in seeds] for data in done}
    return done, table


def best_first(table):
    return sorted(table, key=lambda name: statistics.fmean(table[name]["ranks"]))


def study(pool, name, kind, args, folder, rungs_left, write):
    """All rungs of one kind of task; calls `write` with what is known after each."""
    suite = run.load(kind["suite"])
    cases = [case for case in suite["case"] if case["name"] in kind["cases"]]
    for case in cases:
        case["settings"] = suite.get("settings", {}) | case.get("settings", {})
    made, missing = run.ingest(pool, suite, folder, args.data)
    if missing:
        print(f"not there, left out: {', '.join(missing)}")
    cases = [case for case in cases if case["data"] in made]
    lower = {case["data"]: run.decides(case) in run.LOWER_IS_BETTER for case in cases}
    cost = {case["data"]: run.cost(kind["suite"], case) for case in cases}
    grid, going, report = candidates(kind), list(candidates(kind)), []
    for number, rung in enumerate(kind["rungs"]):
        last = number + 1 == len(kind["rungs"])
        mine = [case for case in cases if last or case["data"] not in kind["late"]]
        # Those that take little first: where the time ends, most sets are finished by all.
        mine.sort(key=lambda case: cost[case["data"]])
        items = [(case, one, seed) for case in mine for seed in rung["seeds"] for one in going]
        left = pool.left()
        spare = 0.0 if left is None else left * (1 - 1 / (rungs_left - number))
        total = sum(cost[case["data"]] for case, _, _ in items)

        def work(item):
            case, one, seed = item
            share = (cost[case["data"]], total)
            return validate(pool, suite, case, one, grid[one], kind, rung, seed, folder, share, spare)

        found, problems = {}, {}
        for (case, one, seed), result, problem in pool.each(work, items):
            if isinstance(problem, OutOfTime):
                continue
            if "used" in result and result["used"] != kind["default"]:
                raise SystemExit(f"the grid has other defaults of {name}: they are {result['used']}")
            found[one, case["data"], seed] = result["value"]
            if result["problem"]:
                problems[f"{one} on {case['data']}, seed {seed}"] = result["problem"]
        done, table = judge(found, going, list(lower), rung["seeds"], lower)
        report.append({
            "epochs": rung["epochs"], "seeds": rung["seeds"], "sets": done,
            "left_out": [case["data"] for case in mine if case["data"] not in done],
            "runs": len(items), "finished": len(found), "problems": problems,
            "candidates": {one: {"settings": grid[one]} | table[one] for one in going},
        })
        if not done:
            print(f"{name}: the time was over before a set was finished by all {len(going)} candidates")
            write(report)
            break
        order = best_first(table)
        print(f"{name}, {rung['epochs']} epochs, {len(going)} candidates on {len(done)} of {len(mine)} sets: "
              f"{'; '.join(order[:3])}", flush=True)
        write(report)
        if not last:
            going = ["default"] + [one for one in order if one != "default"][: rung["keep"]]
    return report


def spread(values, digits=2):
    """A mean with its deviation, if there are several."""
    if not values:
        return "none"
    mean = f"{statistics.fmean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


def deviation(values):
    return statistics.stdev(values) if len(values) > 1 else 0.0


def verdict(rung):
    """Which candidate is best, and whether the default is as good, in a sentence."""
    table = rung["candidates"]
    first, usual = best_first(table)[0], table["default"]
    if first == "default":
        return "No candidate has a better mean rank than today's default."
    best = table[first]
    words = []
    for what, key, digits in [("mean rank", "ranks", 2), ("relation", "relations", 3)]:
        if not best[key] or not usual[key]:
            continue
        apart = abs(statistics.fmean(best[key]) - statistics.fmean(usual[key]))
        allowed = max(deviation(best[key]), deviation(usual[key]))
        within = "within" if apart <= allowed else "not within"
        words.append(f"{within} a deviation of it by {what} ({spread(usual[key], digits)} against "
                     f"{spread(best[key], digits)})")
    return (f"First by mean rank is {first}, ahead of today's default on {best['ahead']} of "
            f"{len(rung['sets'])} sets. The default is {' and '.join(words)}.")


def section(name, kind, facts):
    """What is written about one kind of task."""
    report = [rung for rung in facts["rungs"] if rung["sets"]]
    late = [rung for rung in facts["rungs"] if not rung["sets"]]
    lines = [f"## {name}", "", run.paragraph(
        f"The sets and the metric are those of [{kind['suite']}]({kind['suite']}.md). Today's default is "
        f"{label(kind['default'])}. {facts['date']}, {facts['machine']}, {facts['jobs']} runs at a time."
    ), ""]
    for number, rung in enumerate(report):
        count, seeds = len(rung["candidates"]), len(rung["seeds"])
        unfinished = f"; not finished by all: {', '.join(rung['left_out'])}" if rung["left_out"] else ""
        text = (f"Rung {number + 1}: {count} candidates, at most {rung['epochs']} epochs, {seeds} "
                f"seed{'s' if seeds > 1 else ''}, {len(rung['sets'])} sets{unfinished}.")
        if rung["problems"]:
            text += f" {len(rung['problems'])} of {rung['finished']} runs failed or diverged."
        lines += [run.paragraph(text), ""]
    for rung in late:
        lines += [run.paragraph(
            f"Of a rung of {len(rung['candidates'])} candidates {rung['finished']} of {rung['runs']} runs "
            "were finished in time, and no set by all."
        ), ""]
    if not report:
        return lines
    rung = report[-1]
    if len(rung["seeds"]) == 1:
        lines += ["The last rung was not judged: with one seed, this decides nothing.", ""]
    lines += [run.paragraph(verdict(rung)), ""]
    order = best_first(rung["candidates"])[:12]
    lines += ["| | mean rank | relation to the default | sets ahead of it |", "|---|---|---|---|"]
    for one in order:
        row = rung["candidates"][one]
        lines.append(f"| {one} | {spread(row['ranks'])} | {spread(row['relations'], 3)} | "
                     f"{'' if one == 'default' else row['ahead']} |")
    order = order[:6]
    lines += ["", "| validation | " + " | ".join(order) + " |", "|---" * (len(order) + 1) + "|"]
    for data in rung["sets"]:
        cells = [[value for value in rung["candidates"][one]["values"][data] if value is not None]
                 for one in order]
        lines.append(f"| {data} | " + " | ".join(spread(cell, 4) for cell in cells) + " |")
    return lines + [""]


def write(folder, kinds, known):
    """All figures, and the tables below what is written by hand."""
    page = folder / "study.md"
    text = (page if page.exists() else run.RESULTS / "study.md").read_text()
    before, _, rest = text.partition(BEGIN)
    lines = [
        BEGIN, "", "# Models, columns, rates and windows", "",
        run.paragraph(
            "Every combination of the grid in `bench/study.toml`, by successive halving, judged by "
            "validation alone (`python3 bench/study.py` makes this part, and [study.json](study.json) has "
            "all figures). A rank is among the candidates of the rung, 1 the best, and its mean over the "
            "sets; the relation is that of the validation to the default's, the mean over the sets, above 1 "
            "where it is better. Deviations are those of the seeds. Sets that not all candidates had "
            "finished when the time was over are left out."
        ), "",
    ]
    for name, kind in kinds.items():
        if name in known:
            lines += section(name, kind, known[name])
    after = rest.partition(END)[2]
    run.replace(page, f"{before.rstrip()}\n\n" + "\n".join(lines) + END + (after or "\n"))
    run.replace(folder / "study.json", json.dumps(known, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="?", default="classes,regression,links")
    run.shared(parser)
    parser.add_argument("--grid", type=pathlib.Path, default=run.ROOT / "bench" / "study.toml")
    args = parser.parse_args()
    kinds = tomllib.loads(args.grid.read_text())
    wanted, incomplete = args.kinds.split(","), []
    for name in wanted:
        if name not in kinds:
            raise SystemExit(f"there is no study of {name}: there are {', '.join(kinds)}")
    pool = run.pool_of(args)
    before = args.output / "study.json"
    before = before if before.exists() else run.RESULTS / "study.json"
    known = json.loads(before.read_text()) if before.exists() else {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or pathlib.Path(temporary)
        left = sum(len(kinds[name]["rungs"]) for name in wanted)
        for name in wanted:
            facts = {"date": datetime.date.today().isoformat(), "machine": run.machine(), "jobs": args.jobs}

            def save(rungs):
                known[name] = facts | {"rungs": rungs}
                write(args.output, kinds, known)

            report = study(pool, name, kinds[name], args, folder / name, left, save)
            left -= len(kinds[name]["rungs"])
            if len(report) < len(kinds[name]["rungs"]) or any(rung["left_out"] for rung in report):
                incomplete.append(name)
    if incomplete:
        raise SystemExit(f"the time is over, not everything is finished: {', '.join(incomplete)}")


if __name__ == "__main__":
    main()
