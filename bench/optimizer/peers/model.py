"""The optimizer's model (pkg/optimizer) in the form that the peers need."""

import json


class Model:
    """A placement problem.

    candidates[t] is a list of (place, usd, hours); edges a list of (from, to, gib) by task number; usd and hours are
    places x places matrices per GiB.
    """

    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            raw = json.load(f)
        self.objective = raw["objective"]
        self.deadline = raw.get("deadlineHours")
        self.budget = raw.get("budgetUSD")
        self.usd = raw["usdPerGiB"]
        self.hours = raw["hoursPerGiB"]
        number = {t["id"]: i for i, t in enumerate(raw["tasks"])}
        self.candidates = [[(c["place"], c["usd"], c["hours"]) for c in t["candidates"]] for t in raw["tasks"]]
        self.edges = [(number[e["from"]], number[e["to"]], e["gib"]) for e in raw["edges"] or []]

    @property
    def timed(self):
        """Whether finish times matter at all."""
        return self.objective == "makespan" or self.deadline is not None

    def places(self, task):
        """The places that a task can run at, in order."""
        return sorted({c[0] for c in self.candidates[task]})

    def folded(self):
        """Keeps only the cheapest of each task's candidates at one place: if only cost is minimised, no other can matter.

        Returns the kept candidates' numbers, by task.
        """
        kept = []
        for cands in self.candidates:
            best = {}
            for k, (place, usd, _) in enumerate(cands):
                if place not in best or usd < cands[best[place]][1]:
                    best[place] = k
            kept.append([best[p] for p in sorted(best)])
        self.candidates = [[cands[k] for k in ks] for cands, ks in zip(self.candidates, kept)]
        return kept
