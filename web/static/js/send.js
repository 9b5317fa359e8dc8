// What changes something: requests that bear the token itself. The cookie only reads, so that no other page can make a browser do
// anything; the token is asked for when it is first needed, and kept by this page alone, for as long as it is open.

import { answer } from './api.js';
import { ask } from './dialog.js';
import { h } from './dom.js';

let token;

// Unsent says that somebody did not want to give the token.
export class Unsent extends Error {}

// tokenIn takes the token out of what was pasted: the token, or the address that has it.
function tokenIn(text) {
  const found = text.match(/[?&]token=([^&#\s]+)/);
  return found ? decodeURIComponent(found[1]) : text.trim();
}

async function askToken(why) {
  const input = h('input', { type: 'password', class: 'field', autocomplete: 'current-password', 'aria-label': 'Token', required: true });
  const yes = await ask({
    title: 'The broker’s token', verb: 'Go on',
    content: h('div', { class: 'stack' }, why ? h('p', { class: 'wrong', role: 'alert' }, why) : '',
      h('p', {}, 'Being signed in only lets this page read. To change something it needs the token: it is in the address that ', h('code', {}, 'tradewind up'), ' or ', h('code', {}, 'tradewind dashboard'), ' printed. Paste the token, or the whole address.'),
      input, h('p', { class: 'muted' }, 'It is kept until this page is closed or loaded anew, and nowhere else.')),
    check: () => (tokenIn(input.value) ? '' : 'Paste the token.'),
  });
  if (!yes) throw new Unsent('It was not done: the token was not given.');
  token = tokenIn(input.value);
}

// send sends a request with a body and headers and returns the JSON of its answer. It fails with a Problem, or with Unsent.
export async function send(method, path, body, headers = {}) {
  let why = '';
  for (;;) {
    if (!token) await askToken(why);
    const res = await fetch(path, { method, body, headers: { ...headers, Authorization: `Bearer ${token}` } });
    if (res.status !== 401) return answer(res);
    token = undefined;
    why = 'That is not this broker’s token.';
  }
}

// key makes a request one that may be sent again: the same key is the same request.
export function key() {
  return crypto.getRandomValues(new Uint32Array(4)).join('-');
}
