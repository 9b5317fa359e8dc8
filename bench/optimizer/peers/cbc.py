"""CBC with the formulation of the paper (equations 1 and 3's linearisation), as SkyPilot poses it.

One binary for each candidate of each task, and one for each pair of candidates at the ends of each edge. The binary is the
one that PuLP ships. It runs on an MPS file, and the time is CBC's own figure for the time after reading it.
"""

import os
import re
import subprocess
import tempfile

import pulp

SCOPE = ("cost",)


class Program:
    """A binary program, by rows of equations."""

    def __init__(self):
        self.costs, self.entries, self.right = [], [], []

    def row(self, right):
        self.right.append(right)
        return len(self.right) - 1

    def column(self, cost, *entries):
        self.costs.append(cost)
        self.entries.append(list(entries))
        return len(self.costs) - 1

    def write(self, f):
        """Fixed MPS, as PuLP writes it."""
        f.write("NAME          MODEL\nROWS\n N  OBJ\n")
        f.writelines(f" E  R{i:07d}\n" for i in range(len(self.right)))
        f.write("COLUMNS\n    MARK      'MARKER'                 'INTORG'\n")
        for c, entries in enumerate(self.entries):
            f.writelines(f"    X{c:07d}  R{r:07d}  {value: .12e}\n" for r, value in entries)
            f.write(f"    X{c:07d}  OBJ       {self.costs[c]: .12e}\n")
        f.write("    MARK      'MARKER'                 'INTEND'\nRHS\n")
        f.writelines(f"    RHS       R{r:07d}  {x: .12e}\n" for r, x in enumerate(self.right) if x)
        f.write("BOUNDS\n")
        f.writelines(f" UP BND       X{c:07d}  {1: .12e}\n" for c in range(len(self.costs)))
        f.write("ENDATA\n")


def build(m):
    b, x = Program(), []
    for cands in m.candidates:
        one = b.row(1.0)
        x.append([b.column(usd, (one, 1.0)) for _, usd, _ in cands])
    for u, v, gib in m.edges:
        rows = [[b.row(0.0) for _ in m.candidates[t]] for t in (u, v)]
        for t, here in zip((u, v), rows):
            for col, row in zip(x[t], here):
                b.entries[col].append((row, -1.0))
        for p, source in zip(m.candidates[u], rows[0]):
            for q, target in zip(m.candidates[v], rows[1]):
                b.column(gib * m.usd[p[0]][q[0]], (source, 1.0), (target, 1.0))
    return b, x


def solve(m, limit):
    program, x = build(m)
    with tempfile.TemporaryDirectory() as folder:
        model, answer = os.path.join(folder, "m.mps"), os.path.join(folder, "s.txt")
        with open(model, "w", encoding="ascii") as f:
            program.write(f)
        command = [pulp.PULP_CBC_CMD().path, model, "-sec", str(limit), "-solve", "-solution", answer]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        with open(answer, encoding="ascii") as f:
            status, picks = read_solution(f, x)
    cpu = re.findall(r"^Time \(CPU seconds\):\s+([\d.]+)", out, re.M)
    wall = re.findall(r"^Time \(Wallclock seconds\):\s+([\d.]+)", out, re.M)
    if not cpu:  # solved before the search: CBC prints only the total, in hundredths of a second
        cpu = re.findall(r"^Total time \(CPU seconds\):\s+([\d.]+)", out, re.M)
        wall = re.findall(r"\(Wallclock seconds\):\s+([\d.]+)", out, re.M)
    return {"status": status, "picks": picks, "wall": float(wall[-1]), "cpu": float(cpu[-1])}


def read_solution(f, x):
    optimal = f.readline().startswith("Optimal")
    taken = set()
    for line in f:
        fields = line.replace("**", " ").split()
        if float(fields[2]) > 0.5:
            taken.add(int(fields[1][1:]))
    picks = [next((k for k, col in enumerate(row) if col in taken), None) for row in x]
    if None in picks:
        return "none", None
    return "optimal" if optimal else "feasible", picks
