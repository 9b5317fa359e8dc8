// The page that plans a job before it is submitted.

import { h, hold, say, set } from './dom.js';
import { serving } from './format.js';
import { Frontier } from './frontier.js';
import { Source } from './source.js';
import { key, send } from './send.js';
import { figures, shares, table } from './planview.js';
import { toast } from './toast.js';
import { warning } from './tasks.js';

const FILE = { 'Content-Type': 'application/octet-stream' };

export class PlanPage {
  constructor(root, _id, _tab, { live }) {
    live('off');
    document.title = 'Plan – Tradewind';
    this.asked = 0; // counts requested plans and received files; discards stale responses
    this.file = 0; // counts files and edits
    this.source = new Source({ changed: (whole) => this.changed(whole) });
    this.objective = h('select', { id: 'plan-objective' }, [['', 'as in the file'], ['cost', 'the cost'], ['makespan', 'the time']].map(([v, t]) => h('option', { value: v }, t)));
    this.deadline = h('input', { type: 'text', class: 'field short', id: 'plan-deadline', placeholder: 'as in the file', autocomplete: 'off' });
    this.budget = h('input', { type: 'number', class: 'field short', id: 'plan-budget', min: '0', step: 'any', placeholder: 'as in the file' });
    this.go = h('button', { type: 'submit', class: 'solid' }, 'Plan');
    this.submit = h('button', { type: 'button', class: 'solid good', hidden: true, on: { click: () => this.hand() } }, 'Submit');
    this.status = h('p', { class: 'muted', role: 'status' });
    this.result = h('div', {});
    this.frontier = new Frontier({ pick: (deadline) => { this.deadline.value = deadline; this.plan(false); } });
    const labelled = (el, text, ...after) => h('div', { class: 'labelled' }, h('label', { for: el.id }, text), el, after);
    for (const el of [this.objective, this.deadline, this.budget]) el.addEventListener('input', () => this.forget());
    const form = h('form', { class: 'stack', on: { submit: (e) => { e.preventDefault(); this.plan(true); } } }, this.source.el,
      h('div', { class: 'limits' }, labelled(this.objective, 'Minimise'), labelled(this.deadline, 'Deadline, such as 6h'), labelled(this.budget, 'Budget, US dollars')),
      h('div', { class: 'row' }, this.go, this.submit, this.status));
    root.replaceChildren(h('div', { class: 'title' }, h('h1', {}, 'Plan a job')), h('p', { class: 'muted sub' }, 'Where its tasks would run, what it would cost and how long it would take, with current prices and available places. Nothing is bought before you submit it.'),
      h('section', { class: 'card', 'aria-label': 'Job file' }, form), this.frontier.el, this.result);
  }

  close() {
    this.closed = true;
    this.frontier.close();
  }

  // forget discards plans for other limits or another file, and pending responses for them: the job that is submitted
  // must be the one that was planned.
  forget() {
    this.asked += 1;
    this.submit.hidden = true;
    this.result.replaceChildren();
    set(this.status, '');
  }

  // changed discards everything about the previous file. A complete new file is planned immediately.
  changed(whole) {
    this.file += 1;
    this.forget();
    this.frontier.clear();
    this.frontier.chosen = undefined;
    if (whole) this.plan(true);
  }

  query(more = {}) {
    const q = new URLSearchParams({ name: this.source.name.value, ...more });
    for (const [name, el] of [['objective', this.objective], ['deadline', this.deadline], ['budget', this.budget]]) if (el.value.trim()) q.set(name, el.value.trim());
    return q;
  }

  // plan plans the file, and computes its frontier if that is still missing.
  async plan(fresh) {
    if (this.source.empty()) return this.source.fail(new Error('There is no job file yet: drop, paste or write one.'));
    const mine = (this.asked += 1);
    const body = this.source.body();
    this.source.clear();
    const release = hold(this.go);
    this.submit.hidden = true;
    set(this.status, 'Planning…');
    try {
      const p = await send('POST', `/v1/plans?${this.query()}`, body, FILE);
      if (this.closed || mine !== this.asked) return;
      this.show(p);
      if (fresh && !serving(p.tasks).length) this.front(body); // a service never ends, so there is no deadline to choose
    } catch (err) {
      if (mine === this.asked) this.fail(err);
    } finally {
      release();
    }
  }

  async front(body) {
    const { file } = this;
    this.frontier.wait();
    this.frontier.chosen = undefined;
    const q = new URLSearchParams({ name: this.source.name.value });
    try {
      const front = await send('POST', `/v1/frontiers?${q}`, body, FILE);
      if (!this.closed && file === this.file) this.frontier.show(front);
    } catch (err) {
      if (file === this.file) this.frontier.fail(err);
    }
  }

  show(p) {
    set(this.status, p.status === 'infeasible' ? '' : `Planned ${p.name}`);
    const warnings = (p.warnings ?? []).map((w) => warning(w, 'launching'));
    if (p.status === 'infeasible') {
      this.result.replaceChildren(h('section', { class: 'card', 'aria-label': 'Plan' }, h('h2', {}, 'No plan found'), warning(p.message || 'No plan meets the limits.'), warnings));
      return;
    }
    this.submit.hidden = false;
    this.result.replaceChildren(figures(p), warnings.length ? h('section', { class: 'card', 'aria-label': 'Warnings' }, warnings) : '',
      h('section', { class: 'card', 'aria-label': 'Plan' }, h('h2', {}, `Where ${p.tasks.length === 1 ? 'it' : 'they'} would run`), shares(p), table(p)));
    say(`The plan costs ${p.usd.toFixed(2)} dollars.`);
  }

  fail(err) {
    set(this.status, '');
    this.frontier.clear();
    this.result.replaceChildren();
    this.source.fail(err);
  }

  async hand() {
    const release = hold(this.submit);
    this.key ??= key();
    try {
      const job = await send('POST', `/v1/dags?${this.query()}`, this.source.body(), { ...FILE, 'Idempotency-Key': `${this.key} ${this.asked}` });
      toast(`${job.name} is submitted`);
      location.hash = `#/jobs/${encodeURIComponent(job.id)}`;
    } catch (err) {
      this.fail(err);
    } finally {
      release();
    }
  }
}
