// Reading from the API, by the cookie of whoever signed in. What changes something is send.js's.

// Problem is an error that the API answered.
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

// answer is the JSON of an answer, or the problem that it tells.
export async function answer(res) {
  if (res.ok) return res.status === 204 ? {} : res.json();
  let body = {};
  try {
    body = await res.json();
  } catch {
    // not a problem document: the status is all there is
  }
  throw new Problem(res.status, body);
}

// parts reads a job's story, or the job, in parts and joins their lists.
export async function parts(path, lists) {
  const whole = await get(`${path}?limit=2000`);
  for (let next = whole.next; next;) {
    const part = await get(`${path}?limit=2000&after=${next}`);
    for (const l of lists) (whole[l] ??= []).push(...(part[l] ?? []));
    next = part.next;
  }
  return whole;
}

// path makes a path of parts that may hold anything.
export function path(...parts) {
  return `/v1/${parts.map(encodeURIComponent).join('/')}`;
}

// Job is a job as it is followed: every update of its stream is merged into it.
export class Job {
  constructor() {
    this.view = undefined;
    this.tasks = [];
    this.plans = [];
    this.attempts = new Map(); // task index -> attempts by number
    this.clock = { at: 0, read: 0 };
  }

  // merge takes in an update and returns the indexes of the tasks that changed.
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

  // now is the broker's clock, which may run faster than the wall's: it is only carried on between updates.
  now() {
    return this.clock.at + Math.min(performance.now() - this.clock.read, 2000);
  }

  attemptsOf(index) {
    return (this.attempts.get(index) ?? []).filter(Boolean);
  }

  // cost of a task so far, with what its machines cost now.
  cost(task) {
    const last = this.attemptsOf(task.index).at(-1);
    if (!last?.launched || last.usd || last.ended) return task.usd;
    return task.usd + (Math.max(this.now() - Date.parse(last.launched), 0) / 3600000) * (task.usdPerHour ?? 0) * task.nodes;
  }
}

const HIDDEN = 20000; // ms after which a page that nobody sees lets go of its stream: a browser has six connections for each host

// follow opens a job's stream. It calls update with each one, state with 'live', 'lost' or 'over', and fail with an error after which
// it has given up. It returns a function that ends it.
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
      if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
      try {
        await get(`${path('jobs', id)}?limit=1`); // says what an EventSource keeps to itself
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
