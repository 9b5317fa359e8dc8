// Keyboard shortcuts. Single keys do nothing while the user types in a field.

import { h } from './dom.js';
import { tell } from './dialog.js';

const PAGES = { j: ['#/', 'Jobs'], p: ['#/plan', 'Plan a job'], c: ['#/capacity', 'Capacity'], m: ['#/markets', 'Spot markets'], l: ['#/clouds', 'Clouds'] };
const SAID = [['?', 'This list'], ['/', 'Find: the first search field'], ['1 … 6', 'The tabs of a job'], ['Esc', 'Close the open panel'],
  ['Arrow keys', 'Move through the drawing, the timeline, a chart or the tabs'], ['+ and −', 'Zoom the drawing, the timeline or a chart'], ['Enter', 'Open the focused element']];
const WAIT = 1200; // ms between g and the letter after it

let went = 0;

function typing(el) {
  return el.matches?.('input, textarea, select, [contenteditable]') && !el.matches('input[type="checkbox"]');
}

function help() {
  const line = (key, text) => h('div', {}, h('dt', {}, h('kbd', {}, key)), h('dd', {}, text));
  tell('Shortcuts', h('dl', { class: 'facts shortcuts' }, Object.entries(PAGES).map(([k, [, name]]) => line(`g ${k}`, name)), SAID.map(([k, text]) => line(k, text))));
}

export function listen() {
  document.addEventListener('keydown', (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || typing(e.target) || document.querySelector('dialog[open]')) return;
    const before = performance.now() - went < WAIT;
    went = 0;
    if (before && PAGES[e.key]) location.hash = PAGES[e.key][0];
    else if (e.key === 'g') went = performance.now();
    else if (e.key === '?') help();
    else if (e.key === '/') document.querySelector('main input[type="search"]')?.focus();
    else if (e.key === 'Escape') document.querySelector('.attempt-card .tool, .detail .tool, .toast .tool')?.click();
    else if (/^[1-9]$/.test(e.key)) document.querySelectorAll('main [role="tab"]')[Number(e.key) - 1]?.click();
    else return;
    e.preventDefault();
  });
  document.getElementById('keys')?.addEventListener('click', help);
}
