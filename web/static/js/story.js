// A job's history with reasons, its plans, and the choices of the current plan.

import { h, icon } from './dom.js';
import { at, hours, moment, offer, span, unplanned, usd } from './format.js';
import { runners } from './detail.js';

const LOOKS = {
  submitted: 'waiting', planned: 'planned', launched: 'launching', started: 'running', succeeded: 'succeeded', refused: 'failed', blocked: 'queued',
  preempted: 'failed', lost: 'failed', failed: 'failed', budget: 'failed', cancelled: 'cancelled', waiting: 'queued',
};

// story is a list of events, the latest first while the job is active.
export function story(data, now) {
  const over = ['succeeded', 'failed', 'cancelled'].includes(data.job.state);
  const began = at(data.job.submitted);
  const look = (e) => (e.kind === 'finished' ? data.job.state : LOOKS[e.kind] ?? 'waiting');
  const entries = over ? data.entries : data.entries.toReversed();
  const since = (e) => at(e.at) - began;
  const text = (e) => (e.text.startsWith(e.kind) ? e.text.slice(e.kind.length) : ` ${e.text}`);
  const cost = (e) => (e.usd && e.kind !== 'succeeded' ? h('span', { class: 'muted' }, ` ${usd(e.usd)}`) : '');
  return h('ol', { class: 'story', reversed: !over }, entries.map((e) => h('li', { data: { state: look(e), kind: e.kind } },
    icon(look(e)),
    h('time', { datetime: e.at, title: e.at }, moment(at(e.at), now), since(e) >= 1000 ? h('span', { class: 'muted' }, ` +${span(since(e))}`) : ''),
    h('p', {}, h('b', {}, e.kind), e.task ? h('span', { class: 'tag' }, e.task) : '', text(e), cost(e)))));
}

// plans is a table of the plans, followed by the choices of the last one.
export function plans(list, choices, job, now) {
  const { objective } = job;
  if (!list.length) return h('p', { class: 'muted' }, `${unplanned(job)}.`);
  const proof = (p) => {
    if (p.status === 'optimal') return 'proven optimal';
    return p.objective > 0 ? `at most ${((100 * (p.objective - p.bound)) / p.objective).toFixed(1)}% from optimal` : p.status;
  };
  const table = h('div', { class: 'scroll' }, h('table', { class: 'grid cards' }, h('caption', { class: 'sr' }, 'Plans'),
    h('thead', {}, h('tr', {}, ['Plan', 'When', 'Why', 'Proof'].map((t) => h('th', { scope: 'col' }, t)),
      ['Remaining cost', 'Expected time', 'On demand', 'Planned in'].map((t) => h('th', { scope: 'col', class: 'num' }, t)))),
    h('tbody', {}, list.toReversed().map((p, k) => h('tr', { class: k === 0 ? 'current' : '' },
      h('td', { class: 'lead', data: { label: 'Plan' } }, h('b', {}, String(p.version)), k === 0 ? h('span', { class: 'tag' }, 'current') : ''),
      h('td', { data: { label: 'When' } }, moment(at(p.at), now)), h('td', { data: { label: 'Why' } }, p.reason || 'first plan', p.late ? h('span', { class: 'tag' }, 'late') : ''),
      h('td', { data: { label: 'Proof' } }, proof(p)), h('td', { class: 'num', data: { label: 'Remaining cost' } }, usd(p.usd)),
      h('td', { class: 'num', data: { label: 'Expected time' } }, hours(p.hours)), h('td', { class: 'num', data: { label: 'On demand' } }, usd(p.onDemandUSD)),
      h('td', { class: 'num', data: { label: 'Planned in' } }, span(p.millis)))))));
  const shown = (choices ?? []).slice(0, 50);
  return h('div', {}, table, shown.length ? h('h3', {}, 'Why these places') : '', h('div', { class: 'choices' }, shown.map((c) => {
    const o = offer(c.chosen);
    return h('details', {}, h('summary', {}, h('b', {}, c.task), ` on ${o.cloud} ${o.zone || o.region} ${o.type} ${o.market}, `, `${usd(c.usd)}, expected to take ${hours(c.hours)}`), runners(c, objective));
  })), choices?.length > shown.length ? h('p', { class: 'muted' }, `and ${choices.length - shown.length} more`) : '');
}
