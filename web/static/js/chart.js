// Line charts, drawn by uPlot on a canvas. They are accessible without sight: the chart has a name, the arrow keys walk through
// its points and announce them, and a table lists all values.

import uPlot from '../vendor/uplot.js';
import { h, say, set } from './dom.js';
import { RIGHT, fitting, precise, room, ticks } from './span.js';

const ROWS = 250; // maximum number of rows in the table
const COLOURS = 8;
const DASHES = [undefined, undefined, undefined, undefined, [6, 3], [6, 3], [6, 3], [6, 3]];

const scheme = window.matchMedia('(prefers-color-scheme: dark)');

// css returns the current value of a colour of the style sheet.
function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// colour is the name of the n-th series' colour; after eight they repeat.
export function colour(n) {
  return `--c${(n % COLOURS) + 1}`;
}

// dash distinguishes lines of similar colours.
export function dash(n) {
  return DASHES[n % COLOURS];
}

function rule(u, x1, y1, x2, y2, stroke, pattern) {
  const { ctx } = u;
  ctx.save();
  ctx.strokeStyle = stroke;
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash((pattern ?? [5, 4]).map((d) => d * devicePixelRatio));
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
  ctx.stroke();
  ctx.restore();
}

// distinct omits a tick label that equals the previous one (amounts too small for the digits shown).
export function distinct(texts) {
  return texts.map((text, i) => (text === texts[i - 1] ? '' : text));
}

// Chart draws series over a shared x. Options: label (its name, which may change before show), height, gutter (width of the y axis), span (of time: x are then
// milliseconds) or xText, yText (formatters), yFrom (where the y axis begins, given the lowest value; without it at 0), pick (called with an index when the user chooses a point).
export class Chart {
  constructor(options) {
    this.o = { height: 200, gutter: () => 64, yText: String, ...options };
    this.box = h('div', { class: 'plot', tabindex: '0', role: 'application', 'aria-roledescription': 'chart', 'aria-label': this.o.label,
      on: { keydown: (e) => this.key(e) } });
    this.keys = h('ul', { class: 'keys' });
    this.body = h('div', { class: 'scroll tall' });
    this.table = h('details', { class: 'behind', on: { toggle: () => this.table.open && this.fill() } }, h('summary', {}, 'As a table'), this.body);
    this.el = h('div', { class: 'chart' }, this.keys, this.box, this.table);
    this.resized = new ResizeObserver(() => this.resize());
    this.resized.observe(this.box);
    this.redress = () => this.build();
    scheme.addEventListener('change', this.redress);
    this.unwatch = this.o.span?.watch(() => this.zoomed());
  }

  close() {
    this.resized.disconnect();
    scheme.removeEventListener('change', this.redress);
    this.unwatch?.();
    this.plot?.destroy();
    this.plot = undefined;
  }

  // show draws data: x, and series of { label, colour, dash, stepped, fill, points, y }. marks are { x or y, label, colour }, and lines
  // { from: [x, y], to: [x, y], colour }.
  show(data) {
    const shape = JSON.stringify(data.series.map((s) => [s.label, s.colour, s.dash, s.stepped, s.fill, s.points]));
    this.data = data;
    if (this.plot && shape === this.shape) this.plot.setData(this.columns());
    else this.build();
    this.shape = shape;
    this.name();
    if (this.table.open) this.fill();
  }

  columns() {
    return [this.data.x, ...this.data.series.map((s) => s.y)];
  }

  build() {
    if (!this.data) return;
    this.plot?.destroy();
    this.plot = undefined;
    const width = Math.floor(this.box.clientWidth);
    if (width < 50) return;
    this.plot = new uPlot(this.options(width), this.columns(), this.box);
    this.legend();
  }

  options(width) {
    const { o, data } = this;
    const axis = { stroke: css('--muted'), font: `12px ${getComputedStyle(document.body).fontFamily}`, ticks: { show: false }, grid: { stroke: css('--line'), width: 1 } };
    const long = () => (this.plot?.width ?? width) - o.gutter() - RIGHT;
    const most = () => room(long());
    const timed = o.span && { splits: (u, _i, from, to) => ticks(from, to, most()), values: (_u, list) => fitting(list, o.span.from, o.span.to, long()) };
    const free = { values: (_u, list) => list.map((v) => o.xText?.(v) ?? v), space: 80, ...(o.xSteps && { incrs: o.xSteps }) };
    return {
      width, height: o.height, padding: [8, o.span ? RIGHT : 28, 0, 0], legend: { show: false }, ms: 1,
      cursor: { y: Boolean(o.pick), drag: { x: Boolean(o.span), y: false, setScale: false }, points: { size: 8 } },
      scales: {
        x: { time: false, range: o.span ? () => [o.span.from, o.span.to] : (_u, lo, hi) => this.wider(lo, hi) },
        y: { range: (_u, lo, hi) => [o.yFrom?.(lo) ?? 0, this.top(hi)] },
      },
      axes: [{ ...axis, size: 30, ...(timed ?? free) }, { ...axis, size: () => o.gutter(), values: (_u, list) => distinct(list.map((v) => o.yText(v))), space: 34 }],
      series: [{}, ...data.series.map((s) => this.line(s))],
      hooks: {
        setCursor: [(u) => this.hover(u.cursor.idx)],
        setSelect: [(u) => this.selected(u)],
        draw: [(u) => this.extras(u)],
        ready: [(u) => o.pick && u.over.addEventListener('click', () => u.cursor.idx !== null && u.cursor.idx !== undefined && o.pick(u.cursor.idx))],
      },
    };
  }

  wider(lo, hi) {
    const d = (hi - lo || Math.abs(hi) || 1) * 0.05;
    return [Math.max(lo - d, 0), hi + d];
  }

  // top leaves space above the highest point or mark.
  top(hi) {
    const marks = [...(this.data.marks ?? []).map((m) => m.y ?? 0), ...(this.data.lines ?? []).flatMap((l) => [l.from[1], l.to[1]])];
    return Math.max(hi ?? 0, ...marks, 1e-9) * 1.08;
  }

  line(s) {
    const stroke = css(s.colour);
    return {
      label: s.label, stroke, width: s.width ?? 2, dash: s.dash, spanGaps: Boolean(s.spanGaps),
      fill: s.fill ? `color-mix(in srgb, ${stroke} 14%, transparent)` : undefined,
      paths: s.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
      points: s.points ? { show: true, size: 9, fill: css('--surface'), stroke, width: 2 } : { show: false },
    };
  }

  // extras draws marks and lines over the series.
  extras(u) {
    const { left, top, width, height } = u.bbox;
    u.ctx.save();
    u.ctx.beginPath();
    u.ctx.rect(left, top, width, height);
    u.ctx.clip();
    for (const m of this.data.marks ?? []) {
      const y = m.y === undefined ? undefined : u.valToPos(m.y, 'y', true);
      const x = m.x === undefined ? undefined : u.valToPos(m.x, 'x', true);
      if (y !== undefined) rule(u, left, y, left + width, y, css(m.colour));
      if (x !== undefined) rule(u, x, top, x, top + height, css(m.colour));
      u.ctx.fillStyle = css('--text');
      u.ctx.font = `${11 * devicePixelRatio}px ${getComputedStyle(document.body).fontFamily}`;
      const near = y === undefined && x - left < 60 * devicePixelRatio; // no room to its left
      u.ctx.textAlign = y === undefined && !near ? 'right' : 'left';
      if (m.label) u.ctx.fillText(m.label, y === undefined ? x + (near ? 6 : -6) * devicePixelRatio : left + 6 * devicePixelRatio, y === undefined ? top + 12 * devicePixelRatio : y - 5 * devicePixelRatio);
    }
    for (const l of this.data.lines ?? []) {
      rule(u, u.valToPos(l.from[0], 'x', true), u.valToPos(l.from[1], 'y', true), u.valToPos(l.to[0], 'x', true), u.valToPos(l.to[1], 'y', true), css(l.colour), l.dash ?? [2, 3]);
    }
    u.ctx.restore();
  }

  legend() {
    this.keys.hidden = !this.o.span && this.data.series.length + (this.data.marks ?? []).length < 2;
    this.values = this.data.series.map(() => h('span', { class: 'muted' }));
    const swatch = (c, pattern) => {
      const el = h('span', { class: pattern ? 'swatch dashed' : 'swatch', 'aria-hidden': 'true' });
      el.style.setProperty('--swatch', `var(${c})`);
      return el;
    };
    this.keys.replaceChildren(...this.data.series.map((s, i) => h('li', {}, swatch(s.colour, s.dash), s.label, ' ', this.values[i])));
    this.keys.append(...(this.data.marks ?? []).filter((m) => m.key).map((m) => h('li', {}, swatch(m.colour, true), m.key)));
  }

  // text describes a point in words.
  text(i) {
    const x = this.o.span ? precise(this.data.x[i]) : this.o.xText?.(this.data.x[i]) ?? this.data.x[i];
    const ys = this.data.series.map((s) => (s.y[i] === null || s.y[i] === undefined ? '' : `${s.label} ${this.o.yText(s.y[i])}`)).filter(Boolean);
    return `${x}: ${ys.join(', ')}`;
  }

  hover(i) {
    this.data.series.forEach((s, k) => {
      const v = i === null || i === undefined ? undefined : s.y[i];
      if (this.values?.[k]) set(this.values[k], v === null || v === undefined ? '' : this.o.yText(v));
    });
  }

  selected(u) {
    if (u.select.width < 8) return;
    const [from, to] = [u.posToVal(u.select.left, 'x'), u.posToVal(u.select.left + u.select.width, 'x')];
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.o.span?.set(from, to);
  }

  zoomed() {
    if (this.plot) this.plot.setScale('x', { min: this.o.span.from, max: this.o.span.to });
  }

  // key moves between the points with the arrow keys.
  key(e) {
    const n = this.data?.x.length ?? 0;
    const steps = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -n, End: n };
    if (!n || !this.plot || e.ctrlKey || e.metaKey) return;
    if (e.key === 'Enter' && this.at !== undefined && this.o.pick) return this.o.pick(this.at);
    if (this.o.span && (e.key === '+' || e.key === '-')) return this.o.span.zoom(e.key === '+' ? 0.5 : 2);
    if (!steps[e.key]) return;
    e.preventDefault();
    this.at = Math.min(Math.max((this.at ?? (steps[e.key] > 0 ? -1 : n)) + steps[e.key], 0), n - 1);
    this.plot.setCursor({ left: this.plot.valToPos(this.data.x[this.at], 'x'), top: 20 });
    say(this.text(this.at));
  }

  // name sets the chart's accessible name, with its first and last point.
  name() {
    const n = this.data.x.length;
    const ends = n ? ` From ${this.text(0)}, to ${this.text(n - 1)}.` : ' There is no data yet.';
    this.box.setAttribute('aria-label', `${this.o.label}.${ends} Arrow keys walk through its points.`);
  }

  fill() {
    const { x, series } = this.data;
    const every = Math.max(Math.ceil(x.length / ROWS), 1);
    const rows = x.map((_, i) => i).filter((i) => i % every === 0 || i === x.length - 1);
    this.body.setAttribute('tabindex', '0');
    this.body.setAttribute('role', 'region');
    this.body.setAttribute('aria-label', `${this.o.label}, as a table`);
    this.body.replaceChildren(h('table', { class: 'grid compact' }, h('caption', { class: 'sr' }, this.o.label),
      h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, this.o.xName ?? 'When'), series.map((s) => h('th', { scope: 'col', class: 'num' }, s.label)))),
      h('tbody', {}, rows.map((i) => h('tr', {}, h('th', { scope: 'row' }, this.o.span ? precise(x[i]) : this.o.xText?.(x[i]) ?? x[i]),
        series.map((s) => h('td', { class: 'num' }, s.y[i] === null || s.y[i] === undefined ? '–' : this.o.yText(s.y[i]))))))));
  }

  resize() {
    const width = Math.floor(this.box.clientWidth);
    if (!this.plot) this.build();
    else if (width >= 50 && width !== this.plot.width) this.plot.setSize({ width, height: this.o.height });
  }
}

// merged puts series of [x, y] pairs, each sorted by x, on one x axis. A value holds until the next one, at most until last.
export function merged(lists, last) {
  const x = [...new Set(lists.flatMap((l) => l.map((p) => p[0])))].sort((a, b) => a - b);
  if (last !== undefined && x.length && last > x.at(-1)) x.push(last);
  return { x, ys: lists.map((list) => {
    let k = 0;
    let v = null;
    return x.map((t) => {
      while (k < list.length && list[k][0] <= t) v = list[k++][1];
      return v;
    });
  }) };
}
