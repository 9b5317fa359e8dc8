// The usage of queues over time.

import { h, set } from './dom.js';
import { get } from './api.js';
import { Chart, colour, dash } from './chart.js';
import { HOUR, amount, at } from './format.js';
import { Span } from './span.js';

const LINES = 8; // maximum number of queues shown

export class Usage {
  constructor() {
    this.span = new Span();
    this.chart = new Chart({ label: 'Usage of the queues', height: 220, span: this.span, gutter: () => 64, yText: amount });
    const select = (label, options, run) => h('select', { 'aria-label': label, on: { change: run } }, options.map(([v, t]) => h('option', { value: v }, t)));
    this.what = select('Quantity', [['vcpus', 'vCPUs'], ['running', 'Tasks']], () => this.draw());
    this.hours = select('How far back', [['24', 'a day'], ['6', '6 hours'], ['168', 'a week'], ['744', 'a month']], () => { this.span.whole(); this.look(); });
    this.note = h('p', { class: 'muted sub' });
    this.queues = [];
    this.el = h('section', { class: 'card', 'aria-label': 'Usage of the queues' }, h('div', { class: 'head' }, h('h2', {}, 'Shares over time'), h('div', { class: 'row after' }, this.what, this.hours)), this.chart.el, this.note);
  }

  close() {
    this.chart.close();
  }

  async look() {
    const hours = this.hours.value;
    const data = await get(`/v1/usage?hours=${hours}`);
    if (hours !== this.hours.value) return;
    this.data = data;
    this.draw();
  }

  // limits sets the queues whose maximum and deserved amounts are drawn as marks.
  limits(queues) {
    this.queues = queues;
    this.draw();
  }

  draw() {
    if (!this.data) return;
    const { from, stepHours, queues, partial } = this.data;
    const key = this.what.value;
    const sum = (q) => q[key].reduce((a, b) => a + b, 0);
    const shown = queues.toSorted((a, b) => sum(b) - sum(a)).slice(0, LINES);
    const step = stepHours * HOUR;
    const n = shown[0]?.[key].length ?? 0;
    const x = Array.from({ length: n }, (_, i) => at(from) + i * step);
    this.span.grow(at(from), at(from) + Math.max(n, 1) * step);
    this.chart.el.hidden = !n;
    const marks = [];
    for (const [i, q] of shown.entries()) {
      const set_ = this.queues.find((o) => o.name === q.name);
      const most = key === 'vcpus' ? set_?.maxVCPU : set_?.maxRunning;
      if (most && most < 4 * Math.max(...q[key], 1e-9)) marks.push({ y: most, colour: colour(i), label: `maximum of ${q.name}` });
      if (key === 'vcpus' && set_?.deservedVCPU) marks.push({ y: set_.deservedVCPU, colour: colour(i), label: `${q.name} deserves` });
    }
    this.chart.show({ x, series: shown.map((q, i) => ({ label: q.name, colour: colour(i), dash: dash(i), stepped: true, fill: shown.length === 1, y: q[key] })), marks: marks.slice(0, 6) });
    set(this.note, !n ? 'No queue was used in that time.' : [queues.length > shown.length ? `${queues.length - shown.length} less used queues are not shown.` : '', partial ? 'Only the newest jobs are included: there were too many.' : ''].filter(Boolean).join(' '));
  }
}
