"""The small dynamic graphs that every reference file is computed on.

Directed and weighted; the edges differ from step to step. Step 0 has a hub that many vertices point at, step
1 a hub that points at many, step 2 has no edges, step 3 has a bit of both. Steps 0 and 1 have a self-loop and
a vertex without edges.
"""

from typing import NamedTuple

import torch

STEPS = [
    [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (0, 3), (3, 2), (2, 2), (7, 0), (0, 7)],
    [(0, 1), (0, 2), (0, 4), (0, 6), (6, 5), (5, 6), (1, 4), (4, 4), (8, 7), (7, 8)],
    [],
    [(6, 0), (5, 0), (4, 0), (3, 0), (2, 1), (1, 2), (0, 6), (5, 3), (8, 0), (7, 1)],
]


class Graph(NamedTuple):
    """One step: edges [E,2] as (source, target), weights [E], the number of vertices."""

    edges: torch.Tensor
    weights: torch.Tensor
    vertices: int

    @property
    def sources(self):
        return self.edges[:, 0]

    @property
    def targets(self):
        return self.edges[:, 1]

    @property
    def index(self):
        """The edges as PyTorch Geometric wants them: [2,E]."""
        return self.edges.t().contiguous()

    def reversed(self):
        return Graph(self.edges.flip(1), self.weights, self.vertices)


def graphs(vertices, random):
    """All steps, cut down to the first vertices, with random weights between 0.2 and 2."""
    return [graph([edge for edge in step if max(edge) < vertices], vertices, random) for step in STEPS]


def graph(edges, vertices, random):
    weights = torch.tensor(random.uniform(0.2, 2.0, len(edges)), dtype=torch.float32).double()
    return Graph(torch.tensor(edges, dtype=torch.int64).reshape(-1, 2), weights, vertices)


def with_zero_degree(step, vertex):
    """The same step with a self-loop of weight zero at a vertex without edges: its degree is zero, self-loop
    and all."""
    assert not (step.edges == vertex).any()
    loop = torch.tensor([[vertex, vertex]])
    return Graph(
        torch.cat([step.edges, loop]), torch.cat([step.weights, step.weights.new_zeros(1)]), step.vertices
    )
