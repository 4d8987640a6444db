"""Kymo against PyTorch and PyTorch Geometric on one GPU: one training step, by the GPU's own clock.

    python3 bench/peers/gpu.py --peer PEER [--rounds 30] [--models t-gcn-1,wd-gcn-2] [--output gpu.json]

A step is forward, backward and Adam, on the same data from the same parameters, in turns. PEER is the example
`peer` of Kymo, built with `--features cuda`; torch (and torch-geometric, where it can be imported) are those
of the Python that runs this. 169,343 vertices, 1.8 million edges a snapshot and a loop at every vertex, 4
snapshots, 128 features, 64 hidden columns; the error at the last snapshot counts, as in windows by default.
All contenders warm up side by side, since compiling takes long, and are then timed one at a time in rounds;
medians. Losses of the first three steps must agree: to 1e-4 in f32, to 1e-3 with tf32 on either side.
"""

import argparse
import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import data  # noqa: E402

SIZES = {"vertices": 169_343, "count": 1_800_000, "features": 128, "hidden": 64, "last": True}
VARIANTS = {"t-gcn": ["csr", "compile", "pyg"], "wd-gcn": ["csr", "compile", "lstm", "pyg"],
            "evolvegcn-o": ["csr", "compile", "pyg"], "gat-lstm": ["csr", "compile", "lstm", "pyg"]}


# Models whose contenders warm up at the same time.
AT_ONCE = 4


class Contender:
    def __init__(self, name, command, log):
        self.name, self.times, self.losses, self.memory = name, [], [], None
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )

    def ask(self, what):
        try:
            self.process.stdin.write(what + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline().split()
            return (float(answer[0]), float(answer[1])) if len(answer) == 2 else None
        except (BrokenPipeError, ValueError):
            return None

    def warm_up(self, steps=5):
        for _ in range(steps):
            answer = self.ask("step")
            if answer is None:
                return
            self.losses.append(answer[0])

    def step(self):
        answer = self.ask("step")
        if answer is not None:
            self.times.append(answer[1])

    def end(self):
        answer = self.ask("memory")
        self.memory = int(answer[0]) if answer else None
        self.process.stdin.close()
        self.process.wait()


def contenders(peer, model, layers, file, log, only):
    kymo = [("kymo tf32", ["tf32"]), ("kymo f32", ["f32"])]
    torch = [(variant, "tf32") for variant in VARIANTS[model]]
    if layers == 1 and model == "t-gcn":
        kymo.append(("kymo tf32 cached", ["tf32", "cached"]))
        torch += [("compile-cached", "tf32"), ("csr", "f32"), ("compile", "f32")]
    if importlib.util.find_spec("torch_geometric") is None:
        torch = [(variant, precision) for variant, precision in torch if variant != "pyg"]
    if only == "kymo":
        torch = []
    all_ = [Contender(name, [peer, file, model, str(layers), "cuda", *rest], log) for name, rest in kymo]
    script = str(HERE / "contender.py")
    return all_ + [
        Contender(
            f"{variant} {precision}",
            [sys.executable, script, file, model, str(layers), variant, "cuda", precision],
            log,
        )
        for variant, precision in torch
    ]


def compare(peer, names, rounds, log, only, made):
    """Several models at once: all contenders warm up side by side, then each is timed in its turn."""
    with tempfile.TemporaryDirectory() as folder:
        all_ = {}
        for name in names:
            model, layers = name.rsplit("-", 1)
            file = f"{folder}/{name}.safetensors"
            data.write(file, model, int(layers), **SIZES, made=made)
            all_[name] = contenders(peer, model, int(layers), file, log, only)
        threads = [
            threading.Thread(target=contender.warm_up) for of_model in all_.values() for contender in of_model
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for of_model in all_.values():
            for _ in range(rounds):
                for contender in of_model:
                    contender.step()
            for contender in of_model:
                contender.end()
    return {name: table(name, of_model) for name, of_model in all_.items()}


def table(name, of_model):
    reference = next(contender for contender in of_model if contender.name == "kymo f32").losses
    rows = {}
    for contender in of_model:
        if not contender.times:
            print(f"{name}: {contender.name} did not run", flush=True)
            continue
        tolerance = 1e-4 if contender.name.endswith(" f32") else 1e-3
        apart = max(
            (abs(a - b) / max(abs(b), 1e-9) for a, b in zip(contender.losses[:3], reference[:3])),
            default=float("nan"),
        )
        rows[contender.name] = {
            "milliseconds": round(statistics.median(contender.times), 3),
            "least": round(min(contender.times), 3),
            "memory": contender.memory,
            "losses": contender.losses[:3],
            "apart": apart,
            "agrees": apart <= tolerance,
        }
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", required=True)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument(
        "--models", default=",".join(f"{model}-{layers}" for layers in (1, 2) for model in VARIANTS)
    )
    parser.add_argument("--only", default="all", choices=["all", "kymo"])
    parser.add_argument("--output", default="gpu.json")
    args = parser.parse_args()
    try:
        import torch
        machine = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    except ImportError:
        machine = "unknown"
    result = {"date": time.strftime("%Y-%m-%d"), "machine": machine, "sizes": SIZES, "models": {}}
    made = data.snapshots(SIZES["vertices"], SIZES["count"], 4, SIZES["features"], SIZES["last"])
    names = args.models.split(",")
    with open(pathlib.Path(args.output).with_suffix(".log"), "w") as log:
        for first in range(0, len(names), AT_ONCE):
            begun = time.time()
            some = names[first:first + AT_ONCE]
            result["models"] |= compare(args.peer, some, args.rounds, log, args.only, made)
            pathlib.Path(args.output).write_text(json.dumps(result, indent=1) + "\n")
            print(f"{', '.join(some)} took {time.time() - begun:.0f} s", flush=True)
            for name in some:
                for contender, row in result["models"][name].items():
                    print(
                        f"  {name:<14} {contender:<18} {row['milliseconds']:8.3f} ms  "
                        f"{(row['memory'] or 0) / 1e6:7.0f} MB  "
                        f"loss {row['losses'][0]:.6f} {'' if row['agrees'] else 'DISAGREES'}",
                        flush=True,
                    )
    for name, rows in result["models"].items():
        print(f"{name}: {ratios(rows)}")
    pathlib.Path(args.output).with_suffix(".md").write_text(report(result))


def report(result):
    """The result as a page."""
    sizes = result["sizes"]
    lines = [
        f"# A training step on one GPU",
        "",
        f"{result['date']}, {result['machine']}. {sizes['vertices']:,} vertices, {sizes['count']:,} edges",
        f"per snapshot and a self-loop at every vertex, 4 snapshots, {sizes['features']} features, "
        f"{sizes['hidden']} hidden columns,",
        "the error at the last snapshot, Adam. Milliseconds by the GPU's own clock, medians. Losses of the",
        "first three steps agree to 1e-4 in f32, to 1e-3 with tf32.",
        "",
        "    ci/gpu build FOLDER && ci/gpu run FOLDER peers",
        "",
    ]
    for name, rows in result["models"].items():
        model, layers = name.rsplit("-", 1)
        lines += [
            f"## {model}, {layers} {'layer' if layers == '1' else 'layers'}",
            "",
            "| | ms | least | peak memory | |",
            "|---|---|---|---|---|",
        ]
        for contender, row in rows.items():
            memory = f"{row['memory'] / 2**20:,.0f} MiB" if row["memory"] else ""
            lines.append(
                f"| {contender} | {row['milliseconds']:.2f} | {row['least']:.2f} | {memory} "
                f"| {'' if row['agrees'] else 'losses disagree'} |"
            )
        lines += ["", ratios(rows), ""]
    return "\n".join(lines)


def ratios(rows):
    """The speed-up over the best torch variant at the same precision, and over PyTorch Geometric."""
    def least(chosen):
        return min((row["milliseconds"] for name, row in rows.items() if chosen(name)), default=None)

    ours = {name: row["milliseconds"] for name, row in rows.items() if name.startswith("kymo")}
    found = []
    for precision in ("tf32", "f32"):
        best = least(
            lambda name: not name.startswith(("kymo", "pyg", "compile-cached"))
            and name.endswith(f" {precision}")
        )
        if best and f"kymo {precision}" in ours:
            found.append(f"{precision} {best / ours[f'kymo {precision}']:.2f}x best torch")
    cached = least(lambda name: name.startswith("compile-cached"))
    if cached and "kymo tf32 cached" in ours:
        found.append(f"cached {cached / ours['kymo tf32 cached']:.2f}x torch cached")
    pyg = least(lambda name: name.startswith("pyg"))
    if pyg and "kymo tf32" in ours:
        found.append(f"{pyg / ours['kymo tf32']:.1f}x PyG")
    return ", ".join(found)


if __name__ == "__main__":
    main()
