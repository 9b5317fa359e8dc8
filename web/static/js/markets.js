// Spot markets: prices, their history and forecast, and bids.

import { h, renew, set } from './dom.js';
import { get } from './api.js';
import { Chart } from './chart.js';
import { HOUR, ago, at, count, hours, offer, percent, usd } from './format.js';
import { Poll } from './poll.js';
import { Span } from './span.js';
import { table } from './table.js';

const PAGE = 200; // maximum number of markets requested
const ROWS = 100; // maximum number of rows shown

export class MarketsPage {
  constructor(root, _id, _tab, { live, fail }) {
    document.title = 'Markets – Tradewind';
    this.search = h('input', { type: 'search', placeholder: 'Find a market', 'aria-label': 'Find a market', on: { input: () => this.list() } });
    this.bid = h('input', { type: 'checkbox', on: { change: () => this.list() } });
    this.counted = h('span', { class: 'muted', role: 'status' });
    this.rows = h('div', {});
    this.span = new Span();
    this.chart = new Chart({ label: 'Price of the chosen market, US dollars an hour', height: 260, span: this.span, gutter: () => 64, yText: usd, yFrom: (lo) => 0.8 * lo });
    this.head = h('h2', {});
    this.note = h('p', { class: 'muted sub' });
    this.bids = h('div', {});
    this.detail = h('section', { class: 'card', 'aria-label': 'Chosen market', hidden: true }, this.head, this.chart.el, this.note, this.bids);
    root.replaceChildren(h('div', { class: 'title' }, h('h1', {}, 'Spot markets')), h('p', { class: 'muted sub' }, 'Markets in which machines were bought or whose price is known.'), this.detail,
      h('section', { class: 'card', 'aria-label': 'Markets' }, h('div', { class: 'filters' }, this.search, h('label', {}, this.bid, ' with machines now'), this.counted), this.rows));
    this.poll = new Poll({ live, fail, load: () => this.load(), show: (d) => this.show(d), every: 5000 });
  }

  close() {
    this.poll.close();
    this.chart.close();
  }

  async load() {
    const first = await get(`/v1/markets?limit=${PAGE}`);
    for (let next = first.next; next && first.markets.length < 5 * PAGE;) {
      const more = await get(`/v1/markets?limit=${PAGE}&after=${encodeURIComponent(next)}`);
      first.markets.push(...more.markets);
      next = more.next;
    }
    return first;
  }

  show(data) {
    this.data = data;
    this.list();
    const busiest = data.markets.toSorted((a, b) => b.bids.length - a.bids.length || (b.changes ?? 0) - (a.changes ?? 0))[0];
    this.choose(data.markets.find((m) => m.offer === this.chosen) ?? busiest);
  }

  list() {
    if (!this.data) return;
    const find = this.search.value.trim().toLowerCase();
    const all = this.data.markets.filter((m) => (!find || m.offer.toLowerCase().includes(find)) && (!this.bid.checked || m.bids.length));
    set(this.counted, all.length > ROWS ? `${ROWS} of ${count(all.length, 'market')}: find one by its name` : count(all.length, 'market'));
    const now = at(this.data.now);
    renew(this.rows, all.length ? table('Markets', ['Market', { name: 'Price', number: true }, { name: 'In 6 hours', number: true }, 'Since', 'Preempted', { name: 'Refused', number: true }, 'Bids'], all.slice(0, ROWS).map((m) => [
      name(m, () => { this.chosen = m.offer; this.choose(m); this.detail.scrollIntoView({ block: 'nearest' }); }, m.offer === this.chosen),
      m.usd ? `${usd(m.usd)}/h` : 'unknown', ahead(m), m.usd ? ago(at(m.since), now) : '–',
      m.launches ? `${m.preemptions.toLocaleString('en-US')} of ${m.launches.toLocaleString('en-US')}, in ${hours(m.heldHours)}` : '–', String(m.refusals), m.bids.length ? `${count(m.bids.reduce((n, b) => n + b.nodes, 0), 'machine')}, up to ${usd(Math.max(...m.bids.map((b) => b.maxUSD)))}` : '–',
    ])) : h('p', { class: 'muted' }, find || this.bid.checked ? 'No market matches.' : 'No spot machine has been bought yet, and no price is known.'));
  }

  // choose draws a market: its price history and forecast, and the bids.
  async choose(m) {
    this.detail.hidden = !m;
    if (!m) return;
    const other = this.chosen !== m.offer;
    this.chosen = m.offer;
    const o = offer(m.offer);
    set(this.head, `${o.cloud} ${o.zone || o.region} ${o.type}`);
    if (other || this.drawn !== m.offer) this.list();
    this.drawn = m.offer;
    const { series } = await get(`/v1/prices?offers=${encodeURIComponent(m.offer)}`).catch(() => ({ series: [] }));
    if (this.chosen !== m.offer || this.poll?.closed) return;
    this.draw(m, series[0] ?? { at: [], usd: [] });
  }

  draw(m, past) {
    const now = at(this.data.now);
    const x = [...past.at.map(at), now, ...m.forecast.map((f) => now + f.hours * HOUR)];
    const told = past.usd.length;
    const pad = (before, list) => [...Array(before).fill(null), ...list];
    const first = m.usd || null;
    this.span.grow(x[0] ?? now - HOUR, x.at(-1) ?? now);
    const series = [{ label: 'Price', colour: '--c1', stepped: true, y: [...past.usd, first, ...m.forecast.map(() => null)] },
      { label: 'Expected', colour: '--c2', dash: [6, 3], y: pad(told, [first, ...m.forecast.map((f) => f.usd)]) },
      { label: 'One in ten below', colour: '--c8', dash: [2, 3], width: 1, y: pad(told, [first, ...m.forecast.map((f) => f.low)]) },
      { label: 'Nine in ten below', colour: '--c8', dash: [2, 3], width: 1, y: pad(told, [first, ...m.forecast.map((f) => f.high)]) }];
    const most = Math.max(0, ...m.bids.map((b) => b.maxUSD));
    const near = most <= 1.5 * Math.max(...series.flatMap((s) => s.y)); // a bid far above the price would flatten its line; the table has it
    const marks = [{ x: now, colour: '--muted', label: 'now' }, ...(most && near ? [{ y: most, colour: '--c3', label: `bid ${usd(most)}` }] : [])];
    this.chart.el.hidden = !m.usd;
    this.chart.show({ x, series, marks });
    set(this.note, m.usd ? `Watched for ${hours(m.seenHours ?? 0)}; the price moved to another band, each about 40% wide, ${Math.round(m.changes ?? 0)} times. Older hours and moves count less: half after a week. ${m.launches ? `Of ${count(m.launches, 'attempt')} there, ${percent(m.preemptions / m.launches)} were preempted.` : ''}` : 'Its price is unknown.');
    renew(this.bids, m.bids.length ? table('Bids', ['Job', { name: 'Task', number: true }, { name: 'Machines', number: true }, { name: 'Pays', number: true }, { name: 'Up to', number: true }], m.bids.slice(0, 50).map((b) => [
      h('a', { href: `#/jobs/${encodeURIComponent(b.job)}/timeline` }, b.job), String(b.task), String(b.nodes), `${usd(b.rateUSD)}/h`, b.maxUSD ? `${usd(b.maxUSD)}/h` : 'no limit',
    ])) : '');
  }
}

function name(m, open, chosen) {
  const o = offer(m.offer);
  return h('button', { type: 'button', class: 'link', 'aria-pressed': String(chosen), on: { click: open } }, h('b', {}, o.cloud), ` ${o.zone || o.region} `, h('span', { class: 'muted' }, o.type));
}

function ahead(m) {
  const f = m.forecast.find((x) => x.hours === 6);
  if (!f) return '–';
  const share = f.usd / m.usd - 1;
  return h('span', {}, usd(f.usd), h('span', { class: 'muted' }, Math.abs(share) < 0.005 ? ' ±0%' : ` ${share > 0 ? '+' : '−'}${percent(Math.abs(share))}`));
}
