"""Heat in a rod of several parts, one for each MPI process, which exchange their ends in each step. With TOY=1 one
process computes all parts and needs only Python."""

import os

PARTS = 16 if os.environ.get("TOY") else None


def step(u: list[float], left: float, right: float) -> list[float]:
    around = [left, *u, right]
    return [around[i] + 0.25 * (around[i - 1] - 2 * around[i] + around[i + 1]) for i in range(1, len(u) + 1)]


def toy() -> float:
    parts = [[100.0 if n == 0 else 0.0] * 8 for n in range(PARTS)]
    for _ in range(200):
        ends = [(p[0], p[-1]) for p in parts]
        parts = [step(p, ends[n - 1][1] if n > 0 else p[0], ends[n + 1][0] if n + 1 < PARTS else p[-1])
                 for n, p in enumerate(parts)]
    return sum(map(sum, parts))


def real() -> float:
    import numpy
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    u = numpy.full(10_000_000, 100.0 if rank == 0 else 0.0)
    for _ in range(20_000):
        left, right = numpy.array([u[0]]), numpy.array([u[-1]])
        before = rank - 1 if rank else MPI.PROC_NULL
        after = rank + 1 if rank + 1 < size else MPI.PROC_NULL
        world.Sendrecv(u[-1:], after, 0, left, before, 0)
        world.Sendrecv(u[:1], before, 1, right, after, 1)
        around = numpy.concatenate([left, u, right])
        u = u + 0.25 * (around[:-2] - 2 * u + around[2:])
    return float(world.allreduce(u.sum()))


heat = toy() if PARTS else real()
if int(os.environ.get("OMPI_COMM_WORLD_RANK", "0")) == 0:
    print(f"the heat is {heat:.3f}")  # no heat is lost
if PARTS:
    assert abs(heat - 800) < 1e-6
