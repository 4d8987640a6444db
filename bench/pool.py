"""Runs the binary many times, side by side, until a deadline, and remembers what is finished.

What a run computes does not depend on how many run beside it or on its threads, so nothing here changes a
result. `run.py` and `study.py` share it.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import threading
import time


class Failed(Exception):
    """The binary refused, failed or diverged; says the command and what the binary said."""


class OutOfTime(Exception):
    """The deadline passed before the run had finished, or before it began."""


class Pool:
    def __init__(self, binary, jobs=1, minutes=None, journal=None):
        """`journal` is a file that remembers results from one call to the next. They are those of one binary:
        another one begins anew."""
        self.binary = pathlib.Path(binary).resolve()
        self.jobs = jobs
        self.begun = time.monotonic()
        self.minutes = minutes
        self.lock = threading.Lock()
        self.running = set()
        self.stopped = False
        self.finished = {}
        self.journal = journal
        self.program = hashlib.sha256(self.binary.read_bytes()).hexdigest()[:12]
        if self.journal and self.journal.exists():
            self.recall()
        # Ends its runs, too, which are in sessions of their own.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    def recall(self):
        text = self.journal.read_text()
        # A call that was killed may leave a last line without its end; it is cut off.
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            self.journal.write_text(whole)
        for line in whole.splitlines():
            entry = json.loads(line)
            if entry["program"] == self.program:
                self.finished[entry["key"]] = entry["result"]

    def left(self):
        """Seconds until the deadline; None without one."""
        return None if self.minutes is None else self.minutes * 60 - (time.monotonic() - self.begun)

    def kymo(self, *arguments, spare=0.0):
        """What the binary prints; `spare` are seconds before the deadline by which it has to be finished."""
        command = [str(self.binary), *map(str, arguments)]
        left = None if self.left() is None else self.left() - spare
        if self.stopped or left is not None and left <= 0:
            raise OutOfTime
        # A session of its own: Ctrl-C reaches this program alone, which then ends its runs.
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        with self.lock:
            self.running.add(process)
        try:
            output, complaint = process.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise OutOfTime from None
        finally:
            with self.lock:
                self.running.discard(process)
        if self.stopped:
            raise OutOfTime
        if process.returncode != 0:
            raise Failed(f"{shlex.join(command)}\n{complaint.strip()}")
        return output

    def remember(self, key, result):
        with self.lock:
            self.finished[key] = result
            if self.journal:
                entry = {"program": self.program, "key": key, "result": result}
                with open(self.journal, "a") as file:
                    file.write(json.dumps(entry) + "\n")

    def each(self, work, items):
        """Calls `work(item)` for all items, as many at a time as there are jobs, begun in their order; yields
        (item, result, problem) as they finish, the problem being None, Failed or OutOfTime."""
        workers = concurrent.futures.ThreadPoolExecutor(self.jobs)
        try:
            waiting = {workers.submit(work, item): item for item in items}
            for done in concurrent.futures.as_completed(waiting):
                problem = done.exception()
                if problem is not None and not isinstance(problem, (Failed, OutOfTime)):
                    raise problem
                yield waiting[done], None if problem else done.result(), problem
        except BaseException:
            self.stop()
            raise
        finally:
            workers.shutdown(cancel_futures=True)

    def stop(self):
        """Ends what is running; nothing is begun any more."""
        with self.lock:
            self.stopped = True
            for process in self.running:
                process.kill()


def cores():
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def threads(jobs, cost, total):
    """Threads of a run beside others: its share of the cores by what it costs, so that all end at about the
    same time; None (all cores) where runs come one after the other."""
    return None if jobs == 1 else max(1, min(cores(), round(cores() * cost / max(total, 1e-9))))
