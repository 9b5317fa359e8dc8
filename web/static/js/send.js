// Requests that change something. They need the token: the cookie only allows reading and planning, so that no other site can make the
// browser change anything. The page asks for the token when it is first needed, and keeps it in memory while it is open.

import { answer } from './api.js';
import { ask } from './dialog.js';
import { h } from './dom.js';

let token;

// Unsent is the error if the user does not enter the token.
export class Unsent extends Error {}

// tokenIn extracts the token from the pasted text: the token itself, or the address that contains it.
function tokenIn(text) {
  const found = text.match(/[?&]token=([^&#\s]+)/);
  return found ? decodeURIComponent(found[1]) : text.trim();
}

async function askToken(why) {
  const input = h('input', { type: 'password', class: 'field', autocomplete: 'current-password', 'aria-label': 'Token', required: true });
  const yes = await ask({
    title: 'The broker’s token', verb: 'Continue',
    content: h('div', { class: 'stack' }, why ? h('p', { class: 'wrong', role: 'alert' }, why) : '',
      h('p', {}, 'Signing in only lets this page read and plan. To change something, it needs the token. It is part of the address that ', h('code', {}, 'tradewind up'), ' or ', h('code', {}, 'tradewind dashboard'), ' printed. Paste the token, or the whole address.'),
      input, h('p', { class: 'muted' }, 'It is kept only in this page, until you close or reload it.')),
    check: () => (tokenIn(input.value) ? '' : 'Paste the token.'),
  });
  if (!yes) throw new Unsent('Nothing was changed: no token was entered.');
  token = tokenIn(input.value);
}

// send sends a request with a body and headers and returns the JSON of the response. It throws a Problem, or Unsent.
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

// plan sends a job file that is only planned. Signing in is enough for that, except at a server that asks for the token.
export async function plan(path, file) {
  const headers = { 'Content-Type': 'application/octet-stream' };
  const res = await fetch(path, { method: 'POST', body: file, headers });
  return res.status === 403 ? send('POST', path, file, headers) : answer(res);
}

// key returns an idempotency key: requests with the same key are executed once.
export function key() {
  return crypto.getRandomValues(new Uint32Array(4)).join('-');
}
