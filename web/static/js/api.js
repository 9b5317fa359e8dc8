// Requests to the API with the session, and reading. Requests that change something are in send.js.

import { isOver } from './format.js';
import { Machines } from './lanes.js';
import { session } from './session.js';

// Problem is an error response of the API.
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `The broker answered ${status}`);
    this.status = status;
    this.body = body;
  }
}

// request sends a request with the session.
export function request(path, options = {}) {
  return fetch(path, { ...options, headers: { Accept: 'application/json', ...options.headers, Authorization: `Bearer ${session() ?? ''}` } });
}

// get reads JSON.
export async function get(path, signal) {
  return answer(await request(path, { signal }));
}

// answer returns the JSON of a response, or throws the Problem that it describes.
export async function answer(res) {
  if (res.ok) return res.status === 204 ? {} : res.json();
  let body = {};
  try {
    body = await res.json();
  } catch {
    // not a problem document: only the status is known
  }
  throw new Problem(res.status, body);
}

// parts reads a job, or its story, page by page and joins the lists.
export async function parts(path, lists) {
  const whole = await get(`${path}?limit=2000`);
  for (let next = whole.next; next;) {
    const part = await get(`${path}?limit=2000&after=${next}`);
    for (const l of lists) (whole[l] ??= []).push(...(part[l] ?? []));
    next = part.next;
  }
  return whole;
}

// path joins path segments and escapes each of them.
export function path(...parts) {
  return `/v1/${parts.map(encodeURIComponent).join('/')}`;
}

const MACHINES = 5000; // ms between two requests for the machines of an active job

// Job is a job that the page follows: every update of its stream is merged into it.
export class Job {
  constructor() {
    this.view = undefined;
    this.tasks = [];
    this.plans = [];
    this.attempts = new Map(); // task index -> attempts by number
    this.machines = new Machines(); // as of the last time that they were requested
    this.clock = { at: 0, read: 0 };
  }

  // merge applies an update and returns the indexes of the tasks that changed.
  merge(update) {
    this.view = update.job;
    this.clock = { at: Date.parse(update.now), read: performance.now() };
    if (update.full) {
      this.tasks = [];
      this.plans = [];
      this.attempts.clear();
    }
    const changed = new Set();
    for (const t of update.tasks ?? []) {
      this.tasks[t.index] = t;
      changed.add(t.index);
    }
    if (update.plans) this.plans = update.plans;
    for (const a of update.attempts ?? []) {
      const list = this.attempts.get(a.task) ?? [];
      list[a.number - 1] = a;
      this.attempts.set(a.task, list);
      changed.add(a.task);
    }
    return changed;
  }

  // now is the broker's clock, which may run faster than wall time (simulation); between updates it is extrapolated.
  now() {
    return this.clock.at + Math.min(performance.now() - this.clock.read, 2000);
  }

  // ask requests the machines of the job, if they are due. It reports whether it did.
  async ask() {
    if (this.asked && (this.settled || performance.now() - this.asked < MACHINES)) return false;
    this.asked = performance.now();
    this.settled = isOver(this.view);
    try {
      const { machines } = await get(`/v1/machines?all=true&job=${encodeURIComponent(this.view.id)}`);
      this.machines = new Machines(machines);
      return true;
    } catch {
      return false; // the attempts are shown without them
    }
  }

  attemptsOf(index) {
    return (this.attempts.get(index) ?? []).filter(Boolean);
  }

  // cost of a task so far, including its running machines.
  cost(task) {
    const last = this.attemptsOf(task.index).at(-1);
    if (!last?.launched || last.usd || last.ended) return task.usd;
    return task.usd + (Math.max(this.now() - Date.parse(last.launched), 0) / 3600000) * (task.usdPerHour ?? 0) * task.nodes;
  }
}

const AGAIN = 2000; // ms until a stream that was cut off is opened again
const HIDDEN = 20000; // ms after which a hidden page closes its stream: a browser has only six connections for each host

// follow opens a job's stream. It calls update with each update, state with 'live', 'lost' or 'over', and fail with an error when
// it stops retrying. It returns a function that closes the stream.
export function follow(id, { update, state, fail }) {
  let reading; // AbortController of the open stream
  let timer;
  let over = false;
  let last = '';
  const stop = () => { over = true; };
  const heard = ({ event, id: number, data }) => {
    if (number) last = number;
    if (event === 'job') update(JSON.parse(data));
    if (event !== 'end') return;
    stop();
    state('over');
  };
  const open = async () => {
    const mine = new AbortController();
    reading = mine;
    try {
      const res = await request(`${path('jobs', id)}/events?after=${encodeURIComponent(last)}`, { signal: mine.signal });
      if (!res.ok) await answer(res);
      state('live');
      await messages(res.body, heard);
    } catch (err) {
      if (err instanceof Problem && !over) {
        stop();
        fail(err);
      }
    }
    if (over || mine.signal.aborted) return;
    state('lost');
    timer = setTimeout(open, AGAIN);
  };
  const seen = () => {
    clearTimeout(timer);
    if (over) return;
    if (document.hidden) timer = setTimeout(() => reading.abort(), HIDDEN);
    else if (reading.signal.aborted) open();
  };
  open();
  document.addEventListener('visibilitychange', seen);
  return () => {
    stop();
    clearTimeout(timer);
    reading.abort();
    document.removeEventListener('visibilitychange', seen);
  };
}

// messages reads server-sent events until the response ends. An EventSource cannot send the session.
async function messages(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      const message = { event: 'message', id: '', data: '' };
      for (const line of block.split('\n')) {
        const [, name, text] = line.match(/^(\w+): ?(.*)$/) ?? [];
        if (name) message[name] = text;
      }
      heard(message);
    }
  }
}
