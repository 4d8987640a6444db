"""Eight windows of an iteration, run together and one after the other (REAL, section 4.2).

    python3 bench/together.py [--kymo FILE] [--scale 0.1] [--models t-gcn,wd-gcn,gat-lstm] [--layers 1,2]

Windows of four steps follow each other, so that eight have eleven snapshots where one after the other has 32.
Of each model and number of layers the pace of training in the best epoch after the first, one worker with all
cores, `A_t X` kept in both. The bound is Amdahl's for what a snapshot shares, structure and its products: of
an epoch one after the other, the part of them that eleven instead of 32 snapshots save, the backward pass
taken to divide as the forward pass does (stages by a profile of `blad`). Products of time encoders with what
structure hands them are shared as well, and count as time there: that is how more can be gained.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

from reuse import ROOT, stages

SNAPSHOTS = 11 / 32


def main():
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--kymo", default=ROOT / "target" / "release" / "kymo", type=pathlib.Path)
    parser.add_argument("--scale", default="0.1")
    parser.add_argument("--models", default="t-gcn,wd-gcn,gat-lstm")
    parser.add_argument("--layers", default="1,2")
    options = parser.parse_args()
    kymo = options.kymo.resolve()
    with tempfile.TemporaryDirectory() as made:
        store = pathlib.Path(made) / "store"
        generate = ["generate", "arxiv-like", "--scale", options.scale, "-o", store, "--quiet"]
        subprocess.run([kymo, *generate], check=True, capture_output=True)

        def train(name, model, layers, *more):
            run = pathlib.Path(made) / name
            settings = ["parallel.windows=8", "parallel.order=runs", "train.patience=0"]
            command = [kymo, "train", store, "--model", model, "--layers", layers, "--hidden", "64",
                       "--window", "4", "--epochs", "3", "--memory", "8GiB", "--quiet", "-o", run]
            command += [part for setting in settings + list(more) for part in ("--set", setting)]
            subprocess.run(list(map(str, command)), check=True, capture_output=True)
            lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
            return run, max(line["edges_per_second"] for line in lines[1:]) / 1e6, lines[-1]["loss"]

        print("| model, layers | together | one after the other | ratio | bound | losses |")
        print("|---" * 6 + "|")
        for model in options.models.split(","):
            for layers in options.layers.split(","):
                name = f"{model}-{layers}"
                _, together, loss = train(f"{name}-together", model, layers, "parallel.share=true")
                _, alone, other = train(f"{name}-alone", model, layers, "parallel.share=false")
                more = ["parallel.workers=2", "parallel.strategy=blad", "parallel.share=false",
                        "parallel.profile_epochs=3"]
                seconds = stages(train(f"{name}-stages", model, layers, *more)[0])
                structure = seconds["load"] + seconds["aggregation"] + seconds["products"]
                forward = structure + seconds["time encoder"]
                share = (structure + seconds["backward"] * structure / forward) / sum(seconds.values())
                bound = 1 / (1 - share * (1 - SNAPSHOTS))
                print(f"| `{model}`, {layers} | {together:.1f} | {alone:.1f} | {together / alone:.2f} "
                      f"| {bound:.2f} | {loss:.6f} {other:.6f} |", flush=True)


if __name__ == "__main__":
    main()
