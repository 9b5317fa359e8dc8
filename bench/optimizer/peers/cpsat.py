"""CP-SAT on the same tight formulation in booleans, costs and times scaled to integers."""

import time

from ortools.sat.python import cp_model

SCOPE = ("cost", "makespan", "deadline", "budget")


def solve(m, limit):
    model = cp_model.CpModel()
    largest = sum(max(c[1] for c in cands) for cands in m.candidates) + sum(g for _, _, g in m.edges) * max(map(max, m.usd))
    longest = sum(max(c[2] for c in cands) for cands in m.candidates) + sum(g for _, _, g in m.edges) * max(map(max, m.hours))
    usd_scale, hour_scale = scale(largest), scale(longest)
    x, at = [], []
    for t, cands in enumerate(m.candidates):
        x.append([model.new_bool_var("") for _ in cands])
        model.add_exactly_one(x[t])
        at.append({})
        for p in m.places(t):
            here = [x[t][k] for k, c in enumerate(cands) if c[0] == p]
            at[t][p] = here[0] if len(here) == 1 else model.new_bool_var("")
            if len(here) > 1:
                model.add(sum(here) == at[t][p])
    spent = [(x[t][k], round(c[1] * usd_scale)) for t, cands in enumerate(m.candidates) for k, c in enumerate(cands)]
    horizon = round(longest * hour_scale) + 1
    finish = [model.new_int_var(0, horizon, "") for _ in x] if m.timed else None
    if m.timed:
        for t, cands in enumerate(m.candidates):
            model.add(finish[t] >= sum(x[t][k] * round(c[2] * hour_scale) for k, c in enumerate(cands)))
    for u, v, gib in m.edges:
        y = {(p, q): model.new_bool_var("") for p in at[u] for q in at[v]}
        for p in at[u]:
            model.add(sum(y[p, q] for q in at[v]) == at[u][p])
        for q in at[v]:
            model.add(sum(y[p, q] for p in at[u]) == at[v][q])
        spent.extend((i, round(gib * m.usd[p][q] * usd_scale)) for (p, q), i in y.items())
        if m.timed:
            run = sum(x[v][k] * round(c[2] * hour_scale) for k, c in enumerate(m.candidates[v]))
            move = sum(i * round(gib * m.hours[p][q] * hour_scale) for (p, q), i in y.items())
            model.add(finish[v] >= finish[u] + run + move)
    total = sum(i * c for i, c in spent)
    if m.timed:
        end = model.new_int_var(0, horizon if m.deadline is None else int(m.deadline * hour_scale), "")
        model.add_max_equality(end, finish)
    if m.budget is not None:
        model.add(total <= int(m.budget * usd_scale))
    model.minimize(total if m.objective == "cost" else end)

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = limit
    wall, cpu = time.perf_counter(), time.process_time()
    status = solver.solve(model)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return {"status": "none", "picks": None, "wall": wall, "cpu": cpu}
    picks = [next(k for k, var in enumerate(row) if solver.boolean_value(var)) for row in x]
    return {"status": "optimal" if status == cp_model.OPTIMAL else "feasible", "picks": picks, "wall": wall, "cpu": cpu}


def scale(largest):
    """A power of ten that makes the largest sum about 1e12: fine enough for 1e-9, small enough for 64 bits."""
    s = 1.0
    while largest * s < 1e11:
        s *= 10
    return s
