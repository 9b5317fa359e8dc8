// A message that reports a result and then disappears.

import { h, say } from './dom.js';

const FOR = 8000; // ms

export function toast(text, wrong = false) {
  say(text);
  document.querySelector('.toast')?.remove();
  const close = h('button', { type: 'button', class: 'tool', 'aria-label': 'Close' }, '✕');
  const el = h('div', { class: wrong ? 'toast bad' : 'toast' }, h('span', {}, text), close);
  close.addEventListener('click', () => el.remove());
  document.body.append(el);
  if (!wrong) setTimeout(() => el.remove(), FOR);
}
