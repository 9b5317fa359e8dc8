// Attempts in rows by place or by task, packed so that none overlap.

import { at, offer } from './format.js';

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
      const to = at(a.ended) ?? (over ? at(job.view.finished) : now);
      out.push({
        task, attempt: a, from, to: Math.max(to ?? now, from), started: at(a.started), over,
        state: a.outcome || (a.started ? 'running' : 'launching'), where: offer(a.offerID) ?? { cloud: '', region: '', zone: '', type: '', market: '' },
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

// rows returns the lanes of all groups; the first lane of a group has its name.
export function rows(all, by) {
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
