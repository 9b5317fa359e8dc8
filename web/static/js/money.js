// A job's cost over time: spending, the cost of the same work on demand, and the planned cost.

import { h } from './dom.js';
import { Chart } from './chart.js';
import { HOUR, at, isOver, offer, over, paid, percent, progress, saving, usd } from './format.js';
import { bars } from './lanes.js';
import { Span } from './span.js';

const POINTS = 240;

// costOf is an attempt's cost up to a time. It spreads the total evenly over the attempt: only the total of a finished attempt is known.
export function costOf(b, t) {
  const { attempt: a, to, over } = b;
  const from = at(a.launched);
  if (from === undefined || t <= from) return 0;
  const rate = (a.rateUSD || a.offer?.usdPerHour || 0) * a.nodes;
  const whole = over && a.usd ? a.usd : Math.max(a.usd ?? 0, (rate * (to - from)) / HOUR);
  return to > from ? whole * Math.min((t - from) / (to - from), 1) : whole;
}

// shared lists the machines that tasks share, which their tasks do not pay, with the cost up to a time.
function shared(job, now) {
  return [...job.machines.workers.values()].map((m) => {
    const to = m.to ?? now;
    return { offer: m.offer, cost: (t) => m.usd * Math.min(Math.max((t - m.from) / Math.max(to - m.from, 1), 0), 1) };
  });
}

// onDemand returns each task's share of the job's on-demand cost, by expected run time.
function onDemand(job) {
  const weight = (t) => (t.hours || 1e-3) * t.nodes;
  const sum = job.tasks.reduce((s, t) => s + weight(t), 0);
  return (t) => (job.view.onDemandUSD * weight(t)) / sum;
}

// reached is the share of a task's work that is done after an attempt.
function reached(job, b) {
  if (b.state === 'succeeded') return 1;
  const next = job.attemptsOf(b.task.index)[b.attempt.number];
  if (next) return next.resumed ?? 0;
  return b.over ? b.task.progress ?? 0 : progress(job, b.task);
}

// course returns, at several times, the money spent and the on-demand cost of the work done by then.
export function course(job, now) {
  const all = bars(job, now);
  const from = at(job.view.submitted);
  const to = Math.max(at(job.view.finished) ?? now, from + 1);
  const x = Array.from({ length: POINTS + 1 }, (_, i) => from + ((to - from) * i) / POINTS);
  const share = onDemand(job);
  const spent = x.map(() => 0);
  const same = x.map(() => 0);
  for (const m of shared(job, now)) for (let i = 0; i <= POINTS; i++) spent[i] += m.cost(x[i]);
  for (const b of all) {
    for (let i = 0; i <= POINTS; i++) spent[i] += costOf(b, x[i]);
    // An attempt does its task's work from its resume point to the next attempt's resume point.
    const had = b.attempt.resumed ?? 0;
    const has = Math.max(reached(job, b), had);
    const began = b.started;
    if (began === undefined || has === had) continue;
    for (let i = 0; i <= POINTS; i++) {
      if (x[i] >= began) same[i] += share(b.task) * (has - had) * (b.to > began ? Math.min((x[i] - began) / (b.to - began), 1) : 1);
    }
  }
  return { x, spent, same };
}

// places sums spending by place and market.
export function places(job, now) {
  const sums = new Map();
  const sum = (id, usdNow) => {
    const o = offer(id);
    const key = o ? `${o.cloud} ${o.region}` : id;
    const s = sums.get(key) ?? { place: key, spot: 0, other: 0, lost: 0, data: 0, attempts: 0 };
    s[o?.market === 'spot' ? 'spot' : 'other'] += usdNow;
    sums.set(key, s);
    return s;
  };
  for (const m of shared(job, now)) sum(m.offer, m.cost(now));
  for (const b of bars(job, now)) {
    const usdNow = costOf(b, b.to);
    const s = sum(b.on?.offer ?? b.attempt.offerID, usdNow);
    s.data += b.attempt.egressUSD ?? 0;
    if (['preempted', 'lost', 'failed', 'moved'].includes(b.state)) s.lost += usdNow;
    s.attempts += 1;
  }
  return [...sums.values()].sort((p, q) => q.spot + q.other - p.spot - p.other);
}

export class Money {
  constructor(job) {
    this.job = job;
    this.span = new Span();
    this.chart = new Chart({ label: 'Money over time, US dollars', height: 280, span: this.span, gutter: () => 64, yText: usd });
    this.said = h('p', { class: 'lede' });
    this.table = h('div', { class: 'scroll' });
    this.how = h('p', { class: 'muted sub' }, 'The cost of an attempt is spread evenly over its time. The on-demand cost is the plan’s figure for the whole job, spread over the work done in proportion to each task’s expected hours.');
    this.el = h('div', {}, this.said, this.chart.el, this.how, h('h3', {}, 'Where it went'), this.table);
  }

  close() {
    this.chart.close();
  }

  show() {
    const { job } = this;
    if (!job.view || !this.el.isConnected) return;
    job.ask().then((news) => news && this.show());
    const v = job.view;
    const now = isOver(v) ? at(v.finished) : job.now();
    const { x, spent, same } = course(job, now);
    const plan = job.plans.at(-1);
    const lines = [];
    let end = x.at(-1);
    if (plan && !isOver(v)) {
      const ends = at(plan.at) + plan.hours * HOUR;
      if (v.forecastUSD && ends > now) lines.push({ from: [now, v.spentUSD], to: [ends, v.forecastUSD], colour: '--c1', dash: [4, 4] });
      end = Math.max(end, ends);
    }
    const due = at(v.deadline);
    if (due && due - x[0] < 1.4 * (end - x[0])) end = Math.max(end, due);
    this.span.grow(x[0], end + (end - x[0]) * 0.03);
    const marks = [];
    if (v.plannedUSD) marks.push({ y: v.plannedUSD, colour: '--c3', label: `first plan ${usd(v.plannedUSD)}` });
    if (v.onDemandUSD) marks.push({ y: v.onDemandUSD, colour: '--c2', label: `whole job on demand ${usd(v.onDemandUSD)}` });
    if (v.budgetUSD && v.budgetUSD < 1.6 * Math.max(v.onDemandUSD, v.spentUSD)) marks.push({ y: v.budgetUSD, colour: '--bad', label: `budget ${usd(v.budgetUSD)}` });
    if (due && due <= this.span.to) marks.push({ x: due, colour: '--bad', label: 'deadline' });
    this.chart.el.hidden = this.how.hidden = !v.plannedUSD && !v.spentUSD;
    this.chart.show({ x, series: [{ label: 'Spent', colour: '--c1', fill: true, y: spent }, { label: 'The same work on demand', colour: '--c2', y: same }], marks, lines });
    this.say(v, spent.at(-1), same.at(-1));
    this.sum(now);
  }

  say(v, spent, same) {
    const part = [h('b', {}, paid(v, v.spentUSD || spent)), ' spent'];
    if (same > 0) part.push('; the work done would have cost about ', h('b', {}, usd(same)), ' on demand');
    if (v.forecastUSD) part.push(`; the forecast is ${usd(v.forecastUSD)} in the end`);
    if (v.plannedUSD) part.push(`; the first plan estimated ${usd(v.plannedUSD)}`);
    if (over(v)) part.push(`, so it is ${over(v)}`);
    else if (saving(v) > 0.005) part.push(`, ${percent(saving(v))} below on demand`);
    this.said.replaceChildren(...part, '.');
  }

  sum(now) {
    const list = places(this.job, now);
    const cell = (label, v, cls = 'num') => h('td', { class: cls, data: { label } }, v);
    this.table.replaceChildren(list.length ? h('table', { class: 'grid cards' }, h('caption', { class: 'sr' }, 'Cost by place'),
      h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Place'), ['Attempts', 'Spot', 'Other', 'Moving data', 'On unsuccessful attempts'].map((t) => h('th', { scope: 'col', class: 'num' }, t)))),
      h('tbody', {}, list.map((s) => h('tr', {}, cell('Place', s.place, 'lead'), cell('Attempts', String(s.attempts)), cell('Spot', usd(s.spot)), cell('Other', usd(s.other)),
        cell('Moving data', usd(s.data)), cell('On unsuccessful attempts', usd(s.lost))))))
      : h('p', { class: 'muted' }, isOver(this.job.view) ? 'Nothing was bought.' : 'Nothing has been bought yet.'));
  }
}
