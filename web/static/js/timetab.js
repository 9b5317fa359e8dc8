// The tab that shows a job's attempts over time, with the prices of their markets below.

import { h } from './dom.js';
import { at, isOver } from './format.js';
import { attemptCard } from './attemptcard.js';
import { moved, moves, whereabouts } from './moves.js';
import { Prices } from './prices.js';
import { Span, precise } from './span.js';
import { Timeline } from './timeline.js';

const EVERY = 1000; // ms between two redraws of an active job

export class TimeTab {
  constructor(job, { task, log, picked }) {
    this.job = job;
    this.go = { task, log };
    this.picked = picked;
    this.span = new Span();
    const gutter = () => (window.innerWidth < 640 ? 112 : 170);
    this.timeline = new Timeline({ span: this.span, gutter, pick: (bar) => this.picks(bar) });
    this.prices = new Prices({ span: this.span, gutter });
    this.card = h('div', { 'aria-live': 'polite' });
    this.moves = h('details', { class: 'behind' }, h('summary', {}, 'What moved, and why'));
    this.list = h('ol', { class: 'moves' });
    this.moves.append(this.list);
    this.el = h('div', {}, this.timeline.el, this.card, this.prices.el, this.moves);
  }

  close() {
    this.timeline.close();
    this.prices.close();
  }

  // show draws the current state, at most once per interval.
  show() {
    if (!this.job.view || !this.el.isConnected) return;
    const wait = EVERY - (performance.now() - (this.drawn ?? -EVERY));
    if (wait > 0) {
      this.later ??= setTimeout(() => { this.later = undefined; this.show(); }, wait);
      return;
    }
    this.drawn = performance.now();
    const now = this.job.now();
    this.timeline.show(this.job, now);
    this.prices.show(this.timeline.all, at(this.job.view.finished) ?? now, isOver(this.job.view));
    this.tell();
    if (this.chosen) this.pick(this.timeline.all.find((b) => b.task.index === this.chosen.task.index && b.attempt.number === this.chosen.attempt.number), true);
  }

  // picks shows the card of the attempt that the user chose.
  picks(bar) {
    this.pick(bar);
    this.picked(bar?.task.index, bar?.attempt.number);
  }

  // choose shows the card of an attempt, if there is one with that number.
  choose(index, number) {
    const bar = this.timeline.all.find((b) => b.task.index === index && b.attempt.number === number);
    if (bar) this.timeline.choose(bar);
  }

  pick(bar, again) {
    if (again && JSON.stringify(bar?.attempt) === JSON.stringify(this.chosen?.attempt)) return;
    this.chosen = bar;
    if (!bar) return this.card.replaceChildren();
    this.card.replaceChildren(attemptCard(this.job, bar, {
      close: () => this.picks(undefined),
      go: (where) => this.go[where](bar.task.index, bar.attempt.number),
    }));
  }

  tell() {
    const { all, list } = moves(this.job);
    this.moves.hidden = !all;
    const key = `${all} ${list[0]?.at}`;
    if (key === this.told) return;
    this.told = key;
    this.list.replaceChildren(...list.map(({ task, attempt: a, at: t }) => h('li', {}, h('time', {}, precise(t)),
      h('p', {}, h('b', {}, task.name), ` to ${whereabouts(a.offerID)}. `, moved(this.job, task, a)))));
    if (all > list.length) this.list.append(h('li', {}, h('span', {}), h('p', { class: 'muted' }, `and ${all - list.length} earlier`)));
  }
}
