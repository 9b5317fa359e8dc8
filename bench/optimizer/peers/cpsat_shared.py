"""CP-SAT on models of the shared form: optional intervals on the instances of each machine, cumulative resources.

usage: cpsat_shared.py LIMIT. Each line of standard input is {"model": path, "unit": hours}; times are multiples of the
unit. Each line of standard output is {"status", "objective", "bound"}: optimal, feasible or none.
"""

import contextlib
import json
import os
import sys

from ortools.sat.python import cp_model

USD = 10**6  # steps of a dollar
SIZE = 4  # steps of a vCPU, a GiB and a GPU


def solve(m, unit, limit):
    def ticks(hours):
        t = round(hours / unit)
        if abs(t * unit - hours) > 1e-9:
            raise ValueError(f"{hours} h is no multiple of {unit} h")
        return t

    cp = cp_model.CpModel()
    tasks, machines = m["tasks"], m["machines"]
    horizon = sum(max(ticks(t["hours"] / k["speed"]) for k in machines) for t in tasks)
    horizon += max(ticks(k["bootHours"]) for k in machines)
    horizon += sum(ticks(e["gib"] * max(map(max, m["hoursPerGiB"]))) for e in m["edges"])
    if m["deadlineHours"] is not None:
        horizon = min(horizon, int(m["deadlineHours"] / unit + 1e-9))
    start = [cp.new_int_var(0, horizon, "") for _ in tasks]
    end = [cp.new_int_var(0, horizon, "") for _ in tasks]
    spent, instances = [], []  # instances: (place, {task: presence})
    for k in machines:
        fits = [t for t, x in enumerate(tasks) if all(x[r] <= k[r] for r in ("cpus", "memoryGiB", "gpus"))]
        before = None
        for _ in range(min(k["most"], len(fits))):
            used = cp.new_bool_var("")
            if before is not None:
                cp.add_implication(used, before)
            before = used
            first, last = cp.new_int_var(0, horizon, ""), cp.new_int_var(0, horizon, "")
            on, intervals = {}, []
            for t in fits:
                on[t] = cp.new_bool_var("")
                cp.add_implication(on[t], used)
                hours = ticks(tasks[t]["hours"] / k["speed"])
                intervals.append(cp.new_optional_interval_var(start[t], hours, end[t], on[t], ""))
                cp.add(start[t] >= first + ticks(k["bootHours"])).only_enforce_if(on[t])
                cp.add(end[t] <= last).only_enforce_if(on[t])
            for r in ("cpus", "memoryGiB", "gpus"):
                cp.add_cumulative(intervals, [round(tasks[t][r] * SIZE) for t in fits], round(k[r] * SIZE))
            step = max(1, ticks(k["incrementHours"]))
            number = cp.new_int_var(0, (horizon + ticks(k["minimumHours"])) // step + 1, "")
            cp.add(number * step >= last - first).only_enforce_if(used)
            cp.add(number * step >= ticks(k["minimumHours"])).only_enforce_if(used)
            spent.append(number * round(step * unit * k["usdPerHour"] * USD))
            instances.append((k["place"], on))
    for t in range(len(tasks)):
        here = [on[t] for _, on in instances if t in on]
        if not here:
            return {"status": "none"}
        cp.add_exactly_one(here)
    index = {x["id"]: t for t, x in enumerate(tasks)}
    for e in m["edges"]:
        u, v = index[e["from"]], index[e["to"]]
        cp.add(start[v] >= end[u])
        for i, (p, a) in enumerate(instances):
            for j, (q, b) in enumerate(instances):
                if i == j or u not in a or v not in b:
                    continue
                cp.add(start[v] >= end[u] + ticks(e["gib"] * m["hoursPerGiB"][p][q])).only_enforce_if(a[u], b[v])
                usd = round(e["gib"] * m["usdPerGiB"][p][q] * USD)
                if usd > 0:
                    both = cp.new_bool_var("")
                    cp.add_bool_or(a[u].negated(), b[v].negated(), both)
                    spent.append(both * usd)
    total = sum(spent)
    makespan = cp.new_int_var(0, horizon, "")
    cp.add_max_equality(makespan, end)
    if m["budgetUSD"] is not None:
        cp.add(total <= int(m["budgetUSD"] * USD + 1e-6))
    cp.minimize(total if m["objective"] == "cost" else makespan)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = limit
    status = solver.solve(cp)
    scale = USD if m["objective"] == "cost" else 1 / unit
    name = {cp_model.OPTIMAL: "optimal", cp_model.FEASIBLE: "feasible"}.get(status, "none")
    if name == "none":
        return {"status": "infeasible" if status == cp_model.INFEASIBLE else "none"}
    return {"status": name, "objective": solver.objective_value / scale, "bound": solver.best_objective_bound / scale}


def main():
    limit = float(sys.argv[1])
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps the solver's own output out of the answers
    for line in sys.stdin:
        ask = json.loads(line)
        with open(ask["model"], encoding="utf-8") as f:
            model = json.load(f)
        out.write(json.dumps(solve(model, ask["unit"], limit)) + "\n")
        out.flush()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
