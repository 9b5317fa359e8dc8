"""SkyPilot's own optimizer on the same catalogue.

usage: sky_optimizer.py DATA HOME. DATA is the folder of the public data; HOME a scratch home directory, whose catalogue is
written first. Each line of standard input is a DAG, {"tasks": [[cpus, accelerator], …], "edges": [[from, to, gib], …], "limit": seconds};
each line of standard output the plan: for every task [cloud, region, instance type, spot], and wall and cpu seconds of
Optimizer.optimize. The clouds are assumed to be enabled and are not contacted.
"""

import contextlib
import csv
import gzip
import json
import os
import pathlib
import signal
import sys
import time

CLOUDS = ("aws", "azure", "gcp", "lambda")


def write_catalogue(data, home):
    """Writes the catalogue, and the list of accelerators derived from it, to the place where SkyPilot reads them."""
    folder = pathlib.Path(home) / ".sky" / "catalogs" / "v8"
    accelerators = {}
    columns = ["InstanceType", "vCPUs", "MemoryGiB", "AcceleratorName", "AcceleratorCount", "GpuInfo", "Price", "SpotPrice", "Region", "AvailabilityZone"]
    for cloud in CLOUDS:
        (folder / cloud).mkdir(parents=True, exist_ok=True)
        with gzip.open(pathlib.Path(data) / "catalog" / f"{cloud}.csv.gz", "rt", encoding="utf-8") as f, \
                open(folder / cloud / "vms.csv", "w", encoding="utf-8") as out:
            rows = csv.DictReader(f)
            extra = [c for c in rows.fieldnames if c not in columns]
            w = csv.DictWriter(out, columns + extra)
            w.writeheader()
            for row in rows:
                w.writerow({c: row.get(c, "") for c in columns + extra})
                if row.get("AcceleratorName"):
                    accelerators.setdefault(row["AcceleratorName"], set()).add(cloud)
    (folder / "common").mkdir(parents=True, exist_ok=True)
    with open(folder / "common" / "accelerators.csv", "w", encoding="utf-8") as f:
        w = csv.writer(f)
        w.writerow(["AcceleratorName", "Clouds"])
        w.writerows([a, sorted(cs)] for a, cs in sorted(accelerators.items()))


def enable(sky):
    """Makes SkyPilot treat the clouds of the catalogue as enabled."""
    import sky.check
    from sky import clouds
    enabled = [clouds.AWS(), clouds.Azure(), clouds.GCP(), clouds.Lambda()]
    sky.check.get_cached_enabled_clouds_or_refresh = lambda *_, **__: enabled
    for c in (clouds.AWS, clouds.Azure, clouds.GCP, clouds.Lambda):
        c.check_credentials = classmethod(lambda *_, **__: (True, None))


def build(sky, ask):
    with sky.Dag() as d:
        tasks = []
        sent = [0.0] * len(ask["tasks"])
        for u, _, gib in ask["edges"]:
            sent[u] = max(sent[u], gib)
        for i, (cpus, accelerator) in enumerate(ask["tasks"]):
            t = sky.Task(name=f"t{i}", run="true")
            t.set_resources(sky.Resources(cpus=f"{cpus}+" if cpus else None, accelerators=accelerator or None, use_spot=False))
            t.set_time_estimator(lambda _: 3600)
            if sent[i]:
                t.set_outputs("CLOUD", estimated_size_gigabytes=sent[i])
            tasks.append(t)
        for u, v, _ in ask["edges"]:
            tasks[u] >> tasks[v]
    return d, tasks


class Late(Exception):
    """The time limit is reached."""


def late(*_):
    raise Late


def main():
    data, home = sys.argv[1:]
    write_catalogue(data, home)
    os.environ.update(HOME=home, SKYPILOT_DISABLE_USAGE_COLLECTION="1")
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import sky
    from sky.optimizer import Optimizer
    enable(sky)
    signal.signal(signal.SIGALRM, late)
    for line in sys.stdin:
        ask = json.loads(line)
        d, tasks = build(sky, ask)
        wall, cpu = time.perf_counter(), cpu_time()
        signal.setitimer(signal.ITIMER_REAL, ask["limit"])
        try:
            Optimizer.optimize(d, minimize=sky.OptimizeTarget.COST, quiet=True)
            plan = [[str(t.best_resources.cloud).lower(), t.best_resources.region, t.best_resources.instance_type, t.best_resources.use_spot] for t in tasks]
        except Late:
            plan = None
            stop_children()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        wall, cpu = time.perf_counter() - wall, cpu_time() - cpu
        out.write(json.dumps({"plan": plan, "wall": wall, "cpu": cpu}) + "\n")
        out.flush()


def stop_children():
    """Ends the solver process that an interrupted optimization leaves running, and waits for it so that its time counts."""
    pid = os.getpid()
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(int(child), signal.SIGKILL)
            os.waitpid(int(child), 0)


def cpu_time():
    """Processor time of this process and of the solver processes that it has waited for."""
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


if __name__ == "__main__":
    main()
