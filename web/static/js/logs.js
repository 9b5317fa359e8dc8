// The log of a task, followed live.

import { h, set } from './dom.js';
import { warning } from './tasks.js';
import { Problem, path, request } from './api.js';
import { Find } from './find.js';
import { count, culprit, failure, stateOf, unstarted } from './format.js';

const TAIL = 256 << 10; // bytes of a long log that are loaded first
const KEEP = 1 << 20; // characters to keep on the page
const MOST = 2000; // maximum number of tasks in the list
const AGAIN = 2000; // ms until a lost log connection is reopened

// plain removes terminal escape sequences, and text that a carriage return would have overwritten.
export function plain(text) {
  return text.replace(/\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)/g, '').replace(/\r\n/g, '\n').replace(/[^\n]*\r(?=[^\n])/g, '').replace(/\r/g, '');
}

export class Logs {
  // chosen is called with the task and the attempt whose log is shown; 0 is the last attempt.
  constructor(job, chosen) {
    this.job = job;
    this.chosen = chosen;
    const choose = () => this.open();
    this.task = h('select', { 'aria-label': 'Task', on: { change: () => { this.attempt.value = '0'; this.options(); this.open(); } } });
    this.attempt = h('select', { 'aria-label': 'Attempt', on: { change: choose } });
    this.rank = h('select', { 'aria-label': 'Node', on: { change: choose } });
    this.stick = h('input', { type: 'checkbox', checked: true });
    this.status = h('span', { class: 'muted', role: 'status' });
    this.verdict = h('div', {});
    this.text = h('pre', { class: 'log', tabindex: '0', role: 'log', 'aria-label': 'Log', 'aria-live': 'off' });
    this.find = new Find(this.text);
    this.search = h('input', { type: 'search', placeholder: 'Find in the log', 'aria-label': 'Find in the log', on: { input: () => this.look(1), keydown: (e) => this.key(e) } });
    this.only = h('input', { type: 'checkbox', on: { change: () => this.refill() } });
    this.found = h('span', { class: 'muted', role: 'status' });
    const step = (label, text, by) => h('button', { type: 'button', class: 'tool', 'aria-label': label, title: label, on: { click: () => this.go(by) } }, text);
    this.shown = h('div', {}, h('div', { class: 'filters' }, this.task, this.attempt, this.rank, h('label', {}, this.stick, ' Follow the end'), this.status),
      h('div', { class: 'filters' }, this.search, step('Previous match', '↑', -1), step('Next match', '↓', 1), h('label', {}, this.only, ' Only matching lines'), this.found), this.verdict, this.text);
    this.none = h('p', { class: 'muted', role: 'status' });
    this.el = h('div', {}, this.none, this.shown);
  }

  key(e) {
    if (e.key !== 'Enter') return;
    e.preventDefault();
    this.go(e.shiftKey ? -1 : 1);
  }

  // go moves to another match, and stops following the end.
  go(by) {
    if (!this.search.value) return;
    this.stick.checked = false;
    this.find.go(by);
    this.tell();
  }

  // look searches the shown log, and moves to the first match if by is set.
  look(by) {
    if (this.only.checked && by) this.refill();
    this.find.look(this.search.value);
    if (by && this.search.value) this.go(by);
    this.tell();
  }

  tell() {
    const n = this.find.ranges.length;
    set(this.found, !this.search.value ? '' : n ? `${this.find.at >= 0 ? `${this.find.at + 1} of ` : ''}${count(n, 'match', 'matches')}` : 'not found');
  }

  // refill shows all lines, or only those that match the search.
  refill() {
    const want = this.search.value.toLowerCase();
    this.text.textContent = this.only.checked && want ? this.lines(this.whole, want) : this.whole;
    this.find.look(this.search.value);
    this.tell();
    if (this.stick.checked) this.text.scrollTop = this.text.scrollHeight;
  }

  lines(text, want) {
    return text.split('\n').filter((l) => l.toLowerCase().includes(want)).join('\n');
  }

  // offer lists the tasks that have attempts. It reports whether the list changed.
  offer() {
    this.tried = this.job.tasks.filter((t) => t.attempts > 0);
    const offered = this.tried.map((t) => `${t.index}.${t.attempts}`).join();
    if (offered === this.offered) return false;
    this.offered = offered;
    const chosen = this.task.value;
    this.task.replaceChildren(...this.tried.slice(0, MOST).map((t) => h('option', { value: t.index }, t.name)));
    this.task.value = chosen;
    return true;
  }

  // update adds the tasks that started since the logs were shown. The open log stays; if none was open, one is
  // opened.
  update() {
    this.judge();
    if (!this.offer()) return;
    if (this.task.value === '') this.show();
    else this.options();
  }

  // show lists the tasks that have attempts, and opens one.
  show(index, attempt) {
    this.offer();
    const { tried } = this;
    const before = index ?? (this.task.value === '' ? undefined : Number(this.task.value));
    const first = (state) => tried.find((t) => stateOf(t) === state)?.index;
    const at = before ?? first('running') ?? culprit(this.job) ?? tried[0]?.index;
    if (at !== undefined) this.task.value = String(at);
    this.options();
    if (index !== undefined) this.attempt.value = String(attempt || 0);
    this.open();
  }

  // judge shows how the attempt failed, if it did.
  judge() {
    const t = this.job.tasks[Number(this.task.value)];
    const a = this.task.value !== '' && this.job.attemptsOf(t.index).at(Number(this.attempt.value) - 1);
    const text = a?.outcome === 'failed' ? `${t.name}, attempt ${a.number}, failed: ${failure(a)}` : '';
    if (text !== this.verdict.textContent) this.verdict.replaceChildren(text ? warning(text) : '');
  }

  // options lists the attempts and nodes of the task, the node that failed first.
  options() {
    const t = this.job.tasks[Number(this.task.value)];
    const fill = (el, list) => {
      const was = el.value;
      el.replaceChildren(...list.map(([value, text]) => h('option', { value }, text)));
      if (list.some(([value]) => String(value) === was)) el.value = was;
      el.hidden = list.length < 2;
    };
    const numbers = (n, from) => Array.from({ length: Math.min(n, 1000) }, (_, k) => k + from);
    fill(this.attempt, [[0, 'Last attempt'], ...numbers(t?.attempts ?? 0, 1).map((n) => [n, `Attempt ${n}`])]);
    const failed = t && this.job.attemptsOf(t.index).at(-1)?.failure?.rank;
    const nodes = numbers(t?.nodes ?? 1, 0).toSorted((a, b) => (b === failed) - (a === failed));
    fill(this.rank, nodes.map((n) => [n, n === failed ? `Node ${n}, failed` : `Node ${n}`]));
    if (this.ranked !== `${this.task.value}.${failed}`) this.rank.value = String(nodes[0] ?? 0);
    this.ranked = `${this.task.value}.${failed}`;
  }

  close() {
    this.reading?.abort();
    this.reading = undefined;
    this.find.close();
  }

  clear() {
    this.text.replaceChildren();
    this.whole = '';
  }

  // open reads and follows the chosen log. If again, the shown text stays until new text arrives.
  async open(again = false) {
    this.close();
    if (!again) this.clear();
    this.shown.hidden = this.task.value === '';
    set(this.none, this.shown.hidden ? unstarted(this.job.view) : '');
    if (this.shown.hidden) return;
    this.judge();
    this.chosen(Number(this.task.value), Number(this.attempt.value));
    const mine = new AbortController();
    this.reading = mine;
    if (!again) set(this.status, 'Loading…');
    const query = new URLSearchParams({ follow: 'true', attempt: this.attempt.value || '0', rank: this.rank.value || '0', tail: String(TAIL) });
    try {
      const res = await request(`${path('jobs', this.job.view.id, 'tasks', this.task.value, 'logs')}?${query}`, { signal: mine.signal });
      if (!res.ok) throw new Problem(res.status, await res.json().catch(() => ({})));
      this.clear();
      set(this.status, 'Following');
      await this.read(res.body, mine);
      if (!mine.signal.aborted) set(this.status, this.text.textContent ? 'Complete' : 'It printed nothing.');
    } catch (err) {
      if (mine.signal.aborted) return;
      if (err instanceof Problem) {
        set(this.status, err.message);
        return;
      }
      set(this.status, 'Connection lost. Retrying…');
      setTimeout(() => { if (!mine.signal.aborted) this.open(true); }, AGAIN);
    }
  }

  async read(body, mine) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done || mine.signal.aborted) return;
      this.append(plain(value));
    }
  }

  append(text) {
    this.whole += text;
    const long = this.whole.length > KEEP;
    if (long) this.whole = this.whole.slice(-KEEP / 2);
    if (long || (this.only.checked && this.search.value)) {
      this.refill();
      return;
    }
    this.text.append(text);
    if (this.search.value) this.look();
    if (this.stick.checked) this.text.scrollTop = this.text.scrollHeight;
  }
}
