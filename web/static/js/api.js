// Reading from the API with the session cookie. Requests that change something are in send.js.

import { isOver } from './format.js';
import { Machines } from './lanes.js';

// Problem is an error response of the API.
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `The broker answered ${status}`);
    this.status = status;
    this.body = body;
  }
}

// get reads JSON.
export async function get(path, signal) {
  return answer(await fetch(path, { signal, headers: { Accept: 'application/json' } }));
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

const HIDDEN = 20000; // ms after which a hidden page closes its stream: a browser has only six connections for each host

// follow opens a job's stream. It calls update with each update, state with 'live', 'lost' or 'over', and fail with an error when
// it stops retrying. It returns a function that closes the stream.
export function follow(id, { update, state, fail }) {
  let source;
  let timer;
  let over = false;
  let last = '';
  const open = () => {
    source = new EventSource(`${path('jobs', id)}/events?after=${encodeURIComponent(last)}`);
    source.addEventListener('open', () => state('live'));
    source.addEventListener('job', (e) => {
      last = e.lastEventId;
      update(JSON.parse(e.data));
    });
    source.addEventListener('end', () => {
      over = true;
      source.close();
      state('over');
    });
    source.addEventListener('error', async () => {
      if (over) return;
      state('lost');
      if (source.readyState !== EventSource.CLOSED) return; // the browser reconnects automatically
      try {
        await get(`${path('jobs', id)}?limit=1`); // gets the error that an EventSource does not report
        fail(new Error('The stream was cut off. Load the page again.'));
      } catch (err) {
        fail(err);
      }
    });
  };
  const seen = () => {
    clearTimeout(timer);
    if (over) return;
    if (document.hidden) timer = setTimeout(() => source.close(), HIDDEN);
    else if (source.readyState === EventSource.CLOSED) open();
  };
  open();
  document.addEventListener('visibilitychange', seen);
  return () => {
    over = true;
    clearTimeout(timer);
    source.close();
    document.removeEventListener('visibilitychange', seen);
  };
}
