// The tab that shows a job's attempts over time, with the prices of their markets below.

import { h, renew, set } from './dom.js';
import { at, isOver, paid, percent, unstarted } from './format.js';
import { attemptCard } from './attemptcard.js';
import { moved, moves, whereabouts } from './moves.js';
import { Prices } from './prices.js';
import { Span, precise } from './span.js';
import { Timeline } from './timeline.js';
import { table } from './table.js';

const EVERY = 1000; // ms between two redraws of an active job
const ROWS = 100; // maximum number of machines in the table

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
    this.bought = h('div', {});
    this.used = h('details', { class: 'behind used-machines', hidden: true }, h('summary', {}, 'Machines: how well they are used'), this.bought);
    this.none = h('p', { class: 'muted' });
    this.el = h('div', {}, this.none, this.timeline.el, this.card, this.used, this.prices.el, this.moves);
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
    this.job.ask().then((news) => {
      if (!news) return;
      this.tabulate([...this.job.machines.all.values()]);
      this.drawn = undefined;
      this.show();
    });
    const now = this.job.now();
    this.timeline.show(this.job, now);
    this.timeline.el.hidden = !this.timeline.all.length;
    set(this.none, this.timeline.el.hidden ? unstarted(this.job.view) : '');
    this.prices.show(this.timeline.all, at(this.job.view.finished) ?? now, isOver(this.job.view));
    this.tell();
    if (this.chosen) this.pick(this.timeline.all.find((b) => b.task.index === this.chosen.task.index && b.attempt.number === this.chosen.attempt.number), true);
  }

  tabulate(list) {
    this.used.hidden = !list.length;
    const number = (name) => ({ name, number: true });
    renew(this.bought, table('Machines', ['Machine', 'State', number('Tasks'), number('Used'), number('Cost'), number('Boot'), number('Idle')], list.slice(0, ROWS).map((m) => [
      `${whereabouts(m.offer)}${m.nodes > 1 ? ` × ${m.nodes}` : ''}`, m.state, String(m.tasks), percent(m.utilisation), paid(m, m.usd), paid(m, m.bootUSD), paid(m, m.idleUSD)])),
    list.length > ROWS ? h('p', { class: 'muted' }, `and ${list.length - ROWS} more: tradewind machines --all lists them`) : '');
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
