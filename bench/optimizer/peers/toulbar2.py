"""toulbar2: the cost objective is a weighted constraint network, one variable for each task, one cost function for each task and each edge."""

import time

import pytoulbar2

SCOPE = ("cost",)


def solve(m, limit):
    largest = sum(max(c[1] for c in cands) for cands in m.candidates) + sum(g for _, _, g in m.edges) * max(map(max, m.usd))
    n = pytoulbar2.CFN(largest + 1, resolution=7)
    for t, cands in enumerate(m.candidates):
        n.AddVariable(f"t{t}", range(len(cands)))
        n.AddFunction([t], [c[1] for c in cands])
    for u, v, gib in m.edges:
        n.AddFunction([u, v], [gib * m.usd[a[0]][b[0]] for a in m.candidates[u] for b in m.candidates[v]])
    wall, cpu = time.perf_counter(), time.process_time()
    answer = n.Solve(timeLimit=int(limit))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if answer is None:
        return {"status": "none", "picks": None, "wall": wall, "cpu": cpu}
    done = cpu < limit * 0.99
    return {"status": "optimal" if done else "feasible", "picks": list(answer[0]), "wall": wall, "cpu": cpu}
