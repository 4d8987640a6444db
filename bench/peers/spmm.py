"""Sparse products on a GPU: Kymo's kernel against cuSPARSE, called directly and through torch.

    python3 bench/peers/spmm.py --peer PEER [--output spmm.json]

The same matrices for all: a skewed graph of 169,343 vertices and 1.97 million entries, and one of 232,965 and
32 million; rows of 64 and 128 numbers in f32. cuSPARSE is given rows one after the other, the algorithm that
is fastest of those for compressed rows, its preprocessing outside the time. Medians of 30 times 10 products
in a row, by the GPU's own clock.
"""

import argparse
import ctypes
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import torch
from safetensors.numpy import save_file

ROUNDS, PRODUCTS = 30, 10


def graph(vertices, entries, seed):
    """Distinct entries drawn by a power law on both sides, sorted by row."""
    random = numpy.random.default_rng(seed)
    cumulated = numpy.cumsum((numpy.arange(vertices) + 10.0) ** -0.7)
    cumulated /= cumulated[-1]
    order = random.permutation(vertices)

    def ends(count):
        return order[numpy.minimum(numpy.searchsorted(cumulated, random.random(count)), vertices - 1)]

    keys = numpy.empty(0, numpy.int64)
    while len(keys) < entries:
        missing = int((entries - len(keys)) * 1.1) + 1000
        keys = numpy.unique(numpy.concatenate([keys, ends(missing) * vertices + ends(missing)]))
    keys = numpy.sort(random.permutation(keys)[:entries])
    starts = numpy.concatenate([[0], numpy.cumsum(numpy.bincount(keys // vertices, minlength=vertices))])
    return starts.astype(numpy.int64), (keys % vertices).astype(numpy.int64)


def timed(work):
    for _ in range(5):
        work()
    times = []
    for _ in range(ROUNDS):
        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begun.record()
        for _ in range(PRODUCTS):
            work()
        ended.record()
        ended.synchronize()
        times.append(begun.elapsed_time(ended) / PRODUCTS)
    return statistics.median(times)


class CuSparse:
    """cuSPARSE by its own interface: the least time of its algorithms for compressed rows."""

    def __init__(self):
        names = ["libcusparse.so.12", "libcusparse.so"]
        folders = [
            "",
            *(
                str(path) + "/"
                for root in sys.path
                for path in pathlib.Path(root or ".").glob("nvidia/*/lib")
            ),
            "/usr/local/cuda/lib64/",
        ]
        for name in (folder + name for folder in folders for name in names):
            try:
                self.library = ctypes.CDLL(name)
                break
            except OSError:
                continue
        self.handle = ctypes.c_void_p()
        self.check(self.library.cusparseCreate(ctypes.byref(self.handle)))
        self.check(
            self.library.cusparseSetStream(
                self.handle, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            )
        )

    @staticmethod
    def check(status):
        if status != 0:
            raise RuntimeError(f"cuSPARSE status {status}")

    def product(self, starts, columns, values, x):
        rows, width, wide, pointer = len(starts) - 1, x.shape[1], ctypes.c_int64, ctypes.c_void_p
        y = torch.empty_like(x)
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        sparse, dense, result = pointer(), pointer(), pointer()
        index32, from_zero, real, by_rows = 2, 0, 0, 2
        self.check(
            self.library.cusparseCreateCsr(
                ctypes.byref(sparse),
                wide(rows),
                wide(rows),
                wide(len(columns)),
                pointer(starts.data_ptr()),
                pointer(columns.data_ptr()),
                pointer(values.data_ptr()),
                index32,
                index32,
                from_zero,
                real,
            )
        )
        for matrix, numbers in ((dense, x), (result, y)):
            self.check(
                self.library.cusparseCreateDnMat(
                    ctypes.byref(matrix),
                    wide(rows),
                    wide(width),
                    wide(width),
                    pointer(numbers.data_ptr()),
                    real,
                    by_rows,
                )
            )
        least, best = None, None
        for algorithm in (4, 6, 12):  # the first, second and third for compressed rows
            size = ctypes.c_size_t()
            arguments = (
                self.handle,
                0,
                0,
                ctypes.byref(one),
                sparse,
                dense,
                ctypes.byref(zero),
                result,
                real,
                algorithm,
            )
            if self.library.cusparseSpMM_bufferSize(*arguments, ctypes.byref(size)) != 0:
                continue
            room = torch.empty(max(size.value, 1), dtype=torch.uint8, device="cuda")
            if self.library.cusparseSpMM_preprocess(*arguments, pointer(room.data_ptr())) != 0:
                continue
            if self.library.cusparseSpMM(*arguments, pointer(room.data_ptr())) != 0:
                continue
            milliseconds = timed(lambda: self.library.cusparseSpMM(*arguments, pointer(room.data_ptr())))
            if least is None or milliseconds < least:
                least, best = milliseconds, y.clone()
        return least, best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", required=True)
    parser.add_argument("--output", default="spmm.json")
    args = parser.parse_args()
    cusparse = CuSparse()
    rows = []
    for vertices, entries in ((169_343, 1_970_000), (232_965, 32_000_000)):
        starts, columns = graph(vertices, entries, 5)
        for width in (64, 128):
            x = numpy.random.default_rng(1).standard_normal((vertices, width)).astype(numpy.float32)
            with tempfile.TemporaryDirectory() as folder:
                file = f"{folder}/matrix.safetensors"
                save_file({"starts.0": starts, "sources.0": columns, "features": x}, file)
                asked = "step\n" * (ROUNDS + 5)
                answer = subprocess.run(
                    [args.peer, file, "spmm", "1", "cuda", "f32"],
                    input=asked,
                    capture_output=True,
                    text=True,
                    check=True,
                )
            answers = [line.split() for line in answer.stdout.splitlines()]
            ours, norm = statistics.median(float(time) for _, time in answers[5:]), float(answers[-1][0])
            on_gpu = [
                torch.tensor(array).cuda()
                for array in (starts.astype(numpy.int32), columns.astype(numpy.int32))
            ]
            degrees = torch.tensor(numpy.diff(starts)).cuda().clamp(min=1).float()
            values = torch.repeat_interleave(1 / degrees, torch.tensor(numpy.diff(starts)).cuda())
            x_on = torch.tensor(x).cuda()
            direct, y = cusparse.product(*on_gpu, values, x_on)
            matrix = torch.sparse_csr_tensor(*on_gpu, values, (vertices, vertices))
            through_torch = timed(lambda: matrix @ x_on)
            floor = 4 * (vertices + 1 + 2 * entries + 2 * vertices * width) / 4.2e12 * 1e3
            apart = abs(norm - float(y.double().norm())) / norm
            rows.append(
                {
                    "vertices": vertices,
                    "entries": entries,
                    "width": width,
                    "kymo": ours,
                    "cusparse": direct,
                    "torch": through_torch,
                    "floor": floor,
                    "apart": apart,
                }
            )
            print(
                f"spmm {vertices} x {entries}, {width} columns: kymo {ours:.4f} ms, "
                f"cuSPARSE {direct:.4f} ({direct / ours:.2f}x), torch "
                f"{through_torch:.4f} ({through_torch / ours:.2f}x), "
                f"{floor / ours:.0%} of the floor of memory, norms apart {apart:.0e}",
                flush=True,
            )
            # After every row: graphs take long to make, and what is done stays.
            result = {
                "date": time.strftime("%Y-%m-%d"),
                "machine": torch.cuda.get_device_name(),
                "rows": rows,
            }
            pathlib.Path(args.output).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
