// The top of a job's page: progress, cost, and the remaining time and budget.

import { h, s, set } from './dom.js';
import { STATES, at, count, hours, isOver, moment, paid, percent, saving, serving, span, tally, unplanned, usd } from './format.js';

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

export class Summary {
  constructor() {
    this.done = tile('Tasks');
    this.cost = tile('Cost');
    this.time = tile('Time');
    this.budget = tile('Budget');
    this.el = h('dl', { class: 'tiles' }, this.done.el, this.cost.el, this.time.el, this.budget.el);
  }

  show(job) {
    const v = job.view;
    const now = isOver(v) ? at(v.finished) : job.now();
    this.showDone(job, v);
    const replicas = serving(job.tasks);
    this.showCost(v, replicas.length > 0);
    this.showTime(v, now, job.plans.at(-1), replicas.length > 0);
    this.showBudget(v);
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

  // showCost compares spending with the plan and with the on-demand cost. A service has no end, so no saving is shown.
  showCost(v, serves) {
    const most = Math.max(v.onDemandUSD, v.spentUSD, v.plannedUSD, 1e-9);
    set(this.cost.value, paid(v));
    const marks = v.plannedUSD > 0 ? [{ at: v.plannedUSD / most, title: `first plan: ${usd(v.plannedUSD)}` }] : [];
    gauge(this.cost.bar, 'Spent, compared with the on-demand cost, in dollars', v.spentUSD, most,
      [{ share: v.spentUSD / most, data: { kind: v.spentUSD > v.onDemandUSD && v.onDemandUSD > 0 ? 'bad' : 'good' } }], marks);
    this.cost.bar.hidden = serves;
    if (!v.onDemandUSD) return set(this.cost.note, unplanned(v));
    if (serves) return set(this.cost.note, `planned ${usd(v.plannedUSD)} · on demand ${usd(v.onDemandUSD)}, including one hour of its services`);
    const less = saving(v) > 0.005 ? ` · ${percent(saving(v))} less` : '';
    set(this.cost.note, `planned ${usd(v.plannedUSD)} · on demand ${usd(v.onDemandUSD)}${less}`);
  }

  showTime(v, now, plan, serves) {
    const began = at(v.submitted);
    const took = Math.max(now - began, 0);
    set(this.time.value, span(took));
    if (!v.deadline) {
      this.time.bar.hidden = true;
      if (serves && !isOver(v)) return set(this.time.note, 'its services run until it is cancelled');
      set(this.time.note, plan && !isOver(v) ? `no deadline · the plan of ${moment(at(plan.at), now)} expects ${hours(plan.hours)} more` : 'no deadline');
      return;
    }
    const due = at(v.deadline);
    const whole = Math.max(due - began, 1);
    const ends = plan ? at(plan.at) + plan.hours * 3600000 : undefined;
    const late = v.late || now > due;
    gauge(this.time.bar, 'Time used of the time to the deadline, in hours', took / 3600000, whole / 3600000,
      [{ share: took / whole, data: { kind: late ? 'bad' : 'plain' } }],
      ends && !isOver(v) ? [{ at: (ends - began) / whole, title: `expected end: ${moment(ends, now)}` }] : []);
    if (isOver(v)) set(this.time.note, late ? `${span(now - due)} after the deadline` : `${span(due - now)} before the deadline`);
    else if (late) set(this.time.note, 'the deadline cannot be met');
    else set(this.time.note, `due ${moment(due, now)}, ${span(due - now)} left${ends > now ? ` · expected end ${moment(ends, now)}` : ''}`);
  }

  showBudget(v) {
    this.budget.el.hidden = !v.budgetUSD;
    if (!v.budgetUSD) return;
    const share = v.spentUSD / v.budgetUSD;
    set(this.budget.value, usd(v.budgetUSD));
    gauge(this.budget.bar, 'Spent of the budget, in dollars', v.spentUSD, v.budgetUSD,
      [{ share, data: { kind: share > 0.9 ? 'bad' : 'plain' } }],
      v.plannedUSD > 0 ? [{ at: v.plannedUSD / v.budgetUSD, title: `first plan: ${usd(v.plannedUSD)}` }] : []);
    set(this.budget.note, `${percent(share)} used · ${usd(Math.max(v.budgetUSD - v.spentUSD, 0))} left`);
  }
}

// legend explains the colours of the drawing and the bars.
export function legend() {
  return h('ul', { class: 'legend', 'aria-label': 'States' }, STATES.map((state) => h('li', { data: { state } },
    s('svg', { viewBox: '0 0 10 10', 'aria-hidden': 'true' }, s('rect', { width: 10, height: 10, rx: 3 })), state)));
}
