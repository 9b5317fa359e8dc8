// Tables whose rows become cards on narrow screens.

import { h } from './dom.js';
import { amount } from './format.js';

// table creates a table from rows of cells. Columns are names, or { name, number }.
export function table(label, columns, rows) {
  const cols = columns.map((c) => (typeof c === 'string' ? { name: c } : c));
  return h('div', { class: 'scroll' }, h('table', { class: 'grid cards' }, h('caption', { class: 'sr' }, label),
    h('thead', {}, h('tr', {}, cols.map((c) => h('th', { scope: 'col', class: c.number ? 'num' : '' }, c.name)))),
    h('tbody', {}, rows.map((cells) => h('tr', {}, cells.map((c, k) => h('td', { data: { label: cols[k].name }, class: k === 0 ? 'lead' : cols[k].number ? 'num' : '' }, c)))))));
}

// share draws how much of a limit is in use.
export function share(used, most, unit, write = amount) {
  const shown = `${write(used)}${most ? ` of ${write(most)}` : ''} ${unit}`.trim();
  if (!most) return shown;
  const part = h('span', { class: 'part', data: { kind: used >= most ? 'bad' : 'plain' } });
  part.style.setProperty('width', `${Math.min((100 * used) / most, 100)}%`);
  return h('span', { class: 'with-meter' }, h('span', { class: 'meter', 'aria-hidden': 'true' }, part), h('span', { class: 'tally' }, shown));
}
