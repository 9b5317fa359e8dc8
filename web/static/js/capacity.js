// Queues, the places that are not tried now, and events that were given up.

import { h, icon, set } from './dom.js';
import { get } from './api.js';
import { ago, at, count, span } from './format.js';

const EVERY = 3000; // ms between two looks
const SELDOM = 30000; // where nothing has changed for a while

function table(label, heads, rows) {
  return h('div', { class: 'scroll' }, h('table', { class: 'grid cards' }, h('caption', { class: 'sr' }, label),
    h('thead', {}, h('tr', {}, heads.map((t) => h('th', { scope: 'col' }, t)))),
    h('tbody', {}, rows.map((cells) => h('tr', {}, cells.map((c, k) => h('td', { data: { label: heads[k] }, class: k === 0 ? 'lead' : '' }, c)))))));
}

// share draws how much of a quota is in use.
function share(used, most, unit) {
  const shown = `${Math.round(used).toLocaleString('en-US')}${most ? ` of ${most.toLocaleString('en-US')}` : ''} ${unit}`;
  if (!most) return shown;
  const part = h('span', { class: 'part', data: { kind: used >= most ? 'bad' : 'plain' } });
  part.style.setProperty('width', `${Math.min((100 * used) / most, 100)}%`);
  return h('span', { class: 'with-meter' }, h('span', { class: 'meter', 'aria-hidden': 'true' }, part), h('span', { class: 'tally' }, shown));
}

function blocked(b) {
  const where = [b.cloud, b.region, b.zone].filter(Boolean).join(' ');
  const what = [b.instanceType || (b.family ? `${b.family} machines` : ''), b.market].filter(Boolean).join(', ');
  return h('span', {}, h('b', {}, where), what ? h('span', { class: 'muted' }, ` ${what}`) : '');
}

export class CapacityPage {
  constructor(root, _id, _tab, { live, fail }) {
    this.live = live;
    this.fail = fail;
    this.root = root;
    this.queues = h('div', {});
    this.blocks = h('div', {});
    this.dead = h('section', { class: 'card', hidden: true });
    document.title = 'Capacity – Tradewind';
    root.replaceChildren(h('div', { class: 'title' }, h('h1', {}, 'Capacity')),
      h('section', { class: 'card', 'aria-label': 'Queues' }, h('h2', {}, 'Queues'), this.queues),
      h('section', { class: 'card', 'aria-label': 'Places not tried now' }, h('h2', {}, 'Places not tried now'), this.blocks), this.dead);
    this.wait = EVERY;
    this.seen = () => document.hidden || this.load();
    document.addEventListener('visibilitychange', this.seen);
    this.load();
  }

  close() {
    clearTimeout(this.timer);
    document.removeEventListener('visibilitychange', this.seen);
    this.closed = true;
  }

  // load looks, the rarer the longer nothing has changed; a page that nobody sees does not look at all.
  async load() {
    clearTimeout(this.timer);
    if (document.hidden && this.last) return;
    try {
      const [q, b, d] = await Promise.all([get('/v1/queues?waiting=true'), get('/v1/blocks'), get('/v1/deadletters').catch((err) => {
        if (err.status !== 501) throw err;
        return { deadLetters: [] };
      })]);
      if (this.closed) return;
      this.live('live');
      // Drawn anew only when something differs, so that a selection is not lost.
      const news = JSON.stringify([q, b.blocks, d]);
      this.wait = news === this.last ? Math.min(1.5 * this.wait, SELDOM) : EVERY;
      if (news !== this.last) this.show(q.queues, b, d.deadLetters, q.waiting ?? {});
      this.last = news;
    } catch (err) {
      if (this.closed) return;
      if (err.status || !this.last) return this.fail(err);
      this.live('lost');
    }
    this.timer = setTimeout(() => this.load(), this.wait);
  }

  show(queues, { blocks, now }, letters, waiting) {
    this.queues.replaceChildren(queues.length
      ? table('Queues', ['Queue', 'Tasks', 'vCPUs', 'Waiting'], queues.map((q) => [
        h('span', {}, h('b', {}, q.name), q.description ? h('span', { class: 'muted' }, ` ${q.description}`) : ''),
        share(q.running, q.maxRunning, 'running'), share(q.vcpu, q.maxVCPU, 'in use'), (waiting[q.name] ?? 0) >= 1000 ? '1,000 or more' : count(waiting[q.name] ?? 0, 'task'),
      ]))
      : h('p', { class: 'muted' }, 'No queue has been used yet. A job without one runs in “default”.'));
    this.blocks.replaceChildren(blocks.length
      ? table('Places not tried now', ['Where', 'Why', 'Since', 'Tried again'], blocks.map((b) => [
        blocked(b), h('span', {}, h('span', { class: 'tag' }, b.kind), ` ${b.reason}`), ago(at(b.at), at(now)), `in ${span(at(b.until) - at(now))}`,
      ]))
      : h('p', { class: 'muted ok' }, icon('succeeded'), ' Every place is open: nothing has failed for lack of capacity, quota or credentials lately.'));
    this.dead.hidden = !letters.length;
    if (!letters.length) return;
    this.dead.replaceChildren(h('h2', {}, 'Events that were given up'),
      h('p', { class: 'muted' }, 'They can be delivered again with ', h('code', {}, 'POST /v1/deadletters/redrive'), ' once what failed them is mended.'),
      table('Events that were given up', ['Event', 'Function', 'Why', 'When'], letters.map((l) => [
        h('span', {}, h('b', {}, l.type || 'unknown'), l.group ? h('span', { class: 'muted' }, ` ${l.group}`) : ''), l.queue || 'none', l.reason, ago(at(l.at), at(now)),
      ])));
    set(this.dead.querySelector('h2'), `${count(letters.length, 'event')} given up`);
  }
}
