"""HiGHS with the tight formulation: a transport polytope of place pairs on each edge.

x[t,k] is 1 if task t uses candidate k; y[e,p,q] is 1 if edge e leads from place p to place q. The sums of y over q and over p
equal the chosen candidates at p and q, so y is integral if x is, without an integrality constraint. Finish times are
continuous (equation 3).
"""

import time

import highspy
import numpy as np

SCOPE = ("cost", "makespan", "deadline", "budget")


class Builder:
    def __init__(self):
        self.cost, self.upper, self.integral = [], [], []
        self.starts, self.index, self.value, self.low, self.high = [0], [], [], [], []

    def column(self, cost=0.0, upper=highspy.kHighsInf, integral=False):
        self.cost.append(cost)
        self.upper.append(upper)
        self.integral.append(integral)
        return len(self.cost) - 1

    def row(self, entries, low, high):
        for i, x in entries:
            self.index.append(i)
            self.value.append(x)
        self.starts.append(len(self.index))
        self.low.append(low)
        self.high.append(high)

    def model(self):
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.cost), len(self.low)
        lp.col_cost_ = np.array(self.cost)
        lp.col_lower_ = np.zeros(len(self.cost))
        lp.col_upper_ = np.array(self.upper)
        lp.row_lower_, lp.row_upper_ = np.array(self.low), np.array(self.high)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.array(self.starts, dtype=np.int32)
        lp.a_matrix_.index_ = np.array(self.index, dtype=np.int32)
        lp.a_matrix_.value_ = np.array(self.value)
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[i] for i in self.integral]
        return lp


def solve(m, limit):
    b = Builder()
    by_cost = m.objective == "cost"
    x = [[b.column(usd if by_cost else 0.0, 1.0, True) for _, usd, _ in cands] for cands in m.candidates]
    spent = [(x[t][k], c[1]) for t, cands in enumerate(m.candidates) for k, c in enumerate(cands)]
    for t in range(len(x)):
        b.row([(i, 1.0) for i in x[t]], 1.0, 1.0)
    finish = [b.column() for _ in x] if m.timed else None
    incoming = [False] * len(x)
    for u, v, gib in m.edges:
        y = flow(b, m, x, u, v, gib if by_cost else 0.0)
        spent.extend((i, gib * m.usd[p][q]) for (p, q), i in y.items())
        incoming[v] = True
        if m.timed:
            after = [(finish[v], 1.0), (finish[u], -1.0)]
            after += [(x[v][k], -c[2]) for k, c in enumerate(m.candidates[v])]
            after += [(i, -gib * m.hours[p][q]) for (p, q), i in y.items()]
            b.row(after, 0.0, highspy.kHighsInf)
    if m.timed:
        for t, first in enumerate(incoming):
            if not first:
                b.row([(finish[t], 1.0)] + [(x[t][k], -c[2]) for k, c in enumerate(m.candidates[t])], 0.0, highspy.kHighsInf)
        end = b.column(0.0 if by_cost else 1.0, highspy.kHighsInf if m.deadline is None else m.deadline)
        for t in range(len(x)):
            b.row([(end, 1.0), (finish[t], -1.0)], 0.0, highspy.kHighsInf)
    if m.budget is not None:
        b.row(spent, -highspy.kHighsInf, m.budget)

    h = highspy.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("time_limit", float(limit)), ("mip_rel_gap", 1e-7), ("mip_abs_gap", 1e-9)):
        h.setOptionValue(option, value)
    h.passModel(b.model())
    wall, cpu = time.perf_counter(), time.process_time()
    h.run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    done = h.getModelStatus() == highspy.HighsModelStatus.kOptimal
    values = h.getSolution().col_value
    if h.getInfo().primal_solution_status != 2:
        return {"status": "none", "picks": None, "wall": wall, "cpu": cpu}
    picks = [max(range(len(cols)), key=lambda k, cols=cols: values[cols[k]]) for cols in x]
    return {"status": "optimal" if done else "feasible", "picks": picks, "wall": wall, "cpu": cpu}


def flow(b, m, x, u, v, gib):
    """Adds the pairs of places of one edge and returns their columns."""
    y = {(p, q): b.column(gib * m.usd[p][q], 1.0) for p in m.places(u) for q in m.places(v)}
    for p in m.places(u):
        b.row([(y[p, q], 1.0) for q in m.places(v)] + [(x[u][k], -1.0) for k, c in enumerate(m.candidates[u]) if c[0] == p], 0.0, 0.0)
    for q in m.places(v):
        b.row([(y[p, q], 1.0) for p in m.places(u)] + [(x[v][k], -1.0) for k, c in enumerate(m.candidates[v]) if c[0] == q], 0.0, 0.0)
    return y
