// Requests that change something.

import { answer, request } from './api.js';

// send sends a request with a body and headers and returns the JSON of the response, or throws a Problem.
export async function send(method, path, body, headers = {}) {
  return answer(await request(path, { method, body, headers }));
}

// key returns an idempotency key: requests with the same key are executed once.
export function key() {
  return crypto.getRandomValues(new Uint32Array(4)).join('-');
}
