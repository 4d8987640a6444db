"""Kills at random moments: a training with several processes, killed and resumed until it ends.

    python3 bench/kills.py [--kills 100] [--ranks 3] [--seed 1] [--binary FILE] [--output FILE]

Each training is killed several times: a rank, all at once, or mpirun itself, after a time drawn from all that
it takes (joining MPI, reading, training, validation, checkpoints, the test), or right after names in its
folder have changed, which is where files are being replaced. Each time the same command with --resume goes
on. In the end the checkpoint and the metrics must be those of a training that was left alone, and nothing may
lie beside them. Needs a kymo with the feature mpi, and mpirun of Open MPI.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
STORE = "generate power-law --vertices 300 --edges 1500 --steps 20 --features 3 -o store"
TRAIN = "train store --epochs 12 --threads 1 --set train.patience=0 --set run.checkpoint_windows=2 -o {run}"
STRATEGIES = ["pts", "pss", "psg --set parallel.costs=edges"]
LIMIT = 10


def ranks_of(mpirun):
    """The processes of the workers by their ranks."""
    found = {}
    try:
        children = pathlib.Path(f"/proc/{mpirun}/task/{mpirun}/children").read_text().split()
    except OSError:
        return found
    for child in children:
        try:
            environment = pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for pair in environment:
            if pair.startswith(b"OMPI_COMM_WORLD_RANK="):
                found[int(pair.split(b"=")[1])] = int(child)
    return found


def is_alive(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def kill(process):
    try:
        os.kill(process, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False


def names(folder):
    return sorted(os.listdir(folder)) if folder.is_dir() else []


class Trial:
    def __init__(self, args, folder):
        self.args, self.folder, self.random = args, folder, random.Random(args.seed)
        self.done, self.codes, self.slowest = collections.Counter(), collections.Counter(), 0.0
        self.hung = 0
        self.environment = dict(
            os.environ,
            OMPI_ALLOW_RUN_AS_ROOT="1",
            OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
            OMPI_MCA_mpi_yield_when_idle="1",
        )

    def start(self, line):
        words = ["mpirun", "--oversubscribe", "-n", str(self.args.ranks), self.args.binary, *line.split()]
        with open(self.folder / "err", "w") as err:
            return subprocess.Popen(
                words, cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL, stderr=err
            )

    def said(self):
        return (self.folder / "err").read_text()

    def whole(self, line):
        begun = time.monotonic()
        code = self.start(line).wait()
        assert code == 0, f"{line}: {code}: {self.said()}"
        return time.monotonic() - begun

    def killed(self, line, run, seconds):
        """Starts the training and kills something of it; whether that came before its end."""
        victim = self.random.choice(["a rank", "a rank", "a rank", "rank 0", "all ranks", "mpirun"])
        after, changes = self.random.random() * seconds, None
        if self.random.random() < 0.5:
            changes = self.random.randint(1, 40)
        rank = self.random.randrange(self.args.ranks)
        mpirun = self.start(line)
        begun, before = time.monotonic(), names(run)
        while mpirun.poll() is None:
            if changes is None and time.monotonic() - begun >= after:
                break
            if changes is not None and (now := names(run)) != before:
                before, changes = now, changes - 1
                if changes == 0:
                    break
            time.sleep(0 if changes is not None else 0.001)
        if mpirun.poll() is not None:
            assert mpirun.returncode == 0, f"{line}: {mpirun.returncode}: {self.said()}"
            return False
        workers = ranks_of(mpirun.pid)
        if victim != "mpirun" and not workers:
            victim = "mpirun"
        chosen = {"mpirun": [mpirun.pid], "all ranks": list(workers.values())}.get(victim)
        if chosen is None:
            chosen = [workers.get(0 if victim == "rank 0" else rank, next(iter(workers.values())))]
        if not any([kill(process) for process in chosen]):
            mpirun.wait()
            return False
        begun = time.monotonic()
        while any(is_alive(process) for process in {*workers.values(), *ranks_of(mpirun.pid).values()}):
            if time.monotonic() - begun > LIMIT:
                sys.exit(f"{victim} was killed, and others live after {LIMIT} s: {self.said()}")
            time.sleep(0.01)
        self.slowest = max(self.slowest, time.monotonic() - begun)
        try:
            mpirun.wait(LIMIT)
        except subprocess.TimeoutExpired:
            # As `kymo launch` does.
            self.hung += 1
            mpirun.kill()
            mpirun.wait()
        self.done[victim] += 1
        self.codes[mpirun.returncode] += 1
        return True

    def compare(self, run, whole):
        facts = lambda folder: [
            [line[key] for key in ["epoch", "loss", "validation", "best", "learning_rate"]]
            for line in map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
            if "epoch" in line
        ]
        checkpoint = "checkpoint.safetensors"
        if (run / checkpoint).read_bytes() != (whole / checkpoint).read_bytes():
            sys.exit(f"{run}: another checkpoint than that of {whole}")
        if facts(run) != facts(whole):
            sys.exit(f"{run}: other metrics than those of {whole}")
        if names(run) != names(whole):
            sys.exit(f"{run}: {names(run)}, left alone {names(whole)}")


def main():
    parser = argparse.ArgumentParser(description="Kills a training with several processes at random moments.")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--binary", default=str(ROOT / "target/release/kymo"))
    parser.add_argument("--output", type=pathlib.Path)
    args = parser.parse_args()
    args.binary = str(pathlib.Path(args.binary).resolve())
    with tempfile.TemporaryDirectory(prefix="kymo-kills-") as folder:
        folder = pathlib.Path(folder)
        trial = Trial(args, folder)
        subprocess.run([args.binary, *STORE.split(), "-q"], cwd=folder, check=True)
        lines = {name: f"{TRAIN} --strategy {name}" for name in STRATEGIES}
        whole = {name: folder / f"whole-{name.split()[0]}" for name in STRATEGIES}
        seconds = {name: trial.whole(lines[name].format(run=whole[name])) for name in STRATEGIES}
        trainings = 0
        while sum(trial.done.values()) < args.kills:
            name = STRATEGIES[trainings % len(STRATEGIES)]
            trainings += 1
            run = folder / f"run-{trainings}"
            line = lines[name].format(run=run) + " --resume"
            left = args.kills - sum(trial.done.values())
            for _ in range(min(left, trial.random.randint(2, 6))):
                trial.killed(line, run, seconds[name])
            trial.whole(line)
            trial.compare(run, whole[name])
            print(f"{sum(trial.done.values())} kills, {trainings} trainings", flush=True)
        names_of = ", ".join(name.split()[0] for name in STRATEGIES)
        codes = ", ".join(f"{code} ({times} times)" for code, times in sorted(trial.codes.items()))
        report = f"""# Kills at random moments

`python3 bench/kills.py --kills {args.kills} --ranks {args.ranks} --seed {args.seed}`: {trainings}
trainings of {args.ranks} processes each, by turns with {names_of}, killed
{sum(trial.done.values())} times and resumed each time. All came to the checkpoint, bit for bit, and to the
metrics of one that was left alone, and left nothing else behind. After a kill all workers had ended within
{trial.slowest:.1f} s at most.

| killed | times |
|---|---|
{chr(10).join(f"| {victim} | {times} |" for victim, times in sorted(trial.done.items()))}

mpirun exited with {codes}; -9 is
where it was killed itself. {trial.hung} times it had not ended {LIMIT} s after
the last of its workers, and was killed, as `kymo launch` does.
"""
        print(report)
        if args.output:
            args.output.write_text(report)


if __name__ == "__main__":
    main()
