// The tasks of a job as a table that can be searched, filtered and sorted.

import { badge, h, icon, set } from './dom.js';
import { STATES, at, count, offer, percent, progress, span, stateOf, usd } from './format.js';

const PAGE = 50; // rows shown at first

// where writes an offer in two lines: the place and the machine.
export function where(task) {
  const o = offer(task.offer);
  if (!o) return h('span', { class: 'muted' }, '–');
  const planned = !task.attempts || task.state === 'queued';
  return h('span', { class: planned ? 'offer muted' : 'offer' },
    h('span', {}, h('b', {}, o.cloud), ` ${o.zone || o.region}`, o.market ? h('span', { class: 'tag', data: { market: o.market } }, o.market) : ''),
    h('span', { class: 'muted' }, `${o.type}${task.nodes > 1 ? ` × ${task.nodes}` : ''}${planned ? ' (planned)' : ''}`));
}

// taken is a task's run time so far.
export function taken(task, now) {
  const began = at(task.started);
  if (began === undefined) return undefined;
  return (at(task.ended) ?? now) - began;
}

const COLUMNS = [
  { key: 'name', label: 'Task', sort: (t) => t.name },
  { key: 'state', label: 'State', sort: (t) => STATES.indexOf(stateOf(t)) },
  { key: 'where', label: 'Where', sort: (t) => t.offer ?? '' },
  { key: 'attempts', label: 'Attempts', sort: (t) => -t.attempts, number: true },
  { key: 'progress', label: 'Progress', sort: (t) => -(t.progress ?? 0), number: true },
  { key: 'time', label: 'Time', sort: (t, job) => -(taken(t, job.now()) ?? -1), number: true },
  { key: 'cost', label: 'Cost', sort: (t, job) => -job.cost(t), number: true },
];

export class Tasks {
  constructor(job, select) {
    this.job = job;
    this.select = select;
    this.only = undefined; // task indexes, if a level is chosen
    this.shown = PAGE;
    this.sorted = undefined;
    this.rows = new Map();
    this.search = h('input', { type: 'search', placeholder: 'Find a task', 'aria-label': 'Find a task', on: { input: () => this.reset() } });
    this.state = h('select', { 'aria-label': 'State', on: { change: () => this.reset() } },
      h('option', { value: '' }, 'All states'), STATES.map((st) => h('option', { value: st }, st)));
    this.chosen = h('button', { type: 'button', class: 'chip', hidden: true, on: { click: () => this.restrict() } });
    this.counted = h('span', { class: 'muted', role: 'status' });
    this.heads = COLUMNS.map((c) => h('th', { scope: 'col', class: c.number ? 'num' : '' },
      h('button', { type: 'button', on: { click: () => this.sort(c) } }, c.label)));
    this.body = h('tbody', {});
    this.more = h('button', { type: 'button', class: 'quiet wide', hidden: true, on: { click: () => { this.shown += 5 * PAGE; this.list(); } } });
    this.el = h('div', {},
      h('div', { class: 'filters' }, this.search, this.state, this.chosen, this.counted),
      h('div', { class: 'scroll' }, h('table', { class: 'grid tasks' }, h('caption', { class: 'sr' }, 'Tasks'), h('thead', {}, h('tr', {}, this.heads)), this.body)),
      this.more);
  }

  // restrict shows the tasks of one level, or all.
  restrict(level, members) {
    this.only = members && new Set(members);
    this.chosen.hidden = !members;
    if (members) set(this.chosen, `Level ${level + 1} ✕`);
    this.reset();
  }

  reset() {
    this.shown = PAGE;
    this.list();
  }

  sort(column) {
    this.sorted = this.sorted?.column === column ? (this.sorted.down ? undefined : { column, down: true }) : { column, down: false };
    this.heads.forEach((th, k) => {
      if (COLUMNS[k] === this.sorted?.column) th.setAttribute('aria-sort', this.sorted.down ? 'descending' : 'ascending');
      else th.removeAttribute('aria-sort');
    });
    this.list();
  }

  // list chooses and orders the rows.
  list() {
    const find = this.search.value.trim().toLowerCase();
    const state = this.state.value;
    let tasks = this.job.tasks.filter((t) => (!this.only || this.only.has(t.index)) && (!state || stateOf(t) === state) &&
      (!find || t.name.toLowerCase().includes(find) || (t.offer ?? '').toLowerCase().includes(find)));
    if (this.sorted) {
      const { column, down } = this.sorted;
      const keys = new Map(tasks.map((t) => [t, column.sort(t, this.job)]));
      const order = (a, b) => (keys.get(a) < keys.get(b) ? -1 : keys.get(a) > keys.get(b) ? 1 : a.index - b.index);
      tasks = tasks.toSorted((a, b) => (down ? order(b, a) : order(a, b)));
    }
    set(this.counted, tasks.length === this.job.tasks.length ? '' : `${tasks.length.toLocaleString('en-US')} of ${count(this.job.tasks.length, 'task')}`);
    const visible = tasks.slice(0, this.shown);
    this.rows.clear();
    for (const t of visible) this.rows.set(t.index, this.row(t));
    this.body.replaceChildren(...[...this.rows.values()].map((r) => r.el));
    if (!visible.length) this.body.append(h('tr', {}, h('td', { colspan: COLUMNS.length, class: 'muted' }, 'No task matches.')));
    this.more.hidden = tasks.length <= this.shown;
    set(this.more, `Show more (${(tasks.length - visible.length).toLocaleString('en-US')} left)`);
    this.mark(this.selected);
  }

  row(task) {
    const open = h('button', { type: 'button', class: 'link', on: { click: () => this.select(task.index) } }, task.name);
    const cells = Object.fromEntries(COLUMNS.map((c) => [c.key, h('td', { class: c.number ? 'num' : '', data: { label: c.label } })]));
    cells.name.append(open);
    const r = { el: h('tr', { data: { row: task.index } }, Object.values(cells)), cells };
    this.fill(r, task);
    return r;
  }

  fill(r, task) {
    const state = stateOf(task);
    if (r.el.dataset.state !== state) {
      r.el.dataset.state = state;
      r.cells.state.replaceChildren(badge(state));
    }
    const key = `${task.offer} ${task.nodes} ${task.state} ${task.attempts}`;
    if (r.key !== key) {
      r.key = key;
      r.cells.where.replaceChildren(where(task));
    }
    set(r.cells.attempts, task.attempts ? String(task.attempts) : '–');
    r.cells.attempts.classList.toggle('warn', task.attempts > 1);
    set(r.cells.progress, task.service ? (task.ready ? 'ready' : 'not ready') : progress(this.job, task) > 0 ? percent(progress(this.job, task)) : '–');
    const took = taken(task, this.job.now());
    set(r.cells.time, took === undefined ? (task.hours && !task.service ? `~${span(task.hours * 3600000)}` : '–') : span(took));
    r.cells.time.classList.toggle('muted', took === undefined);
    set(r.cells.cost, this.job.cost(task) > 0 ? usd(this.job.cost(task)) : '–');
  }

  // show refreshes the visible rows. A task whose state no longer matches the filter stays until the list is rebuilt.
  show(changed) {
    if (!this.rows.size || changed.size === this.job.tasks.length) return this.list();
    for (const [index, r] of this.rows) {
      const task = this.job.tasks[index];
      if (changed.has(index) || task.state === 'running' || task.state === 'launching') this.fill(r, task);
    }
  }

  mark(index) {
    this.selected = index;
    for (const [i, r] of this.rows) r.el.classList.toggle('selected', i === index);
  }
}

// warning is a line that explains a problem.
export function warning(text, state = 'failed') {
  return h('p', { class: 'warning', data: { state } }, icon(state), h('span', {}, text));
}
