// The page of one job.

import { badge, h, notice, say, set } from './dom.js';
import { JobActions } from './actions.js';
import { Job, follow, parts, path } from './api.js';
import { ago, at, count, isOver, simulated } from './format.js';
import { Graph } from './graph.js';
import { Logs } from './logs.js';
import { Money } from './money.js';
import { TimeTab } from './timetab.js';
import { Summary, legend } from './summary.js';
import { Tasks, warning } from './tasks.js';
import { detail } from './detail.js';
import { plans, story } from './story.js';

const TABS = [['tasks', 'Tasks'], ['timeline', 'Timeline'], ['money', 'Money'], ['story', 'Story'], ['plans', 'Plans'], ['logs', 'Logs']];
const MONEY_EVERY = 5; // seconds between two updates of the money tab of an active job
const STORY_EVERY = 1500; // ms between two requests for the story of an active job

export class JobPage {
  constructor(root, id, tab, { live, fail }) {
    this.root = root;
    this.id = id;
    this.tab = TABS.some(([t]) => t === tab) ? tab : 'tasks';
    this.fail = fail;
    this.job = new Job();
    this.build();
    root.replaceChildren(h('p', { class: 'muted' }, 'Loading…'));
    this.stop = follow(id, {
      update: (u) => this.update(u),
      state: (st) => live(st),
      fail: (err) => fail(err),
    });
    this.clock = setInterval(() => this.tick(), 1000);
  }

  close() {
    this.stop();
    clearInterval(this.clock);
    clearTimeout(this.later);
    this.logs.close();
    this.graph.close();
    this.time.close();
    this.money.close();
  }

  build() {
    this.title = h('h1', {});
    this.state = h('span', {});
    this.simulated = h('span', { class: 'badge', data: { simulated: '' } });
    this.actions = new JobActions();
    this.sub = h('p', { class: 'muted sub' });
    this.reason = h('div', {});
    this.summary = new Summary();
    this.graph = new Graph({ select: (i) => this.select(i), selectLevel: (level, members) => this.level(level, members) });
    this.side = h('div', { class: 'side' });
    this.tasks = new Tasks(this.job, (i) => this.select(i));
    this.logs = new Logs(this.job);
    this.time = new TimeTab(this.job, { task: (i) => this.open(i), log: (i, attempt) => this.showLog(i, attempt) });
    this.money = new Money(this.job);
    this.pane = { tasks: this.tasks.el, timeline: this.time.el, money: this.money.el, story: h('div', {}), plans: h('div', {}), logs: this.logs.el };
    this.tabs = TABS.map(([key, label], k) => h('button', {
      type: 'button', role: 'tab', id: `tab-${key}`, 'aria-controls': 'pane', on: { click: () => this.show(key), keydown: (e) => this.turn(e, k) },
    }, label));
    this.panel = h('div', { role: 'tabpanel', id: 'pane', class: 'pane' });
    this.page = h('div', {},
      h('div', { class: 'title' }, this.title, this.state, this.simulated, this.actions.el), this.sub, this.reason, this.summary.el,
      h('section', { class: 'card', 'aria-label': 'DAG' }, h('h2', { class: 'sr' }, 'Tasks and their dependencies'), h('div', { class: 'head' }, legend(), this.graph.tools), h('div', { class: 'drawing' }, this.graph.svg, this.side)),
      h('section', { class: 'card', 'aria-label': 'About the job' }, h('h2', { class: 'sr' }, 'About the job'), h('div', { class: 'tabs', role: 'tablist', 'aria-label': 'About the job' }, this.tabs), this.panel));
  }

  // turn moves between tabs with the arrow keys.
  turn(e, k) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!by) return;
    e.preventDefault();
    const next = (k + by + TABS.length) % TABS.length;
    this.show(TABS[next][0]);
    this.tabs[next].focus();
  }

  update(u) {
    const first = !this.page.isConnected;
    const before = this.job.view;
    const changed = this.job.merge(u);
    if (this.job.tasks.length < u.job.tasks) return; // the other tasks of a large job follow
    if (first) {
      this.root.replaceChildren(this.page);
      document.title = `${u.job.name} – Tradewind`;
    }
    this.head();
    this.graph.show(this.job.tasks, changed);
    this.tasks.show(changed);
    this.pending = true;
    if (this.tab === 'timeline') this.time.show();
    if (first) this.show(this.tab);
    else this.refreshStory();
    if (this.tab === 'logs') this.logs.update();
    if (this.selected !== undefined && changed.has(this.selected)) this.panelFor(this.selected);
    if (before && (before.state !== u.job.state || before.succeeded !== u.job.succeeded)) {
      say(`${u.job.name} is ${u.job.state}, ${u.job.succeeded} of ${count(u.job.tasks, 'task')} done`);
    }
  }

  // tick updates times and costs between two updates of the stream.
  tick() {
    if (!this.job.view || isOver(this.job.view) || document.hidden) return;
    this.head();
    if (this.tab === 'tasks') this.tasks.show(new Set());
    if (this.tab === 'timeline') this.time.show();
    this.ticked = (this.ticked ?? 0) + 1;
    if (this.tab === 'money' && this.ticked % MONEY_EVERY === 0) this.money.show();
  }

  head() {
    const v = this.job.view;
    set(this.title, v.name);
    set(this.simulated, simulated(v));
    this.simulated.hidden = !v.simulated;
    if (this.state.dataset.state !== v.state) {
      this.state.dataset.state = v.state;
      this.state.replaceChildren(badge(v.state));
    }
    const now = this.job.now();
    set(this.sub, [v.id, `queue ${v.queue}`, `minimises ${v.objective}`, `submitted ${ago(at(v.submitted), now)}`, v.source ? `from ${v.source}` : ''].filter(Boolean).join(' · '));
    const why = v.reason || (v.late && !isOver(v) ? 'The deadline can no longer be met: the fastest plan is used.' : '');
    if (this.why !== why) {
      this.why = why;
      this.reason.replaceChildren(why ? warning(why, v.state === 'waiting' || v.state === 'cancelled' ? 'queued' : 'failed') : '');
    }
    this.actions.show(v, this.job.tasks);
    this.summary.show(this.job);
  }

  // select opens the panel of a task.
  select(index) {
    this.selected = this.selected === index ? undefined : index;
    this.graph.mark(this.selected);
    this.tasks.mark(this.selected);
    if (this.selected === undefined) this.side.replaceChildren();
    else this.panelFor(index);
    if (this.graph.untouched) this.graph.fit();
  }

  panelFor(index) {
    this.side.replaceChildren(detail(this.job, index, {
      close: () => this.select(index),
      log: (i) => this.showLog(i),
      why: this.data?.choices?.find((c) => c.task === this.job.tasks[index].name),
    }));
    if (!this.data) this.refreshStory(true);
  }

  // open shows the panel of a task and scrolls to its box.
  open(index) {
    if (this.selected !== index) this.select(index);
    this.side.scrollIntoView({ block: 'center' });
    this.side.querySelector('button')?.focus({ preventScroll: true });
  }

  showLog(index, attempt) {
    [this.logIndex, this.logAttempt] = [index, attempt];
    this.show('logs');
    this.panel.scrollIntoView({ block: 'nearest' });
  }

  // level lists the tasks of a level.
  level(level, members) {
    this.show('tasks');
    this.tasks.restrict(level, members);
    this.panel.scrollIntoView({ block: 'nearest' });
  }

  show(tab) {
    if (this.tab === 'logs' && tab !== 'logs') this.logs.close();
    this.tab = tab;
    history.replaceState(null, '', `#/jobs/${encodeURIComponent(this.id)}${tab === 'tasks' ? '' : `/${tab}`}`);
    this.tabs.forEach((el, k) => {
      const chosen = TABS[k][0] === tab;
      el.setAttribute('aria-selected', String(chosen));
      el.setAttribute('tabindex', chosen ? '0' : '-1');
    });
    this.panel.setAttribute('aria-labelledby', `tab-${tab}`);
    this.panel.replaceChildren(this.pane[tab]);
    if (tab === 'tasks') this.tasks.list();
    if (tab === 'timeline') this.time.show();
    if (tab === 'money') this.money.show();
    if (tab === 'logs') this.logs.show(this.logIndex, this.logAttempt);
    this.logIndex = this.logAttempt = undefined;
    this.refreshStory();
  }

  // refreshStory loads the story if it is visible and the job has changed since.
  refreshStory(always) {
    const wanted = always || this.tab === 'story' || this.tab === 'plans';
    if (!wanted || !this.pending || this.later) return;
    const wait = this.data ? STORY_EVERY : 0;
    this.later = setTimeout(async () => {
      this.pending = false;
      try {
        this.data = await parts(`${path('jobs', this.id)}/explain`, ['entries', 'choices']);
        this.data.entries.sort((a, b) => at(a.at) - at(b.at));
        const open = [...this.pane.plans.querySelectorAll('details[open] b')].map((b) => b.textContent);
        this.pane.story.replaceChildren(story(this.data, this.job.now()));
        this.pane.plans.replaceChildren(plans(this.job.plans, this.data.choices, this.job.view, this.job.now()));
        for (const d of this.pane.plans.querySelectorAll('details')) d.open = open.includes(d.querySelector('b').textContent);
        if (this.selected !== undefined) this.panelFor(this.selected);
      } catch (err) {
        this.pane.story.replaceChildren(notice('The story cannot be read', h('p', {}, err.message)));
      }
      this.later = undefined;
      if (this.pending) this.refreshStory();
    }, wait);
  }
}
