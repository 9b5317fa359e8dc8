// The top of a job's page: progress, cost, and the remaining time and budget.

import { h, icon, set } from './dom.js';
import { STATES, HOUR, at, count, hours, isOver, moment, over, paid, percent, saving, serving, span, tally, unplanned, usd } from './format.js';

// tile is a figure with a bar and a note below it.
function tile(label) {
  const value = h('dd', { class: 'value' });
  const bar = h('div', { class: 'meter' });
  const note = h('dd', { class: 'note' });
  return { el: h('div', { class: 'tile' }, h('dt', {}, label), value, h('dd', { class: 'bar' }, bar), note), value, bar, note };
}

// gauge draws shares of a whole, and marks on it.
function gauge(bar, label, value, most, parts, marks = []) {
  bar.setAttribute('role', 'meter');
  bar.setAttribute('aria-label', label);
  bar.setAttribute('aria-valuemin', '0');
  bar.setAttribute('aria-valuemax', String(most));
  bar.setAttribute('aria-valuenow', String(Math.min(value, most)));
  const pieces = parts.filter((p) => p.share > 0).map((p) => {
    const el = h('span', { class: 'part', data: p.data });
    el.classList.toggle('rest', Boolean(p.rest));
    el.style.setProperty('width', `${Math.min(100 * p.share, 100)}%`);
    return el;
  });
  const ticks = marks.map((m) => {
    const el = h('span', { class: 'mark', title: m.title });
    el.style.setProperty('left', `${Math.min(100 * m.at, 100)}%`);
    return el;
  });
  bar.replaceChildren(...pieces, ...ticks);
}

// notes writes the lines below a figure; one with over set is a warning.
function notes(el, ...lines) {
  const shown = lines.filter(Boolean).map((l) => (l.over ? l : { text: l }));
  const text = shown.map((l) => l.text).join('\n');
  if (text === el.told) return;
  el.told = text;
  el.replaceChildren(...shown.map((l) => h('span', { class: l.over ? 'over' : '' }, l.text)));
}

export class Summary {
  constructor() {
    this.done = tile('Tasks');
    this.cost = tile('Cost');
    this.time = tile('Time');
    this.el = h('dl', { class: 'tiles' }, this.done.el, this.cost.el, this.time.el);
  }

  show(job) {
    const v = job.view;
    const now = isOver(v) ? at(v.finished) : job.now();
    this.showDone(job, v);
    const replicas = serving(job.tasks);
    this.showCost(v, replicas.length > 0);
    this.showTime(v, now, job.plans.at(-1), replicas.length > 0);
  }

  showDone(job, v) {
    const counts = tally(job.tasks);
    const replicas = serving(job.tasks);
    const ready = replicas.filter((t) => t.ready).length;
    const alone = replicas.length === v.tasks;
    // The job's own count may differ briefly from its tasks': the card uses only one of them.
    const done = alone ? ready : job.tasks.length === v.tasks ? counts.succeeded ?? 0 : v.succeeded;
    set(this.done.value, `${done.toLocaleString('en-US')} of ${v.tasks.toLocaleString('en-US')}${alone ? ' ready' : ''}`);
    gauge(this.done.bar, alone ? 'Replicas ready' : 'Tasks done', done, v.tasks,
      STATES.filter((st) => st !== 'waiting').map((state) => ({ share: (counts[state] ?? 0) / v.tasks, data: { state } })));
    const told = STATES.filter((st) => counts[st]).map((st) => `${counts[st].toLocaleString('en-US')} ${st}`);
    if (replicas.length && !alone) told.push(`${ready} of ${count(replicas.length, 'replica')} ready`);
    set(this.done.note, told.join(' · '));
  }

  // showCost compares what was spent and the forecast with the plan and the budget. A service has no end, so it has no forecast.
  showCost(v, serves) {
    const ends = Math.max(v.forecastUSD ?? 0, v.spentUSD);
    const above = serves ? '' : over(v);
    const most = Math.max(ends, v.plannedUSD, v.budgetUSD ?? 0);
    set(this.cost.value, `${paid(v)} spent`);
    this.cost.bar.hidden = serves || !most;
    const mark = (usdAt, name) => (usdAt > 0 ? [{ at: usdAt / (most || 1), title: `${name}: ${usd(usdAt)}` }] : []);
    if (most) {
      const kind = above ? 'over' : 'good';
      gauge(this.cost.bar, 'Spent, in dollars', v.spentUSD, most, [{ share: v.spentUSD / most, data: { kind } }, { share: (ends - v.spentUSD) / most, rest: true, data: { kind } }],
        [...mark(v.plannedUSD, 'first plan'), ...mark(v.budgetUSD, 'budget')]);
    }
    if (!v.onDemandUSD) return notes(this.cost.note, unplanned(v), v.budgetUSD && `budget ${usd(v.budgetUSD)}`);
    const less = saving(v) > 0.005 && !serves ? `${percent(saving(v))} less than on demand, ` : 'on demand ';
    notes(this.cost.note, above && { over: true, text: above }, v.forecastUSD && `forecast ${usd(v.forecastUSD)} in the end`, v.budgetUSD && `budget ${usd(v.budgetUSD)}, ${percent(v.spentUSD / v.budgetUSD)} used`,
      `planned ${usd(v.plannedUSD)}`, `${less}${usd(v.onDemandUSD)}${serves ? ', including one hour of its services' : ''}`);
  }

  // showTime shows the expected end, and the deadline, which a plan guarantees as long as it can be met.
  showTime(v, now, plan, serves) {
    const began = at(v.submitted);
    const took = Math.max(now - began, 0);
    const due = at(v.deadline);
    const ends = plan && !isOver(v) && !serves ? at(plan.at) + plan.hours * HOUR : undefined;
    set(this.time.value, span(took));
    const late = v.late || now > due;
    const expected = ends === undefined ? '' : ends > now ? `expected end ${moment(ends, now)}, in ${span(ends - now)}` : `expected end was ${moment(ends, now)}`;
    this.time.bar.hidden = !due;
    if (!due) return notes(this.time.note, serves && !isOver(v) ? 'its services run until it is cancelled' : expected, 'no deadline: nothing is guaranteed');
    const whole = Math.max(due - began, 1);
    gauge(this.time.bar, 'Time used of the time to the deadline, in hours', took / HOUR, whole / HOUR, [{ share: took / whole, data: { kind: late ? 'bad' : 'plain' } }],
      ends ? [{ at: (ends - began) / whole, title: `expected end: ${moment(ends, now)}` }] : []);
    if (isOver(v)) return notes(this.time.note, late ? `${span(now - due)} after the deadline` : `${span(due - now)} before the deadline`);
    notes(this.time.note, expected, late ? { over: true, text: `the deadline, ${moment(due, now)}, cannot be met` } : `guaranteed by the deadline ${moment(due, now)}, in ${span(due - now)}`);
  }
}

// legend explains the colours and signs of the states.
export function legend() {
  return h('ul', { class: 'legend', 'aria-label': 'States' }, STATES.map((state) => h('li', { data: { state } },
    icon(state), state)));
}
