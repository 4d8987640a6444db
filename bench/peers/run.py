"""Kymo against PyTorch, PyTorch Geometric and PyTorch Geometric Temporal: one training step (forward,
backward, Adam) on the same data from the same parameters, in turns.

    python3 bench/peers/run.py [--rounds 7] [--models t-gcn-1,wd-gcn-2] [--python PYTHON]
        [--output bench/results/peers.json]

Without --python, torch, torch-geometric and torch-geometric-temporal are installed from PyPI into bench/venv.
The last one without its dependencies: it pulls in torch-sparse, which has to be compiled and which it needs
for the name of a type only.

All contenders are processes of their own that do a step when they are told to, so that a machine whose speed
drifts slows all of them alike. Medians of the rounds after two steps of warming up. Losses of the first steps
must agree to 1e-4.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# What each model is compared with: variants that compute the same. The best of them counts.
VARIANTS = {
    "t-gcn": {1: ["csr", "compile", "pyg", "pygt"], 2: ["csr", "compile", "pyg"]},
    "wd-gcn": {1: ["csr", "compile", "lstm", "pyg"], 2: ["csr", "compile", "lstm", "pyg"]},
    "evolvegcn-o": {1: ["csr", "compile"], 2: ["csr", "compile"]},
    "gat-lstm": {1: ["csr", "compile", "lstm", "pyg"], 2: ["csr", "compile", "lstm", "pyg"]},
}
LIMITS = {1: {"t-gcn": 2.5, "wd-gcn": 3, "evolvegcn-o": 3, "gat-lstm": 3}, 2: dict.fromkeys(VARIANTS, 2)}


class Contender:
    def __init__(self, name, command):
        self.name, self.times, self.losses = name, [], []
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if len(answer) != 2:
            raise SystemExit(f"{self.name} has died")
        return float(answer[0]), float(answer[1])

    def step(self, counts):
        loss, milliseconds = self.ask("step")
        self.losses.append(loss)
        if counts:
            self.times.append(milliseconds)

    def end(self):
        most, before = self.ask("memory")
        self.process.stdin.close()
        self.process.wait()
        return {
            "milliseconds": round(statistics.median(self.times), 1),
            "all": [round(t, 1) for t in self.times],
            "memory": int(most),
            "memory_before": int(before),
            "losses": self.losses[:3],
        }


def python():
    venv = ROOT / "bench" / "venv"
    interpreter = venv / "bin" / "python"
    if not interpreter.exists():
        print("installing torch and its friends into bench/venv", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        pip = [str(interpreter), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "torch", "torch-geometric", "numpy", "scipy", "safetensors"], check=True)
        subprocess.run([*pip, "--no-deps", "torch-geometric-temporal"], check=True)
    return str(interpreter)


def compare(interpreter, model, layers, rounds):
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/workload.safetensors"
        write = (
            f"import sys; sys.path.insert(0, {str(HERE)!r}); import data; "
            f"data.write({file!r}, {model!r}, {layers})"
        )
        subprocess.run([interpreter, "-c", write], check=True)
        kymo = [
            str(
                pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
                / "release"
                / "examples"
                / "peer"
            ),
            file,
            model,
            str(layers),
        ]
        contenders = [Contender("kymo", kymo)]
        for variant in VARIANTS[model][layers]:
            command = [interpreter, str(HERE / "contender.py"), file, model, str(layers), variant]
            contenders.append(Contender(variant, command))
        for number in range(rounds + 2):
            for contender in contenders:
                contender.step(number >= 2)
        results = {contender.name: contender.end() for contender in contenders}
    for name, result in results.items():
        # The cell of PyTorch Geometric Temporal has more matrices for the same map: it begins alike and
        # learns otherwise.
        count = 1 if name == "pygt" else 3
        for ours, theirs in zip(results["kymo"]["losses"][:count], result["losses"]):
            if abs(ours - theirs) > 1e-4 * max(1, abs(ours)):
                raise SystemExit(f"{model}, {layers} layers: {name} has the loss {theirs}, kymo {ours}")
    return results


def report(model, layers, results):
    """A line for each contender; the comparison with the best of torch."""
    ours = results["kymo"]
    torch = {name: result for name, result in results.items() if name != "kymo"}
    best = min((name for name in torch if name != "pygt"), key=lambda name: torch[name]["milliseconds"])
    print(f"{model}, {layers} layer{'s' if layers > 1 else ''}: losses agree: {ours['losses']}")
    for name, result in results.items():
        ratio = result["milliseconds"] / ours["milliseconds"]
        added = result["memory"] - result["memory_before"]
        print(
            f"    {name:8} {result['milliseconds']:8.1f} ms  {ratio:6.2f} x  "
            f"peak {result['memory'] / 1e6:6.0f} MB, {added / 1e6:6.0f} MB of it for steps"
        )
    ratio = torch[best]["milliseconds"] / ours["milliseconds"]
    share = ours["memory"] / torch[best]["memory"]
    strict = ours["memory"] / (torch[best]["memory"] - torch[best]["memory_before"])
    print(
        f"    {ratio:.2f} x the best torch variant ({best}), limit {LIMITS[layers][model]}; "
        f"peak memory {share:.2f} of its, limit 0.25"
        f" ({strict:.2f} of what its steps alone take)",
        flush=True,
    )
    return {
        "best": best,
        "ratio": round(ratio, 2),
        "memory_share": round(share, 3),
        "memory_share_of_steps": round(strict, 3),
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--models", default=",".join(f"{model}-{layers}" for layers in [1, 2] for model in VARIANTS)
    )
    parser.add_argument("--python")
    parser.add_argument("--output")
    args = parser.parse_args()
    interpreter = args.python or python()
    subprocess.run(["cargo", "build", "--release", "--quiet", "--example", "peer"], cwd=ROOT, check=True)
    versions = subprocess.run(
        [
            interpreter,
            "-c",
            "import torch, torch_geometric as g, importlib.metadata as m; "
            "print(torch.__version__, g.__version__, m.version('torch-geometric-temporal'))",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    facts = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "torch": versions[0],
        "torch-geometric": versions[1],
        "torch-geometric-temporal": versions[2],
        "workload": "50,000 vertices, 500,000 edges a snapshot, window 4, 32 to 64 columns",
        "rounds": args.rounds,
    }
    print(facts, flush=True)
    cases = {}
    for case in args.models.split(","):
        model, layers = case.rsplit("-", 1)
        results = compare(interpreter, model, int(layers), args.rounds)
        cases[case] = report(model, int(layers), results) | {"contenders": results}
    if args.output:
        temporary = args.output + ".partial"
        pathlib.Path(temporary).write_text(json.dumps(facts | {"cases": cases}, indent=1) + "\n")
        os.replace(temporary, args.output)


if __name__ == "__main__":
    main()
