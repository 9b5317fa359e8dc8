// The clouds: whether machines can be bought there, quotas, places that are currently blocked, and failed events.

import { h, icon, renew, set } from './dom.js';
import { get } from './api.js';
import { redrive } from './actions.js';
import { ago, at, count, span } from './format.js';
import { Poll } from './poll.js';
import { share, table } from './table.js';

const ASK = 120000; // ms between two checks of the clouds themselves

function blocked(b) {
  const where = [b.cloud, b.region, b.zone].filter(Boolean).join(' ');
  const what = [b.instanceType || (b.family ? `${b.family} machines` : ''), b.market].filter(Boolean).join(', ');
  return h('span', {}, h('b', {}, where), what ? h('span', { class: 'muted' }, ` ${what}`) : '');
}

const absent = (value) => (err) => {
  if (err.status !== 501) throw err;
  return value;
};

export class CloudsPage {
  constructor(root, _id, _tab, { live, fail }) {
    document.title = 'Clouds – Tradewind';
    this.asked = h('span', { class: 'muted', role: 'status' });
    this.health = h('div', { class: 'clouds' });
    this.quotas = h('div', {});
    this.blocks = h('div', {});
    this.dead = h('section', { class: 'card', 'aria-label': 'Failed events', hidden: true });
    this.again = h('button', { type: 'button', class: 'quiet', on: { click: () => this.ask(true) } }, 'Check again');
    root.replaceChildren(h('div', { class: 'title' }, h('h1', {}, 'Clouds'), this.again, this.asked), this.health,
      h('section', { class: 'card', 'aria-label': 'Blocked places' }, h('h2', {}, 'Blocked places'), this.blocks),
      h('section', { class: 'card', 'aria-label': 'Quotas' }, h('h2', {}, 'Quotas'), this.quotas), this.dead);
    this.poll = new Poll({ live, fail, load: () => this.load(), show: (d) => this.show(d) });
    this.ask();
    this.timer = setInterval(() => document.hidden || this.ask(), ASK);
  }

  close() {
    this.poll.close();
    clearInterval(this.timer);
    this.closed = true;
  }

  async load() {
    const [b, d] = await Promise.all([get('/v1/blocks'), get('/v1/deadletters').catch(absent({ deadLetters: [] }))]);
    return { blocks: b.blocks, now: b.now, letters: d.deadLetters };
  }

  // ask has the broker check its clouds, which takes a moment.
  async ask(said) {
    this.again.disabled = true;
    set(this.asked, 'Checking the clouds…');
    try {
      this.clouds = (await get('/v1/clouds')).clouds;
      set(this.asked, '');
      if (!this.closed) this.tell();
    } catch (err) {
      set(this.asked, err.message);
    }
    this.again.disabled = false;
    if (said) this.again.focus();
  }

  show({ blocks, now, letters }) {
    this.list = blocks;
    this.tell();
    this.blocks.replaceChildren(blocks.length
      ? table('Blocked places', ['Where', 'Why', 'Since', 'Tried again'], blocks.map((b) => [
        blocked(b), h('span', {}, h('span', { class: 'tag' }, b.kind), ` ${b.reason}`), ago(at(b.at), at(now)), `in ${span(Math.max(at(b.until) - at(now), 0))}`,
      ]))
      : h('p', { class: 'muted ok' }, icon('succeeded'), ' Every place is open: nothing has failed recently for lack of capacity, quota or credentials.'));
    this.dead.hidden = !letters.length;
    if (!letters.length) return;
    renew(this.dead, h('div', { class: 'head' }, h('h2', {}, `${count(letters.length, 'failed event')}`), h('button', { type: 'button', class: 'quiet after', on: { click: () => redrive(() => this.poll.look()) } }, 'Deliver them again')),
      table('Failed events', ['Event', 'Function', 'Why', 'When'], letters.map((l) => [
        h('span', {}, h('b', {}, l.type || 'unknown'), l.group ? h('span', { class: 'muted' }, ` ${l.group}`) : ''), l.queue || 'none', l.reason, ago(at(l.at), at(now)),
      ])));
  }

  // tell draws each cloud's health: the result of its check, and its blocked places.
  tell() {
    const clouds = this.clouds ?? [];
    const blocksOf = (name) => (this.list ?? []).filter((b) => b.cloud === name).length;
    this.health.replaceChildren(...clouds.map((c) => {
      const fatal = c.missing.some((m) => m.fatal);
      const shut = blocksOf(c.name);
      const state = fatal ? 'failed' : c.missing.length || shut ? 'launching' : 'succeeded';
      const text = fatal ? 'nothing can be bought' : c.missing.length ? 'something is missing' : shut ? `${count(shut, 'place')} blocked` : c.played ? 'simulated' : 'open';
      return h('section', { class: 'card cloud', 'aria-label': c.name }, h('div', { class: 'head' }, h('h2', {}, c.name), h('span', { class: 'badge', data: { state } }, icon(state === 'launching' ? 'queued' : state), text)),
        h('dl', { class: 'facts' }, fact('Machines', `${c.machines.toLocaleString('en-US')} running`), c.played ? fact('Simulated', 'on the broker’s computer: nothing is bought') : '', c.identity ? fact('As', c.identity) : '',
          c.account ? fact('Account', c.account) : '', c.regions?.length ? fact('Regions', c.regions.join(', ')) : ''),
        c.missing.map((m) => h('div', { class: 'warning', data: { state: m.fatal ? 'failed' : 'launching' } }, icon(m.fatal ? 'failed' : 'queued'), h('span', {}, m.what, m.mend ? h('code', { class: 'block' }, m.mend) : ''))));
    }));
    const quotas = clouds.flatMap((c) => (c.quotas ?? []).map((q) => [h('span', {}, h('b', {}, c.name), ` ${q.name}`), q.region || 'everywhere', q.limit ? share(q.used, q.limit, 'used') : 'none allowed']));
    this.quotas.replaceChildren(quotas.length ? table('Quotas', ['Limit', 'Region', 'Used'], quotas)
      : h('p', { class: 'muted' }, clouds.length && clouds.every((c) => c.played) ? 'Simulated clouds have no quotas.' : 'The clouds reported no quotas.'));
  }
}

function fact(label, value) {
  return h('div', {}, h('dt', {}, label), h('dd', {}, value));
}
