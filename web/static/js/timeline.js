// When and where each attempt ran: one row for each lane, one bar for each attempt. Only visible rows are in the page, and bars too
// small to distinguish are merged, so that 10,000 tasks take no more work than ten.

import { h, say, set } from './dom.js';
import { at, count, span as spell, usd } from './format.js';
import { bars, rows, visible } from './lanes.js';
import { RIGHT, fitting, precise, room, ticks } from './span.js';
import { whereabouts } from './moves.js';

const ROW = 26; // pixels
const TALL = 15; // rows visible at once
const AROUND = 4; // additional rows above and below

export class Timeline {
  // pick is called with the chosen bar.
  constructor({ span, gutter, pick }) {
    this.span = span;
    this.gutter = gutter;
    this.pick = pick;
    this.by = undefined; // until the user chooses: machines if tasks share them, or else places
    this.all = [];
    this.choice = h('select', { 'aria-label': 'Rows', on: { change: () => { this.by = this.choice.value; this.arrange(); } } },
      h('option', { value: 'place' }, 'By place'), h('option', { value: 'machine' }, 'By machine'), h('option', { value: 'task' }, 'By task'));
    const tool = (label, text, run) => h('button', { type: 'button', class: 'tool', title: label, 'aria-label': label, on: { click: run } }, text);
    this.shown = h('span', { class: 'muted', role: 'status' });
    this.tools = h('div', { class: 'tools', role: 'group', 'aria-label': 'Time' },
      tool('Earlier', '‹', () => span.move(-0.5)), tool('Later', '›', () => span.move(0.5)),
      tool('Show more time', '−', () => span.zoom(2)), tool('Show less time', '+', () => span.zoom(0.5)), tool('Show all', '⤢', () => span.whole()));
    this.axis = h('div', { class: 'lane-axis', 'aria-hidden': 'true' });
    this.canvas = h('div', { class: 'lanes-all' });
    this.scroller = h('div', { class: 'lanes', role: 'group', 'aria-label': 'Attempts over time', on: { scroll: () => this.draw(), keydown: (e) => this.key(e), wheel: (e) => this.wheel(e) } }, this.canvas);
    this.el = h('div', { class: 'timeline' }, h('div', { class: 'filters' }, this.choice, legend(), this.shown, this.tools), this.axis, this.scroller);
    this.unwatch = span.watch(() => this.draw());
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.scroller);
  }

  close() {
    this.unwatch();
    this.resized.disconnect();
  }

  // show draws the attempts of a job.
  show(job, now) {
    this.now = now;
    this.machines = job.machines;
    this.all = bars(job, now);
    const from = Math.min(at(job.view.submitted), ...this.all.slice(0, 1).map((b) => b.from));
    const to = at(job.view.finished) ?? now;
    this.span.grow(from, to + Math.max((to - from) * 0.02, 1000));
    this.arrange();
  }

  arrange() {
    const by = this.by ?? (this.machines?.workers.size ? 'machine' : 'place');
    this.choice.value = by;
    this.el.classList.toggle('by-machine', by === 'machine');
    this.rows = rows(this.all, by, this.machines);
    this.canvas.style.setProperty('height', `${this.rows.length * ROW}px`);
    this.scroller.style.setProperty('height', `${Math.min(Math.max(this.rows.length, 1), TALL) * ROW + 2}px`);
    set(this.shown, this.rows.length > TALL ? `${count(this.all.length, 'attempt')} in ${count(this.rows.length, 'row')}` : count(this.all.length, 'attempt'));
    this.draw();
  }

  width() {
    return Math.max(this.scroller.offsetWidth - this.gutter() - RIGHT, 40);
  }

  draw() {
    if (!this.rows || !this.scroller.isConnected) return;
    const width = this.width();
    const gutter = this.gutter();
    this.el.style.setProperty('--gutter', `${gutter}px`);
    const marks = ticks(this.span.from, this.span.to, room(width));
    const x = (t) => ((t - this.span.from) / (this.span.to - this.span.from)) * width;
    this.axis.replaceChildren(...fitting(marks, this.span.from, this.span.to, width).map((name, k) => {
      const el = h('span', {}, name);
      el.style.setProperty('left', `${gutter + x(marks[k])}px`);
      return el;
    }));
    const first = Math.max(Math.floor(this.scroller.scrollTop / ROW) - AROUND, 0);
    const last = Math.min(Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / ROW) + AROUND, this.rows.length);
    const focused = document.activeElement?.dataset?.bar;
    const lines = marks.map((t) => {
      const el = h('i', {});
      el.style.setProperty('left', `${gutter + x(t)}px`);
      return el;
    });
    const made = [h('div', { class: 'lane-grid', 'aria-hidden': 'true' }, lines)];
    for (let k = first; k < last; k++) made.push(this.row(k, width));
    this.canvas.replaceChildren(...made);
    const again = focused && this.canvas.querySelector(`[data-bar="${CSS.escape(focused)}"]`);
    const enter = again ?? this.canvas.querySelector('.run');
    enter?.setAttribute('tabindex', '0');
    again?.focus({ preventScroll: true });
  }

  row(k, width) {
    const r = this.rows[k];
    const el = h('div', { class: r.first ? 'lane first' : 'lane', role: 'group', 'aria-label': r.group, data: { lane: k } },
      r.machine ? this.life(r, width) : '',
      h('span', { class: 'lane-name', title: r.group, 'aria-hidden': r.first ? undefined : 'true' }, r.first ? h('span', { class: 'used' }, r.used) : '', r.first ? r.group : ''),
      visible(r.bars, this.span, width).map((v) => this.bar(v, width)));
    el.style.setProperty('top', `${k * ROW}px`);
    return el;
  }

  // life draws the time for which a machine was paid: its boot, and behind the bars the time for which it was up.
  life({ machine: m }, width) {
    const x = (t) => Math.min(Math.max(((t - this.span.from) / (this.span.to - this.span.from)) * width, 0), width);
    const to = m.to ?? this.now;
    const part = (kind, from, until) => {
      const el = h('span', { class: `life ${kind}`, 'aria-hidden': 'true' });
      el.style.setProperty('left', `${this.gutter() + x(from)}px`);
      el.style.setProperty('width', `${x(until) - x(from)}px`);
      return el;
    };
    return [part('booting', m.from, m.upAt ?? to), part('up', m.upAt ?? to, to)];
  }

  bar({ bar, many, x, w }, width) {
    if (many) return this.several(many, x, w);
    const { attempt: a, task } = bar;
    const taken = ['preempted', 'lost'].includes(bar.state);
    const el = h('button', { type: 'button', class: 'run', tabindex: '-1', title: this.name(bar), 'aria-label': this.name(bar), 'aria-pressed': String(this.chosen === `${task.index}.${a.number}`),
      data: { bar: `${task.index}.${a.number}`, outcome: bar.state, market: bar.where.market || 'own' }, on: { click: () => this.choose(bar) } },
    h('span', { class: 'boot' }), w > 40 ? h('span', { class: 'run-name' }, task.name) : '', taken ? h('span', { class: 'taken', 'aria-hidden': 'true' }) : '');
    el.style.setProperty('left', `${this.gutter() + x}px`);
    el.style.setProperty('width', `${w}px`);
    const waited = Math.min(((bar.started ?? bar.to) - bar.from) / (bar.to - bar.from || 1), 1);
    const cut = Math.max((this.span.from - bar.from) / (bar.to - bar.from || 1), 0);
    const share = Math.max(waited - cut, 0) / Math.max(1 - cut, 1e-9);
    el.firstChild.style.setProperty('width', `${Math.min(100 * share, 100)}%`);
    if (w > 40 && share < 0.4) el.children[1].style.setProperty('padding-left', `${6 + share * w}px`);
    return el;
  }

  several(many, x, w) {
    const bad = many.filter((b) => ['preempted', 'lost', 'failed', 'refused'].includes(b.state)).length;
    const label = `${count(many.length, 'attempt')} close together${bad ? `, ${bad} of them unsuccessful` : ''}: show them`;
    const el = h('button', { type: 'button', class: 'run many', tabindex: '-1', title: label, 'aria-label': label,
      data: { bar: `m${many[0].task.index}.${many[0].attempt.number}`, outcome: bad ? 'preempted' : many[0].state },
      on: { click: () => { const d = Math.max((many.at(-1).to - many[0].from) * 0.2, 1000); this.span.set(many[0].from - d, many.at(-1).to + d); } } });
    el.style.setProperty('left', `${this.gutter() + x}px`);
    el.style.setProperty('width', `${w}px`);
    return el;
  }

  // name describes a bar in words.
  name({ task, attempt: a, on, from, to, state, over }) {
    const how = over || state !== 'running' ? state : 'running';
    return `${task.name}, attempt ${a.number}, ${whereabouts(on?.offer ?? a.offerID)}: ${how}, from ${precise(from)}, ${spell(to - from)}${a.usd ? `, ${usd(a.usd)}` : ''}`;
  }

  choose(bar) {
    this.chosen = `${bar.task.index}.${bar.attempt.number}`;
    for (const el of this.canvas.querySelectorAll('.run')) el.setAttribute('aria-pressed', String(el.dataset.bar === this.chosen));
    this.pick(bar);
  }

  // key moves between bars: along a row, and to the nearest bar of the next row.
  key(e) {
    const here = document.activeElement?.closest?.('.run');
    if (e.key === '+' || e.key === '-') return this.span.zoom(e.key === '+' ? 0.5 : 2);
    const down = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    const along = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!here || (!down && !along)) return;
    e.preventDefault();
    const lane = here.closest('.lane');
    if (along) return this.focus([...lane.querySelectorAll('.run')], here, along);
    const k = Number(lane.dataset.lane);
    for (let next = k + down; next >= 0 && next < this.rows.length; next += down) {
      if (!visible(this.rows[next].bars, this.span, this.width()).length) continue;
      this.reveal(next);
      const middle = (el) => el.offsetLeft + el.offsetWidth / 2;
      const near = [...(this.canvas.querySelector(`[data-lane="${next}"]`)?.querySelectorAll('.run') ?? [])]
        .sort((p, q) => Math.abs(middle(p) - middle(here)) - Math.abs(middle(q) - middle(here)))[0];
      return near && this.enter(near);
    }
  }

  focus(list, here, by) {
    const next = list[list.indexOf(here) + by];
    if (next) this.enter(next);
    else say('There are no more attempts in this row.');
  }

  enter(el) {
    for (const other of this.canvas.querySelectorAll('.run[tabindex="0"]')) other.setAttribute('tabindex', '-1');
    el.setAttribute('tabindex', '0');
    el.focus({ preventScroll: true });
  }

  // reveal scrolls a row into view.
  reveal(k) {
    const top = k * ROW;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top + ROW > this.scroller.scrollTop + this.scroller.clientHeight) this.scroller.scrollTop = top + ROW - this.scroller.clientHeight;
    this.draw();
  }

  // wheel zooms with Ctrl or ⌘.
  wheel(e) {
    if (!e.ctrlKey && !e.metaKey) return;
    e.preventDefault();
    const share = (e.clientX - this.scroller.getBoundingClientRect().left - this.gutter()) / this.width();
    this.span.zoom(e.deltaY > 0 ? 1.25 : 0.8, this.span.from + share * (this.span.to - this.span.from));
  }
}

// legend explains the styles of the bars.
function legend() {
  const item = (outcome, market, text, taken) => h('li', {}, h('span', { class: 'run sample', 'aria-hidden': 'true', data: { outcome, market } }, taken ? h('span', { class: 'taken' }) : ''), text);
  return h('ul', { class: 'legend', 'aria-label': 'Bars' }, item('succeeded', 'spot', 'succeeded'), item('running', 'spot', 'running'), item('preempted', 'spot', 'preempted', true),
    item('refused', 'spot', 'refused'), item('failed', 'spot', 'failed'), item('cancelled', 'spot', 'cancelled'), item('running', 'on-demand', 'striped: on demand'),
    ['booting', 'up'].map((kind) => h('li', { class: 'of-machine' }, h('span', { class: `life sample ${kind}`, 'aria-hidden': 'true' }), kind === 'up' ? 'idle' : 'boot')));
}
