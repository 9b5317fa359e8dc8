// The Pareto frontier of cost and time: a curve of plans that no other plan beats in both.

import { h, set } from './dom.js';
import { Chart } from './chart.js';
import { count, hours, percent, usd } from './format.js';

const STEPS = [1 / 60, 5 / 60, 0.25, 0.5, 1, 2, 3, 6, 12, 24, 48, 120, 240, 720]; // hours, of the axis

// within writes hours as a deadline, rounded up to the next second.
export function within(h) {
  let sec = Math.ceil(h * 3600 - 1e-6);
  const parts = [];
  for (const [unit, size] of [['h', 3600], ['m', 60], ['s', 1]]) {
    const n = Math.floor(sec / size);
    if (n) parts.push(`${n}${unit}`);
    sec -= n * size;
  }
  return parts.join('') || '1s';
}

export class Frontier {
  // pick is called with the deadline of the chosen point.
  constructor({ pick }) {
    this.pick = pick;
    this.chart = new Chart({ label: 'Cost against time', height: 260, gutter: () => 64, xName: 'Guaranteed within', xText: hours, xSteps: STEPS, yText: usd, pick: (i) => this.choose(i) });
    this.note = h('p', { class: 'muted sub' });
    this.points = h('div', { class: 'row points', role: 'group', 'aria-label': 'Plans to choose from' });
    this.el = h('section', { class: 'card', 'aria-label': 'Frontier', hidden: true }, h('h2', {}, 'Cost against time'), this.chart.el, this.points, this.note);
  }

  close() {
    this.chart.close();
  }

  clear() {
    this.el.hidden = true;
  }

  wait() {
    this.el.hidden = false;
    this.front = undefined;
    this.points.replaceChildren();
    this.chart.el.hidden = true;
    set(this.note, 'Searching for plans that no other plan beats in both time and cost…');
  }

  fail(err) {
    this.chart.el.hidden = true;
    set(this.note, err.message);
  }

  show(front) {
    this.front = front;
    const p = front.points;
    this.el.hidden = false;
    this.chart.el.hidden = !p.length;
    if (!p.length) return set(this.note, 'No plan meets the limits.');
    this.draw();
    set(this.note, `${count(p.length, 'plan')}${front.complete ? ', proven complete' : '; there may be others between them'}. Its times are guaranteed: they include reserves for spot interruptions, as a deadline does. The expected time of a plan is shorter. Choosing a point sets its time as the deadline.`);
    const names = p.map((_, i) => (p.length === 1 ? 'fastest and cheapest' : i === 0 ? 'fastest' : i === p.length - 1 ? 'cheapest' : i === knee(p) ? 'best of both' : ''));
    this.points.replaceChildren(...p.map((x, i) => (names[i] ? h('button', { type: 'button', class: 'quiet', data: { point: i }, on: { click: () => this.choose(i) } },
      h('b', {}, names[i]), ` ${usd(x.usd)}, guaranteed in ${hours(x.hours)}`, x.tasks ? h('span', { class: 'muted' }, ` · ${percent(x.spot / x.tasks)} on spot`) : '') : '')));
  }

  draw() {
    const p = this.front.points;
    const marks = this.chosen === undefined ? [] : [{ x: p[this.chosen].hours, colour: '--c2', label: 'chosen' }];
    this.chart.show({ x: p.map((q) => q.hours), series: [{ label: 'Cost', colour: '--c1', stepped: true, points: true, y: p.map((q) => q.usd) }], marks });
  }

  choose(i) {
    this.chosen = i;
    this.draw();
    this.pick(within(this.front.points[i].hours));
  }
}

// knee is the point furthest below the line from the fastest to the cheapest plan: beyond it, more time saves little.
export function knee(p) {
  const [first, last] = [p[0], p.at(-1)];
  let [best, most] = [-1, 0];
  for (let i = 1; i < p.length - 1; i++) {
    const line = 1 - (p[i].hours - first.hours) / (last.hours - first.hours);
    const below = line - (p[i].usd - last.usd) / (first.usd - last.usd);
    if (below > most) [best, most] = [i, below];
  }
  return best;
}
