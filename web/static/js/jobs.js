// The list of all jobs.

import { badge, code, h, set } from './dom.js';
import { get } from './api.js';
import { ago, at, count, isOver, moment, paid, percent, saving, simulated, span, usd } from './format.js';

const EVERY = 2000; // ms

export class JobsPage {
  constructor(root, _id, _tab, { live, fail }) {
    this.root = root;
    this.live = live;
    this.fail = fail;
    this.rows = new Map();
    this.body = h('tbody', {});
    this.counted = h('p', { class: 'muted sub' });
    this.page = h('div', {}, h('div', { class: 'title' }, h('h1', {}, 'Jobs'), h('a', { class: 'solid after', href: '#/plan' }, 'Plan a job')), this.counted,
      h('section', { class: 'card flush' }, h('table', { class: 'grid cards', data: { jobs: '' } }, h('caption', { class: 'sr' }, 'Jobs, newest first'),
        h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Job'), h('th', { scope: 'col' }, 'State'), h('th', { scope: 'col' }, 'Tasks'),
          ['Cost', 'On demand', 'Time', 'Deadline'].map((t) => h('th', { scope: 'col', class: 'num' }, t)), h('th', { scope: 'col' }, 'Submitted'))), this.body)));
    root.replaceChildren(h('p', { class: 'muted' }, 'Loading…'));
    document.title = 'Jobs – Tradewind';
    this.load();
  }

  close() {
    clearTimeout(this.timer);
    this.closed = true;
  }

  async load() {
    try {
      if (!document.hidden || !this.loaded) this.show(await get('/v1/jobs?limit=200'));
      this.loaded = true;
      if (!this.closed) this.live('live');
    } catch (err) {
      if (this.closed) return;
      if (err.status || !this.loaded) return this.fail(err);
      this.live('lost');
    }
    if (!this.closed) this.timer = setTimeout(() => this.load(), EVERY);
  }

  show({ jobs, now }) {
    if (this.closed) return;
    if (!jobs.length) {
      if (!this.empty) this.root.replaceChildren(this.empty = empty());
      return;
    }
    this.empty = undefined;
    if (!this.page.isConnected) this.root.replaceChildren(this.page);
    const active = jobs.filter((j) => !isOver(j)).length;
    set(this.counted, `${count(jobs.length, 'job')}${active ? `, ${active} active` : ''}`);
    const old = this.rows;
    this.rows = new Map();
    for (const j of jobs) this.rows.set(j.id, this.fill(old.get(j.id) ?? row(j), j, Date.parse(now)));
    const wanted = [...this.rows.values()].map((r) => r.el);
    if (wanted.length !== this.body.children.length || wanted.some((el, k) => el !== this.body.children[k])) this.body.replaceChildren(...wanted);
  }

  fill(r, j, now) {
    if (r.el.dataset.state !== j.state) {
      r.el.dataset.state = j.state;
      r.state.replaceChildren(badge(j.state));
    }
    r.state.title = j.reason ?? '';
    r.bar.style.setProperty('width', `${(100 * j.succeeded) / j.tasks}%`);
    set(r.done, `${j.succeeded.toLocaleString('en-US')} / ${j.tasks.toLocaleString('en-US')}`);
    set(r.cost, paid(j));
    r.cost.title = simulated(j);
    set(r.onDemand, j.onDemandUSD ? `${usd(j.onDemandUSD)}${isOver(j) && saving(j) > 0.005 ? ` (−${percent(saving(j))})` : ''}` : '–');
    const end = isOver(j) ? at(j.finished) : now;
    set(r.time, span(Math.max(end - at(j.submitted), 0)));
    const due = at(j.deadline);
    set(r.deadline, due === undefined ? '–' : isOver(j) ? (j.late ? 'missed' : j.state === 'succeeded' ? 'met' : '–') : j.late ? 'cannot be met' : `${span(Math.max(due - now, 0))} left`);
    r.deadline.classList.toggle('warn', Boolean(j.late));
    set(r.submitted, Math.abs(now - at(j.submitted)) < 86400000 ? ago(at(j.submitted), now) : moment(at(j.submitted), now));
    return r;
  }
}

function row(j) {
  const cell = (label, className, ...content) => h('td', { class: className, data: { label } }, content);
  const bar = h('span', { class: 'part', data: { state: 'succeeded' } });
  const done = h('span', { class: 'tally' });
  const r = {
    bar, done, state: cell('State'), cost: cell('Cost', 'num'), onDemand: cell('On demand', 'num muted'), time: cell('Time', 'num'),
    deadline: cell('Deadline', 'num'), submitted: cell('Submitted', 'muted'),
  };
  r.el = h('tr', { data: { job: j.id } },
    cell('', 'lead', h('a', { href: `#/jobs/${encodeURIComponent(j.id)}` }, j.name), h('span', { class: 'muted id' }, `${j.id} · ${j.queue}`)),
    r.state, cell('Tasks', '', h('span', { class: 'with-meter' }, h('span', { class: 'meter', 'aria-hidden': 'true' }, bar), done)),
    r.cost, r.onDemand, r.time, r.deadline, r.submitted);
  return r;
}

// empty explains how to submit the first job.
function empty() {
  return h('section', { class: 'card notice first', data: { empty: '' } },
    h('h1', {}, 'No jobs yet'),
    h('p', {}, 'Write a job file that lists the tasks with their resources and dependencies, and submit it. Tradewind chooses a place for each task, buys the machines, and moves the work when a place has no capacity.'),
    h('p', {}, 'A first job, in a terminal:'),
    code('tradewind run -- echo hello'),
    h('p', {}, 'Or here: ', h('a', { href: '#/plan' }, 'plan a job'), ' and submit it. Programs use the ', h('a', { href: '/openapi.json' }, 'API'), '.'),
    h('p', { class: 'muted' }, 'SkyPilot YAML, WfCommons JSON and Pegasus DAX files work unchanged. New jobs appear here automatically.'));
}
