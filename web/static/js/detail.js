// The panel of a task: where it runs, its attempts, and why it is placed there.

import { badge, h } from './dom.js';
import { at, count, failure, hours, moment, offer, percent, span, stateOf, usd } from './format.js';
import { moved } from './moves.js';
import { taken, warning, where } from './tasks.js';

// attempt describes one attempt of a task and the reason for its place.
function attempt(a, job, task) {
  const why = a.number > 1 ? moved(job, task, a) : '';
  const o = offer(a.offerID);
  const began = at(a.launched) ?? at(a.admitted);
  const ended = at(a.ended);
  const facts = [
    began === undefined ? '' : moment(began, job.now()),
    began === undefined ? '' : span((ended ?? job.now()) - began),
    a.usd ? usd(a.usd) : '',
    a.resumedFrom || a.resumed > 0 ? `resumed at ${percent(a.resumed ?? 0)}` : '',
    a.maxUSD ? `bid ${usd(a.maxUSD)}/h` : '',
  ].filter(Boolean);
  return h('li', { data: { outcome: a.outcome || 'lasting' } },
    h('div', {}, h('b', {}, `${a.number}`), ' ', o ? `${o.cloud} ${o.zone || o.region} ${o.type}` : a.offerID, ' ',
      h('span', { class: 'tag', data: { market: o?.market } }, o?.market ?? '')),
    h('div', { class: 'muted' }, [a.outcome || 'in progress', ...facts].join(' · ')),
    failure(a) ? h('div', { class: 'reason' }, failure(a)) : '',
    why ? h('details', { class: 'behind' }, h('summary', {}, 'Why it moved here'), h('p', {}, why)) : '');
}

// spot describes a place in two lines.
function spot(id) {
  const o = offer(id);
  return h('span', { class: 'offer' }, h('span', {}, h('b', {}, o.cloud), ` ${o.zone || o.region}`), h('span', { class: 'muted' }, `${o.type} ${o.market}`));
}

// runners is a table of the next best places.
export function runners(why, objective) {
  if (!why?.runners?.length) return '';
  const unit = objective === 'makespan' ? (v) => hours(v) : usd;
  return h('table', { class: 'grid compact' },
    h('caption', {}, 'Next best places'),
    h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Place'), h('th', { scope: 'col', class: 'num' }, 'Cost'), h('th', { scope: 'col', class: 'num' }, 'Expected time'),
      h('th', { scope: 'col', class: 'num' }, 'Additional cost'))),
    h('tbody', {}, why.runners.map((r) => h('tr', {}, h('td', {}, spot(r.id)), h('td', { class: 'num' }, usd(r.usd)), h('td', { class: 'num' }, hours(r.hours)),
      h('td', { class: 'num' }, unit(r.adds))))));
}

// readiness reports how many replicas of a service are ready.
function readiness(job, service) {
  const all = job.tasks.filter((t) => t.service === service);
  return `${service}: ${all.filter((t) => t.ready).length} of ${count(all.length, 'replica')} ready`;
}

// detail is the panel of a task.
export function detail(job, index, { close, log, why }) {
  const task = job.tasks[index];
  const tries = job.attemptsOf(index);
  const took = taken(task, job.now());
  const fact = (label, value) => (value ? h('div', {}, h('dt', {}, label), h('dd', {}, value)) : '');
  const names = (list) => list.slice(0, 6).map((i) => job.tasks[i].name).join(', ') + (list.length > 6 ? ` and ${list.length - 6} more` : '');
  return h('section', { class: 'detail', 'aria-label': `Task ${task.name}` },
    h('div', { class: 'head' }, h('h3', {}, task.name), badge(stateOf(task)),
      h('button', { type: 'button', class: 'tool', 'aria-label': 'Close', title: 'Close', on: { click: close } }, '✕')),
    task.reason ? warning(task.reason) : '',
    task.waits ? warning(task.waits, 'queued') : '',
    task.unready ? warning(`No longer ready: ${task.unready}`, 'queued') : '',
    h('dl', { class: 'facts' },
      fact('Where', where(task)),
      fact('Service', task.service ? readiness(job, task.service) : ''),
      fact('Address', task.ready ? task.address : ''),
      fact('Price', task.usdPerHour ? `${usd(task.usdPerHour)} an hour${task.nodes > 1 ? ' each' : ''}` : ''),
      fact('Time', task.service ? (took === undefined ? '' : span(took)) : took === undefined ? (task.hours ? `${hours(task.hours)} expected` : '') : `${span(took)}${task.hours ? ` of ${hours(task.hours)} expected` : ''}`),
      fact('Saved', task.progress && task.state !== 'succeeded' ? percent(task.progress) : ''),
      fact('Cost', job.cost(task) > 0 ? usd(job.cost(task)) : ''),
      fact('Kept', task.keptUntil ? `its machine, until ${moment(at(task.keptUntil), job.now())}: open it with tradewind shell` : ''),
      fact('Waits for', task.after?.length ? names(task.after) : '')),
    tries.length ? h('h4', {}, count(tries.length, 'attempt')) : '',
    tries.length ? h('ol', { class: 'attempts' }, tries.toReversed().map((a) => attempt(a, job, task))) : '',
    tries.length ? h('button', { type: 'button', class: 'quiet', on: { click: () => log(index) } }, 'Show its log') : '',
    runners(why, job.view.objective));
}
