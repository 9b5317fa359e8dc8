// The prices of the spot markets that a job used, on the timeline's axis.

import { h, set } from './dom.js';
import { get } from './api.js';
import { Chart, colour, dash, merged } from './chart.js';
import { at, offer, usd } from './format.js';

const MOST = 6; // maximum number of markets
const ALIKE = 2.5; // the factor up to which prices have one chart
const EVERY = 15000; // ms between two price requests for an active job

// used lists the spot markets of attempts, the most used first, with the prices that the attempts paid.
export function used(bars) {
  const markets = new Map();
  for (const { attempt: a, on, from, to, where } of bars) {
    if (where.market !== 'spot') continue;
    const id = (on?.offer ?? a.offerID).replace(/\/spot$/, '');
    const m = markets.get(id) ?? { id, held: 0, told: [], bids: [] };
    m.held += to - from;
    const bought = at(a.launched);
    if (bought !== undefined && !on?.worker) {
      m.told.push([bought, a.offer.usdPerHour - (a.surchargeUSD ?? 0)]);
      if (a.rateUSD) m.told.push([to, a.rateUSD - (a.surchargeUSD ?? 0)]);
    }
    if (a.maxUSD) m.bids.push({ from: [from, a.maxUSD], to: [to, a.maxUSD] });
    markets.set(id, m);
  }
  for (const m of markets.values()) m.told.sort((p, q) => p[0] - q[0]);
  return [...markets.values()].sort((p, q) => q.held - p.held);
}

// groups puts lines together whose highest prices are alike, the highest first. Each group has a chart, so that every line is legible.
export function groups(lines) {
  const out = [];
  for (const line of lines.toSorted((p, q) => q.top - p.top)) {
    if (out.length && out.at(-1)[0].top <= ALIKE * line.top) out.at(-1).push(line);
    else out.push([line]);
  }
  return out;
}

function name(id) {
  const o = offer(id);
  return `${o.cloud} ${o.zone || o.region} ${o.type}`;
}

export class Prices {
  constructor({ span, gutter }) {
    this.span = span;
    this.gutter = gutter;
    this.charts = [];
    this.drawn = h('div', {});
    this.bids = h('input', { type: 'checkbox', on: { change: () => this.draw() } });
    this.note = h('p', { class: 'muted sub' });
    this.el = h('section', { class: 'under', 'aria-label': 'Spot prices' }, h('div', { class: 'head' }, h('h3', {}, 'Prices of their spot markets'), h('label', { class: 'check' }, this.bids, ' Bids')), this.drawn, this.note);
    this.series = new Map();
  }

  close() {
    for (const c of this.charts) c.close();
  }

  // show draws the markets of some attempts up to a time, and requests their prices if they are due.
  async show(bars, now, over) {
    this.markets = used(bars);
    this.now = now;
    this.el.hidden = !this.markets.length;
    if (!this.markets.length) return;
    this.draw();
    const wanted = this.markets.slice(0, MOST).map((m) => m.id);
    const key = wanted.join(',');
    if (this.asking || (this.key === key && (over || performance.now() - this.asked < EVERY))) return;
    this.asking = true;
    try {
      const { series } = await get(`/v1/prices?offers=${encodeURIComponent(key)}`);
      this.series = new Map(series.map((s) => [s.offer, s.at.map((t, i) => [at(t), s.usd[i]])]));
      this.key = key;
    } catch {
      // the prices that the attempts paid are shown instead
    }
    this.asked = performance.now();
    this.asking = false;
    this.draw();
  }

  draw() {
    const shown = this.markets.slice(0, MOST);
    const lists = shown.map((m) => {
      const told = this.series.get(m.id) ?? [];
      const before = told.findLastIndex((p) => p[0] <= this.span.all[0]);
      const list = told.length ? told.slice(Math.max(before, 0)) : m.told;
      return list.map(([t, v]) => [Math.max(t, this.span.all[0]), v]).filter(([t]) => t <= this.now);
    });
    const all = groups(shown.map((m, i) => ({ m, i, list: lists[i], top: Math.max(0, ...lists[i].map((p) => p[1])) })));
    while (this.charts.length > all.length) this.charts.pop().close();
    all.forEach((group, k) => {
      this.charts[k] ??= new Chart({ height: 150, gutter: this.gutter, span: this.span, yText: usd, yFrom: (lo) => 0.8 * lo });
      this.charts[k].o.label = `Spot prices of ${group.map((g) => name(g.m.id)).join(', ')}, US dollars an hour`;
      const { x, ys } = merged(group.map((g) => g.list), this.now);
      this.charts[k].show({ x, series: group.map((g, n) => ({ label: name(g.m.id), colour: colour(g.i), dash: dash(g.i), stepped: true, y: ys[n] })),
        lines: this.bids.checked ? group.flatMap((g) => g.m.bids.slice(0, 200).map((b) => ({ ...b, colour: colour(g.i) }))) : [] });
    });
    if (this.drawn.children.length !== all.length) this.drawn.replaceChildren(...this.charts.map((c) => c.el));
    const silent = shown.filter((m) => !(this.series.get(m.id) ?? []).length).length;
    const rest = this.markets.length - shown.length;
    set(this.note, [silent ? `${silent === shown.length ? 'The prices are unknown' : `The prices of ${silent} of the markets are unknown`}: the chart shows what the attempts paid.` : '', rest > 0 ? `${rest} less used markets are not shown.` : ''].filter(Boolean).join(' '));
  }
}
