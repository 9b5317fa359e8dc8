// Queues with their current and past usage, and the machines of pools.

import { code, h, renew } from './dom.js';
import { get } from './api.js';
import { drain, resumeQueue, suspendQueue } from './actions.js';
import { at, count, moment, usd } from './format.js';
import { Poll } from './poll.js';
import { pools } from './pools.js';
import { share, table } from './table.js';
import { Usage } from './usage.js';

const MOST = 1000; // maximum number of queues shown

export class CapacityPage {
  constructor(root, _id, _tab, { live, fail }) {
    document.title = 'Capacity – Tradewind';
    this.queues = h('div', {});
    this.pools = h('div', {});
    this.usage = new Usage();
    root.replaceChildren(h('div', { class: 'title' }, h('h1', {}, 'Capacity')),
      h('section', { class: 'card', 'aria-label': 'Queues' }, h('h2', {}, 'Queues'), this.queues),
      this.usage.el, h('section', { class: 'card', 'aria-label': 'Pools' }, h('h2', {}, 'Your own machines'), this.pools));
    this.poll = new Poll({ live, fail, load: () => this.load(), show: (d) => this.show(d) });
  }

  close() {
    this.poll.close();
    this.usage.close();
  }

  async load() {
    const [q, p] = await Promise.all([get('/v1/queues?waiting=true'), get('/v1/pools'), this.usage.look()]);
    return { queues: q.queues, simulated: q.simulated, waiting: q.waiting ?? {}, pools: p.pools, now: p.now };
  }

  show({ queues, simulated, waiting, pools: list, now }) {
    const again = () => this.poll.look();
    renew(this.queues, queues.length
      ? table('Queues', ['Queue', 'Tasks', 'vCPUs', 'This month', 'Share', 'Waiting', 'Actions'], queues.slice(0, MOST).map((q) => [
        name(q, at(now)), share(q.running, q.maxRunning, 'running'), share(q.vcpu, q.maxVCPU, 'in use'), month(q, simulated), deserved(q),
        (waiting[q.name] ?? 0) >= 1000 ? '1,000 or more' : count(waiting[q.name] ?? 0, 'task'), buttons(q, again),
      ]))
      : h('div', { class: 'stack' }, h('p', { class: 'muted' }, 'No queue has been used yet. A job without one runs in “default”. This creates one with a quota:'), code('tradewind queue create research --max-vcpu 64')));
    this.usage.limits(queues);
    renew(this.pools, pools(list, at(now), (pool, machine, how) => drain(pool, machine, how, again)));
  }
}

function name(q, now) {
  const by = q.suspended?.since ? `suspended ${moment(at(q.suspended.since), now)}${q.suspended.by ? ` by ${q.suspended.by}` : ''}${q.suspended.reason ? `: ${q.suspended.reason}` : ''}` : 'closed';
  return h('span', {}, h('b', {}, q.name), q.closed ? h('span', { class: 'tag' }, 'suspended') : '', q.preempt ? h('span', { class: 'tag' }, 'preempts') : '',
    q.description || q.parent || q.closed ? h('span', { class: 'muted block' }, [q.description, q.parent ? `of ${q.parent}` : '', q.closed ? by : ''].filter(Boolean).join(' · ')) : '');
}

// month is what a queue and the queues below it have spent and reserved this month, and their budget. It is an estimate
// if nothing was bought.
function month(q, simulated) {
  const m = q.month ?? {};
  const used = (m.spentUSD ?? 0) + (m.reservedUSD ?? 0) + (m.belowUSD ?? 0);
  return share(used, q.max?.usdPerMonth, simulated ? 'est.' : '', usd);
}

function deserved(q) {
  return [q.weight > 1 ? `weight ${q.weight}` : '', q.deservedVCPU ? `deserves ${q.deservedVCPU.toLocaleString('en-US')} vCPUs` : '', q.guaranteedVCPU ? `${q.guaranteedVCPU.toLocaleString('en-US')} guaranteed` : '']
    .filter(Boolean).join(', ') || '–';
}

function buttons(q, again) {
  const button = (text, run, danger) => h('button', { type: 'button', class: danger ? 'quiet small danger' : 'quiet small', 'aria-label': `${text} queue ${q.name}`, on: { click: run } }, text);
  return h('div', { class: 'row' }, q.closed ? button('Resume', () => resumeQueue(q, again))
    : [button('Suspend', () => suspendQueue(q, false, again)), button('Drain', () => suspendQueue(q, true, again), true)]);
}
