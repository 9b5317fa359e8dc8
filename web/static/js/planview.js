// The plan of a job that is not submitted: its figures, and where each task would run.

import { h, s } from './dom.js';
import { hours, offer, percent, serving, usd } from './format.js';
import { runners } from './detail.js';

const ROWS = 200; // tasks shown at first

function tile(label, value, note) {
  return h('div', { class: 'tile' }, h('dt', {}, label), h('dd', { class: 'value' }, value), h('dd', { class: 'note' }, note));
}

// figures are a plan's tiles.
export function figures(p) {
  const less = p.onDemandUSD > 0 ? 1 - p.usd / p.onDemandUSD : 0;
  const reached = p.objective === 'makespan' ? p.hours : p.usd;
  const proof = p.status === 'optimal' ? 'proven optimal' : reached > 0 ? `at most ${percent((reached - p.bound) / reached)} from optimal` : p.status;
  const serves = serving(p.tasks).length;
  const saved = less > 0.005 ? `${percent(less)} below on demand` : 'expected, including data transfer';
  return h('dl', { class: 'tiles' }, tile('Cost', usd(p.usd), serves ? `${saved}, including one hour of its services` : saved),
    serves ? tile('Time', serves === p.tasks.length ? 'no end' : hours(p.hours), 'services run until the job is cancelled') : tile('Expected time', hours(p.hours), p.late ? 'the deadline cannot be met' : p.deadlineHours ? `guaranteed within its deadline of ${hours(p.deadlineHours)}` : 'not guaranteed: it has no deadline'), tile('On demand', usd(p.onDemandUSD), 'the cheapest plan without spot'),
    tile('Proof', p.objective === 'makespan' ? 'fastest' : 'cheapest', `${proof}, in ${Math.max(Math.round(p.millis), 1).toLocaleString('en-US')} ms`));
}

// from shows the source of a run time estimate.
function from(t) {
  if (t.service) return h('span', { class: 'tag', title: 'It runs until the job is cancelled; the plan counts one hour' }, 'service');
  if (!t.time?.from) return '';
  return h('span', { class: 'tag', title: 'Source of the run time estimate' }, t.time.from);
}

// table lists the tasks with their places.
export function table(p) {
  const shown = p.tasks.slice(0, ROWS);
  const cell = (label, cls, ...content) => h('td', { class: cls, data: { label } }, content);
  const name = (t) => (t.runners?.length ? h('details', {}, h('summary', {}, t.name), runners({ runners: t.runners }, p.objective)) : t.name);
  const row = (t) => {
    const o = offer(t.offer);
    return h('tr', {}, cell('Task', 'lead', name(t)),
      cell('Where', '', o ? [h('b', {}, o.cloud), ` ${o.zone || o.region}`, o.market ? h('span', { class: 'tag', data: { market: o.market } }, o.market) : ''] : 'nowhere'),
      cell('Machine', '', o ? `${o.type}${t.nodes > 1 ? ` × ${t.nodes}` : ''}` : ''), cell('Price', 'num', t.usdPerHour ? `${usd(t.usdPerHour)}/h` : '–'),
      cell('Expected time', 'num', t.hours ? hours(t.hours) : '–', ' ', from(t)), cell('Cost', 'num', usd(t.usd)));
  };
  const body = h('tbody', {}, shown.map(row));
  const more = p.tasks.length > ROWS ? h('button', { type: 'button', class: 'quiet wide', on: { click: () => { body.append(...p.tasks.slice(ROWS, ROWS + 2000).map(row)); more.remove(); } } }, `Show more (${(p.tasks.length - ROWS).toLocaleString('en-US')} left)`) : '';
  return h('div', { class: 'scroll' }, h('table', { class: 'grid cards plan-table' }, h('caption', { class: 'sr' }, 'Where each task would run'),
    h('thead', {}, h('tr', {}, ['Task', 'Where', 'Machine'].map((t) => h('th', { scope: 'col' }, t)), ['Price', 'Expected time', 'Cost'].map((t) => h('th', { scope: 'col', class: 'num' }, t)))), body), more);
}

// shares draws the shares of the cost by cloud and market.
export function shares(p) {
  const sums = new Map();
  for (const t of p.tasks) {
    const o = offer(t.offer);
    if (!o) continue;
    const key = `${o.cloud} ${o.market}`;
    sums.set(key, (sums.get(key) ?? 0) + t.usd);
  }
  const all = [...sums].sort((a, b) => b[1] - a[1]);
  const sum = all.reduce((n, [, v]) => n + v, 0) || 1;
  let x = 0;
  const parts = all.map(([, v], i) => {
    const rect = s('rect', { x: (100 * x) / sum, y: 0, width: Math.max((100 * v) / sum - 0.3, 0.1), height: 8 });
    rect.style.setProperty('fill', `var(--c${(i % 8) + 1})`);
    x += v;
    return rect;
  });
  return h('figure', { class: 'shares' }, s('svg', { viewBox: '0 0 100 8', preserveAspectRatio: 'none', 'aria-hidden': 'true' }, parts),
    h('ul', { class: 'keys', 'aria-label': 'Cost by cloud and market' }, all.map(([key, v], i) => {
      const swatch = h('span', { class: 'swatch', 'aria-hidden': 'true' });
      swatch.style.setProperty('--swatch', `var(--c${(i % 8) + 1})`);
      return h('li', {}, swatch, `${key} ${percent(v / sum)}`);
    })));
}
