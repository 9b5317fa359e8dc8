// The page of one job.

import { badge, h, notice, say, set } from './dom.js';
import { JobActions } from './actions.js';
import { Job, follow, parts, path } from './api.js';
import { ago, at, count, culprit, isOver, simulated } from './format.js';
import { Graph } from './graph.js';
import { Logs } from './logs.js';
import { Money } from './money.js';
import { TimeTab } from './timetab.js';
import { Summary, legend } from './summary.js';
import { Tasks, warning } from './tasks.js';
import { detail } from './detail.js';
import { plans, story } from './story.js';

const TABS = [['tasks', 'Tasks'], ['timeline', 'Timeline'], ['money', 'Money'], ['story', 'Story'], ['plans', 'Plans'], ['logs', 'Logs']];
const FOLDED = 'tradewind.graph.folded'; // in the browser's storage
const MONEY_EVERY = 5; // seconds between two updates of the money tab of an active job
const STORY_EVERY = 1500; // ms between two requests for the story of an active job

export class JobPage {
  // view is the part of the address after the job: a tab and, in it, a task and the number of an attempt.
  constructor(root, id, view, { live, fail }) {
    this.root = root;
    this.id = id;
    this.wanted = view;
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
    this.logs = new Logs(this.job, (...shown) => this.note('logs', ...shown));
    this.time = new TimeTab(this.job, {
      task: (i) => this.go('tasks', i), log: (i, attempt) => this.go('logs', i, attempt), picked: (...shown) => this.note('timeline', ...shown),
    });
    this.money = new Money(this.job);
    const card = (title, el) => h('section', { class: 'card' }, h('h2', { class: 'sr' }, title), el);
    const shut = localStorage.getItem(FOLDED);
    this.drawing = h('details', { open: !shut, on: { toggle: () => (this.drawing.open ? localStorage.removeItem(FOLDED) : localStorage.setItem(FOLDED, 'yes')) } },
      h('summary', {}, h('h2', {}, 'Graph')), h('div', { class: 'head' }, legend(), this.graph.tools), this.graph.svg);
    this.story = h('div', {});
    this.plans = h('div', {});
    this.pane = {
      tasks: h('div', {}, this.summary.el, h('section', { class: 'card drawing', 'aria-label': 'DAG' }, this.drawing, this.side), card('Tasks', this.tasks.el)),
      timeline: card('Timeline', this.time.el), money: card('Money', this.money.el), story: card('Story', this.story), plans: card('Plans', this.plans), logs: card('Logs', this.logs.el),
    };
    this.tabs = TABS.map(([key, label], k) => h('a', { role: 'tab', id: `tab-${key}`, href: this.address(key), 'aria-controls': 'pane', on: { keydown: (e) => this.turn(e, k) } }, label));
    this.panel = h('div', { role: 'tabpanel', id: 'pane', class: 'pane' });
    this.page = h('div', {},
      h('div', { class: 'title' }, this.title, this.state, this.simulated, this.actions.el), this.sub, this.reason,
      h('div', { class: 'tabs', role: 'tablist', 'aria-label': 'About the job' }, this.tabs), this.panel);
  }

  // turn moves between tabs with the arrow keys; a space opens one.
  turn(e, k) {
    const by = { ArrowRight: 1, ArrowLeft: -1, ' ': 0 }[e.key];
    if (by === undefined) return;
    e.preventDefault();
    const next = this.tabs.at((k + by) % TABS.length);
    next.focus();
    next.click();
  }

  update(u) {
    const first = !this.page.isConnected;
    const before = this.job.view;
    const changed = this.job.merge(u);
    if (this.job.tasks.length < u.job.tasks) return; // the other tasks of a large job follow
    this.pending = true;
    this.head();
    if (first) {
      this.root.replaceChildren(this.page);
      document.title = `${u.job.name} – Tradewind`;
      this.open(...this.wanted);
    }
    this.graph.show(this.job, changed);
    this.tasks.show(changed);
    if (this.tab === 'timeline') this.time.show();
    if (!first) this.refreshStory();
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
    if (this.tab === 'tasks') {
      this.tasks.show(new Set());
      this.graph.show(this.job, new Set(this.job.tasks.filter((t) => t.state === 'running').map((t) => t.index)));
    }
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

  // address is the address of a tab and, in it, of a task and an attempt.
  address(tab, index, attempt) {
    const view = [tab, this.job.tasks[index]?.name, attempt].filter(Boolean);
    return `#/jobs/${[this.id, ...view].map(encodeURIComponent).join('/')}`;
  }

  go(...view) {
    location.hash = this.address(...view);
  }

  // note changes the address to what is shown, so that a reload shows it again.
  note(...view) {
    history.replaceState(null, '', this.address(...view));
  }

  // open shows the view of an address. Without a tab, a failed job shows the log of the task that failed.
  open(tab, name, attempt) {
    this.wanted = [tab, name, attempt];
    if (!this.page.isConnected) return; // shown when the job has arrived
    const broken = tab || this.job.view.state !== 'failed' ? undefined : culprit(this.job);
    const index = broken ?? this.job.tasks.find((t) => t.name === name)?.index;
    this.show(broken !== undefined ? 'logs' : this.pane[tab] ? tab : 'tasks');
    if (this.tab === 'tasks' && index !== this.selected) this.select(index ?? this.selected);
    if (this.tab === 'timeline') this.time.choose(index, Number(attempt));
    if (this.tab === 'logs') this.logs.show(index, Number(attempt));
  }

  // select opens the panel of a task, or closes it.
  select(index) {
    this.selected = this.selected === index ? undefined : index;
    this.graph.mark(this.selected);
    this.tasks.mark(this.selected);
    if (this.selected === undefined) this.side.replaceChildren();
    else this.panelFor(index);
    if (this.graph.untouched) this.graph.fit();
    this.note('tasks', this.selected);
  }

  panelFor(index) {
    this.side.replaceChildren(detail(this.job, index, {
      close: () => this.select(index),
      log: (i) => this.go('logs', i),
      why: this.data?.choices?.find((c) => c.task === this.job.tasks[index].name),
    }));
    if (!this.data) this.refreshStory(true);
  }

  // level lists the tasks of a level.
  level(level, members) {
    this.tasks.restrict(level, members);
    this.tasks.el.scrollIntoView({ block: 'nearest' });
  }

  show(tab) {
    if (this.tab === 'logs') this.logs.close();
    this.tab = tab;
    this.tabs.forEach((el, k) => {
      const chosen = TABS[k][0] === tab;
      el.setAttribute('aria-selected', String(chosen));
      el.setAttribute('tabindex', chosen ? '0' : '-1');
    });
    this.panel.setAttribute('aria-labelledby', `tab-${tab}`);
    if (this.panel.firstChild !== this.pane[tab]) this.panel.replaceChildren(this.pane[tab]);
    if (tab === 'tasks') this.tasks.list();
    if (tab === 'timeline') this.time.show();
    if (tab === 'money') this.money.show();
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
        const open = [...this.plans.querySelectorAll('details[open] b')].map((b) => b.textContent);
        this.story.replaceChildren(story(this.data, this.job.now()));
        this.plans.replaceChildren(plans(this.job.plans, this.data.choices, this.job.view, this.job.now()));
        for (const d of this.plans.querySelectorAll('details')) d.open = open.includes(d.querySelector('b').textContent);
        if (this.selected !== undefined) this.panelFor(this.selected);
      } catch (err) {
        this.story.replaceChildren(notice('The story cannot be read', h('p', {}, err.message)));
      }
      this.later = undefined;
      if (this.pending) this.refreshStory();
    }, wait);
  }
}
