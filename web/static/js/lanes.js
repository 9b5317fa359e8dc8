// Attempts in rows by machine, by place or by task, packed so that none overlap.

import { at, offer, percent } from './format.js';

// Machines are the machines that were bought for a job: those of an attempt together.
export class Machines {
  constructor(list = []) {
    this.all = new Map(); // by the attempt that they were bought for
    this.workers = new Map(); // those that tasks share, by their name
    for (const m of list) {
      const id = m.id.split('#')[0];
      const had = this.all.get(id);
      if (had) Object.assign(had, { nodes: had.nodes + 1, usd: had.usd + m.usd, bootUSD: had.bootUSD + m.bootUSD, idleUSD: had.idleUSD + m.idleUSD });
      else this.all.set(id, { ...m, id, nodes: 1, from: at(m.since), upAt: at(m.up), to: at(m.until) });
      if (m.worker) this.workers.set(m.worker, this.all.get(id));
    }
  }

  // of returns the machines of an attempt, if they were bought.
  of(job, index, a) {
    return this.workers.get(a.hosts?.[0]) ?? this.all.get(`${job.view.id}.${index}.${a.number}`);
  }
}

// bars lists all attempts of a job with when they begin and end; launched is when their machines were bought.
export function bars(job, now) {
  const out = [];
  for (const [index, list] of job.attempts) {
    const task = job.tasks[index];
    if (!task) continue;
    for (const a of list) {
      if (!a) continue;
      const from = at(a.admitted) ?? at(a.launched);
      if (from === undefined) continue;
      const over = Boolean(a.ended) || ['succeeded', 'failed', 'cancelled'].includes(job.view.state);
      const on = job.machines.of(job, index, a);
      const to = at(a.ended) ?? (over ? at(job.view.finished) : now);
      out.push({
        task, attempt: a, from, to: Math.max(to ?? now, from), started: at(a.started), over,
        state: a.outcome || (a.started ? 'running' : 'launching'), on, where: offer(on?.offer ?? a.offerID) ?? { cloud: '', region: '', zone: '', type: '', market: '' },
      });
    }
  }
  return out.sort((p, q) => p.from - q.from || p.task.index - q.task.index);
}

// placeOf names a bar's row when rows are places.
function placeOf({ where: o }) {
  return [o.cloud, o.zone || o.region].filter(Boolean).join(' ');
}

const BY = { place: placeOf, task: (b) => b.task.name };

// pack puts bars, sorted by start, into the smallest number of lanes: the maximum that overlap.
export function pack(list) {
  const lanes = [];
  const ends = [];
  for (const b of list) {
    let k = ends.findIndex((e) => e <= b.from);
    if (k < 0) k = lanes.push([]) - 1;
    lanes[k].push(b);
    ends[k] = Math.max(b.to, b.from + 1);
  }
  return lanes;
}

// byMachine returns the lanes of each machine, in the order in which they were bought; those that were bought without a task, too. Attempts
// that got no machine follow.
function byMachine(all, machines) {
  const lists = new Map([...machines.all.values()].sort((p, q) => p.from - q.from).map((m) => [m, []]));
  for (const b of all) {
    if (!lists.has(b.on)) lists.set(b.on, []);
    lists.get(b.on).push(b);
  }
  return [...lists].flatMap(([m, list]) => {
    const name = m ? `${offer(m.offer)?.type}${m.nodes > 1 ? ` × ${m.nodes}` : ''}` : 'none bought';
    return (list.length ? pack(list) : [[]]).map((lane, k) => ({ group: name, first: k === 0, count: list.length, bars: lane, machine: m, used: m ? percent(m.utilisation) : '' }));
  });
}

// rows returns the lanes of all groups; the first lane of a group has its name.
export function rows(all, by, machines) {
  if (by === 'machine') return byMachine(all, machines);
  const groups = new Map();
  for (const b of all) {
    const key = BY[by](b);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(b);
  }
  const order = by === 'place' ? [...groups].sort((a, b) => (a[0] < b[0] ? -1 : 1)) : [...groups].sort((a, b) => a[1][0].task.index - b[1][0].task.index);
  return order.flatMap(([name, list]) => pack(list).map((lane, k) => ({ group: name, first: k === 0, count: list.length, bars: lane })));
}

// visible returns a lane's bars within a time span, in pixels. Bars too small to distinguish are merged.
export function visible(lane, span, width, least = 4) {
  const scale = width / (span.to - span.from);
  const out = [];
  for (const b of lane) {
    if (b.to < span.from || b.from > span.to) continue;
    const x = Math.max((b.from - span.from) * scale, 0);
    const end = Math.min((b.to - span.from) * scale, width);
    const last = out.at(-1);
    if (last && end - x < least && x < last.x + last.w + 1 && (last.many || last.w < 2 * least)) {
      last.many ??= [last.bar];
      last.many.push(b);
      last.w = Math.max(end - last.x, least);
    } else {
      out.push({ bar: b, x: Math.min(x, width - least), w: Math.max(end - x, least) });
    }
  }
  return out;
}
