// Pools of existing machines, with the tasks that run on each.

import { code, h } from './dom.js';
import { ago, at, count } from './format.js';
import { share, table } from './table.js';

// pools lists pools. act is called with the pool, the machine (or ''), and one of drain, now, undo.
export function pools(list, now, act) {
  if (!list.length) return h('div', { class: 'stack' }, h('p', { class: 'muted' }, 'There are no pools. This creates one, named lab, and prints how machines join it:'), code('tradewind pool add lab'));
  return h('div', { class: 'stack' }, list.map((p) => h('div', { class: 'pool' },
    h('div', { class: 'head' }, h('h3', {}, p.name), p.draining ? h('span', { class: 'tag' }, 'draining') : '', h('span', { class: 'muted' }, [p.description, p.place].filter(Boolean).join(' · ')),
      h('div', { class: 'row after' }, buttons(`pool ${p.name}`, p.draining, (how) => act(p.name, '', how)))),
    h('div', { class: 'row wide-gap' }, h('span', {}, share(p.used.cpus, p.capacity.cpus, 'vCPUs')), h('span', {}, count(p.machines.length, 'machine'))),
    p.machines.length ? table(`Machines of ${p.name}`, ['Machine', 'State', 'Runs', 'Last seen', 'Actions'], p.machines.map((m) => [
      h('span', {}, h('b', {}, m.id), h('span', { class: 'muted block' }, m.type)), m.reason ? h('span', {}, m.state, h('span', { class: 'muted block' }, m.reason)) : m.state,
      m.tasks.length ? m.tasks.map((t) => h('a', { class: 'block', href: `#/jobs/${encodeURIComponent(t.job)}` }, `${t.jobName || t.job}: ${t.task}`)) : '–', ago(at(m.seen), now),
      buttons(`machine ${m.id}`, ['draining', 'drained', 'leaving'].includes(m.state), (how) => act(p.name, m.id, how)),
    ])) : h('p', { class: 'muted' }, 'No machine has joined it yet.'))));
}

function buttons(what, drained, run) {
  const button = (text, how, danger) => h('button', { type: 'button', class: danger ? 'quiet small danger' : 'quiet small', 'aria-label': `${text}: ${what}`, on: { click: () => run(how) } }, text);
  return h('div', { class: 'row' }, drained ? button('Put back to work', 'undo') : [button('Drain', 'drain'), button('Empty now', 'now', true)]);
}
