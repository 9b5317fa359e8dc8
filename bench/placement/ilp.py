"""Solves small placement problems exactly with CP-SAT.

Reads a JSON list of problems on standard input and prints for each the maximum
weighted flow and, if every instance can be placed, the minimum number of machines (else
null). It shares only the problem with pkg/placement.
"""

import json
import sys

from ortools.sat.python import cp_model


def model(p):
    m = cp_model.CpModel()
    machines, apps = range(len(p["machines"])), p["apps"]
    instances = range(len(p["instances"]))
    x = [[m.new_bool_var(f"x{i}_{k}") for k in machines] for i in instances]
    for i in instances:
        m.add(sum(x[i]) <= 1)
    for k in machines:
        capacity = p["machines"][k]
        for d, most in enumerate(capacity):
            m.add(sum(apps[p["instances"][i]]["demand"][d] * x[i][k] for i in instances) <= most)
        for a, b, most in p["rules"]:
            of_b = sum(x[j][k] for j in instances if p["instances"][j] == b)
            if a == b:
                m.add(of_b <= most)
                continue
            for i in instances:
                if p["instances"][i] == a:
                    m.add(of_b <= most).only_enforce_if(x[i][k])
    return m, x


def solve(m):
    s = cp_model.CpSolver()
    s.parameters.num_workers = 1
    s.parameters.random_seed = 1
    status = s.solve(m)
    if status == cp_model.INFEASIBLE:
        return None
    if status != cp_model.OPTIMAL:
        raise SystemExit(f"not solved: {s.status_name(status)}")
    return round(s.objective_value)


def main():
    out = []
    for p in json.load(sys.stdin):
        m, x = model(p)
        m.maximize(sum(p["apps"][a]["weight"] * sum(x[i]) for i, a in enumerate(p["instances"])))
        value = solve(m)
        m, x = model(p)
        used = [m.new_bool_var(f"u{k}") for k in range(len(p["machines"]))]
        for row in x:
            m.add(sum(row) == 1)
            for k, v in enumerate(row):
                m.add_implication(v, used[k])
        m.minimize(sum(used))
        out.append({"value": value, "machines": solve(m)})
    json.dump(out, sys.stdout)


main()
