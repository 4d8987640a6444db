"""CPU seconds of loading and aggregation in an epoch, without reuse and with it (REAL, section 4).

    python3 bench/aggregation.py [--kymo FILE] [--graphs arxiv,stackoverflow,reddit] [--models t-gcn,wd-gcn]
        [--windows 16] [--set model.normalisation=right] [--output aggregation.md]

The graphs are those of reuse.py, two workers of one thread each, hidden width 64, one block:

    nothing     psg, one window after the other, nothing kept
    type I      what consecutive snapshots have in common is computed once (parallel.increments), and products
                with features are kept (run.keep)
    everything  and windows of a worker that overlap are run together (parallel.share)

`perf record -e cpu-clock` samples where the processor is: in the threads that read snapshots (`reader`), and
in sums over neighbours, forward and backward. What an epoch takes is the difference of two trainings, one
four epochs longer than the other, so that what is done once does not count; the validation is of one step.
These are seconds of a processor, which other programs on the machine hardly change.
"""

import argparse
import pathlib
import subprocess
import tempfile

from reuse import GRAPHS, NOTHING, ROOT, RUNS

VARIANTS = {
    "nothing": {**NOTHING, **RUNS},
    "type I": {**RUNS, "parallel.share": "false"},
    "everything": RUNS,
}
# Samples a second.
RATE = 499
# Of the epochs, the first few are not counted.
EPOCHS = (2, 6)
# What is sampled of a sum over neighbours, by the names of its functions.
SUMS = ("ops::aggregate::", "ops::increment::", "ops::lazy::")


def sampled(kymo, store, model, windows, more, variant, epochs, folder):
    """Samples of the readers, and of sums over neighbours."""
    settings = {"train.patience": "0", "split.validation": "0.02", "train.window": "8",
                "parallel.windows": windows, **VARIANTS[variant]}
    run = folder / f"{variant}-{epochs}".replace(" ", "")
    command = [kymo, "train", store, "--model", model, "--hidden", "64", "--workers", "2",
               "--strategy", "psg", "--epochs", epochs, "--quiet", "-o", run]
    for setting in [*(f"{name}={value}" for name, value in settings.items()), *more]:
        command += ["--set", setting]
    record = folder / "perf.data"
    command = ["perf", "record", "-q", "-e", "cpu-clock", "-F", RATE, "-o", record, *command]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    script = subprocess.run(["perf", "script", "-i", record, "-F", "comm,ip,sym"], check=True,
                            capture_output=True, text=True).stdout
    read, summed = 0, 0
    for line in script.splitlines():
        command, _, symbol = [*line.split(maxsplit=2), "", "", ""][:3]
        read += command == "reader"
        summed += command != "reader" and any(name in symbol for name in SUMS)
    return read, summed


def main():
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--kymo", default=ROOT / "target" / "release" / "kymo", type=pathlib.Path)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--models", default="t-gcn,wd-gcn")
    parser.add_argument("--windows", default=16, type=int, help="of an iteration")
    parser.add_argument("--set", default=[], action="append", help="a setting of all runs")
    parser.add_argument("--output", default="aggregation.md", type=pathlib.Path)
    options = parser.parse_args()
    kymo = options.kymo.resolve()
    lines = ["| graph | model | " + " | ".join(f"{name}: loading, sums, s" for name in VARIANTS)
             + " | type I | everything |", "|---" * (len(VARIANTS) + 4) + "|"]
    with tempfile.TemporaryDirectory() as made:
        for graph in options.graphs.split(","):
            store = pathlib.Path(made) / graph
            subprocess.run([kymo, "generate", *GRAPHS[graph].split(), "-o", store, "--quiet"], check=True,
                           capture_output=True)
            for model in options.models.split(","):
                row = {}
                for variant in VARIANTS:
                    folder = pathlib.Path(made) / f"{graph}-{model}"
                    folder.mkdir(exist_ok=True)
                    few, many = (sampled(kymo, store, model, options.windows, options.set, variant, epochs,
                                         folder) for epochs in EPOCHS)
                    seconds = RATE * (EPOCHS[1] - EPOCHS[0])
                    row[variant] = [max(more - less, 0) / seconds for less, more in zip(few, many)]
                total = {variant: sum(seconds) for variant, seconds in row.items()}
                cells = [graph, f"`{model}`"]
                cells += [" ".join(f"{part:.3f}" for part in row[name]) for name in VARIANTS]
                cells += [f"{total['nothing'] / max(total[name], 1 / seconds):.1f}"
                          for name in ("type I", "everything")]
                lines.append("| " + " | ".join(cells) + " |")
                options.output.write_text("\n".join(lines) + "\n")
                print(lines[-1], flush=True)


if __name__ == "__main__":
    main()
