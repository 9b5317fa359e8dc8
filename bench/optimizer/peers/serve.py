"""Solves models with one peer, for bench/optimizer.

usage: serve.py PEER. Each line of standard input is {"model": path, "limit": seconds, "repeat": n}; each line of standard
output the answer: status (optimal, feasible, none), picks, wall and cpu (seconds of solving without building, the minimum of
the repeats).
"""

import contextlib
import importlib
import json
import os
import sys

from model import Model


def main():
    peer = importlib.import_module(sys.argv[1])
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps the solver's own output out of the answers
    for line in sys.stdin:
        ask = json.loads(line)
        best, spent = None, 0.0
        for _ in range(ask["repeat"]):
            answer = peer.solve(Model(ask["model"]), ask["limit"])
            spent += answer["wall"] or 0.0
            if best is None or (answer["cpu"] or 0) < (best["cpu"] or 0):
                best = answer
            if spent > 2.0:
                break
        out.write(json.dumps(best) + "\n")
        out.flush()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
