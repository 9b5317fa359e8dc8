// Attempts in rows by where they ran or by their task, packed so that none lies on another.

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

// placeOf is the row that a bar belongs to, by place.
function placeOf({ where: o }) {
  return [o.cloud, o.zone || o.region].filter(Boolean).join(' ');
}

const BY = { place: placeOf, task: (b) => b.task.name };

// pack puts bars that are sorted by when they begin into as few lanes as there are at once.
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

// rows are the lanes of all groups, each group's first one with its name.
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

// visible are a lane's bars within a part of time, in pixels. Bars that are too small to be told apart are one.
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
