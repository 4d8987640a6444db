"""Reads a store (docs/store.md) with numpy alone, from mapped files: unweighted graphs with dense features,
which is what `kymo generate` makes."""

import json
import mmap
import pathlib

import numpy

TYPES = {"U8": "u1", "U32": "<u4", "U64": "<u8", "I32": "<i4", "F32": "<f4", "F64": "<f8"}


def arrays(path):
    """The arrays of a safetensors file, where they lie in it."""
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    begin = 8 + int.from_bytes(mapped[:8], "little")
    found = {}
    for name, entry in json.loads(mapped[8:begin]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            values = numpy.frombuffer(mapped, TYPES[entry["dtype"]], offset=begin + first,
                                      count=(last - first) // numpy.dtype(TYPES[entry["dtype"]]).itemsize)
            found[name] = values.reshape(entry["shape"])
    return found


class Step:
    """Edges as numbers (the target in the upper half, the source in the lower), sorted; features, the same
    array as those of the step before where nothing changed; the vertices to be predicted and their values."""

    def __init__(self, edges, features, vertices, values):
        self.edges, self.features, self.vertices, self.values = edges, features, vertices, values


class Store:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.manifest = json.loads((self.path / "manifest.json").read_text())
        self.vertices, self.length = self.manifest["vertices"], self.manifest["steps"]
        facts = self.manifest["features"]
        if facts["kind"] != "dense":
            raise SystemExit(f"{path} has {facts['kind']} features; this reader knows dense ones")
        self.width = facts["width"]
        self.segment = -(-self.width // max(facts["segments"], 1))

    def steps(self):
        """All steps in order."""
        edges, features = numpy.empty(0, "<u8"), None
        for part in self.manifest["parts"]:
            held = arrays(self.path / part["file"]["name"])
            if "added.weight" in held or "reweighted" in held:
                raise SystemExit(f"{self.path} has weights; this reader knows unweighted graphs")
            for t, marks in enumerate(held["step.marks"]):
                edges = self.edges(held, t, marks, edges)
                features = self.features(held, t, marks, features)
                yield Step(edges, features, *(
                    of(held, name, "targets.at", t) for name in ["targets.vertex", "targets.value"]))

    def edges(self, held, t, marks, before):
        added, removed = (listed(held, name, t) for name in ["added", "removed"])
        if marks & 1:
            return added
        kept = numpy.delete(before, numpy.searchsorted(before, removed))
        return numpy.insert(kept, numpy.searchsorted(kept, added), added)

    def features(self, held, t, marks, before):
        if marks & 2:
            begin, end = held["features.rows.at"][t:t + 2]
            rows = held["features.rows"].reshape(-1)[begin:end].reshape(-1, self.width)
            return before if before is not None and numpy.array_equal(before, rows) else rows
        vertices, segments, values = (of(held, f"features.{name}", "features.at", t)
                                      for name in ["vertex", "segment", "value"])
        if len(vertices) == 0:
            return before
        after = before.copy()
        for number in numpy.unique(segments):
            mine, first = segments == number, int(number) * self.segment
            last = min(first + self.segment, self.width)
            after[vertices[mine], first:last] = values[mine].reshape(-1, self.segment)[:, :last - first]
        return after


def of(held, name, at, t):
    """The entries of step `t` of an array; none where the part does not have it."""
    if name not in held:
        return numpy.empty(0, "<f4")
    return held[name][slice(*held[at][t:t + 2])]


def listed(held, name, t):
    return numpy.ascontiguousarray(of(held, name, name + ".at", t)).view("<u8").reshape(-1)
