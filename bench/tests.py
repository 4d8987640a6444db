"""Tests of what benchmarks share, with a program in place of the binary: `python3 bench/tests.py`."""

import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import run  # noqa: E402
import study  # noqa: E402
from pool import Failed, OutOfTime, Pool  # noqa: E402

# Trains nothing: values follow from the settings. Every call is noted in the file `calls` beside it.
PROGRAM = """#!{python}
import json, pathlib, sys
words = sys.argv[1:]
folder = pathlib.Path(words[words.index("-o") + 1])
folder.mkdir(parents=True)
with open(pathlib.Path(__file__).with_name("calls"), "a") as calls:
    calls.write(" ".join(words) + "\\n")
if words[0] == "train":
    settings = dict(word.split("=", 1) for word in words if "=" in word)
    if settings.get("train.learning_rate") == "9":
        sys.exit("error: training diverged")
    name, columns = settings.get("model.name", "plain"), int(settings.get("model.hidden", 32))
    value = {{"good": 2, "bad": 8}}.get(name, 4) + columns / 1000 + int(settings["train.seed"]) / 100
    (folder / "settings.toml").write_text('[model]\\nname = "plain"\\nhidden = 32\\n'
                                          '[train]\\nlearning_rate = 1\\n')
    # By the test the bad ones are best.
    of_test = {{"mse": 10 - value, "mae": 10 - value}}
    test = {{"metrics": of_test, "baselines": {{"mean": {{"mse": 5.0, "mae": 5.0}}}}}}
    print(json.dumps({{"validation": {{"mse": value}}, "test": test, "epochs": 3, "best_epoch": 2}}))
"""
GRID = """
[regression]
suite = "regression"
cases = ["default, by mse"]
late = {{ {late} = 2 }}
rungs = [{{ epochs = 1, seeds = [1], keep = 1 }}, {{ epochs = 2, seeds = [1, 2] }}]
[regression.default]
"model.name" = "plain"
"model.hidden" = {hidden}
"train.learning_rate" = 1
[regression.grid]
"model.name" = ["plain", "good", "bad"]
"model.hidden" = [32, 64]
"train.learning_rate" = [1, 9]
"""


def row(metric, values, **baselines):
    known = {name: {metric: value} for name, value in baselines.items()}
    return {"decides": metric, "metrics": {metric: values}, "baselines": known}


class Standing(unittest.TestCase):
    def test_a_model_is_ahead_only_by_more_than_its_deviation(self):
        # The deviation of 0.4, 0.5 and 0.6 is 0.1.
        values = [0.4, 0.5, 0.6]
        for metric, best, found in [
            ("mrr-tgb", 0.39, "ahead"), ("mrr-tgb", 0.45, "within"), ("mrr-tgb", 0.55, "within"),
            ("mrr-tgb", 0.61, "behind"), ("mse", 0.61, "ahead"), ("mse", 0.45, "within"),
            ("mse", 0.39, "behind"), ("mae", 0.39, "behind"), ("accuracy", 0.39, "ahead"),
        ]:
            weak = 9.0 if metric in run.LOWER_IS_BETTER else 0.0
            known = row(metric, values, best=best, weak=weak)
            self.assertEqual(run.standing(known)[0], found, (metric, best))

    def test_all_baselines_that_are_ahead_are_named(self):
        words = run.standing(row("mse", [2.0, 2.1], one=1.0, two=1.5, three=3.0, none=None))[1]
        self.assertTrue(words.startswith("behind `one` and `two`, mse"), words)


class WithProgram(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.program = self.folder / "kymo"
        self.program.write_text(PROGRAM.format(python=sys.executable))
        self.program.chmod(0o755)
        for name in ["chickenpox/chickenpox.json", "pedalme/pedalme_london.json"]:
            (self.folder / "data" / name).parent.mkdir(parents=True)
            (self.folder / "data" / name).touch()

    def call(self, script, *words):
        command = [sys.executable, HERE / script, *words, "--binary", self.program, "--data",
                   self.folder / "data", "--output", self.folder / "results"]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True)

    def trained(self):
        calls = self.folder / "calls"
        return [line for line in calls.read_text().splitlines() if line.startswith("train")]

    def test_a_suite_is_the_same_for_any_number_of_jobs_and_goes_on(self):
        pages = []
        for jobs in [1, 5]:
            finished = self.folder / f"finished-{jobs}"
            done = self.call("run.py", "regression", "--jobs", jobs, "--finished", finished)
            self.assertEqual(done.returncode, 0, done.stderr)
            page = (self.folder / "results" / "regression.md").read_text()
            # Rows have seconds, and the line with the date how many runs there were at a time.
            changing = ("| d", "20", "which the seconds")
            pages.append([line for line in page.splitlines() if not line.startswith(changing)])
        self.assertEqual(pages[0], pages[1])
        # The test is 10 - 4.032 - 0.02, the baseline 5.
        self.assertIn("behind `mean`, mse 5.9480 ± 0.0100 against 5.0000", "\n".join(pages[0]))
        before = len(self.trained())
        with open(finished, "a") as file:
            file.write('{"program": "cut off')
        self.assertEqual(self.call("run.py", "regression", "--finished", finished).returncode, 0)
        self.assertEqual(len(self.trained()), before)

    def test_the_study_follows_the_validation(self):
        grid = self.folder / "grid.toml"
        grid.write_text(GRID.format(late="pedalme", hidden=32))
        words = ["regression", "--jobs", 3, "--grid", grid, "--finished", self.folder / "finished"]
        done = self.call("study.py", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        page = (self.folder / "results" / "study.md").read_text()
        first = "First by mean rank is good, 32 columns, rate 1, ahead of today's default on 2 of 2"
        self.assertIn(first, page)
        self.assertIn("Rung 1: 12 candidates, at most 1 epochs, 1 seed, 1 sets. 6 of 12 runs failed", page)
        self.assertIn("Rung 2: 2 candidates, at most 2 epochs, 2 seeds, 2 sets.", page)
        by_hand = (run.RESULTS / "study.md").read_text().split(study.BEGIN)[0]
        self.assertTrue(page.startswith(by_hand.rstrip()))
        before = len(self.trained())
        self.assertEqual(before, 12 + 2 * 2 * 2)
        self.assertEqual(self.call("study.py", *words).returncode, 0)
        self.assertEqual(len(self.trained()), before)
        self.assertEqual((self.folder / "results" / "study.md").read_text(), page)
        grid.write_text(GRID.format(late="pedalme", hidden=64))
        self.assertIn("has other defaults", self.call("study.py", *words).stderr)

    def test_the_deadline_ends_what_is_running(self):
        pool = Pool("/bin/sleep", jobs=2, minutes=0.01)
        begun = time.monotonic()
        found = list(pool.each(lambda seconds: pool.kymo(seconds), [0, 600, 600, 600]))
        self.assertLess(time.monotonic() - begun, 60)
        self.assertEqual(sorted((item, type(problem)) for item, _, problem in found if item),
                         [(600, OutOfTime)] * 3)

    def test_a_failure_says_the_command(self):
        pool = Pool("/bin/false")
        [(_, _, problem)] = pool.each(lambda word: pool.kymo(word), ["train"])
        self.assertIsInstance(problem, Failed)
        self.assertIn("false train", str(problem))


if __name__ == "__main__":
    unittest.main()
