// Formats numbers, times and offers.

// STATES of a task, in the order in which they are counted.
export const STATES = ['succeeded', 'running', 'launching', 'queued', 'waiting', 'failed', 'cancelled'];

// stateOf folds states that differ only inside the broker.
export function stateOf(task) {
  return task.state === 'admitted' ? 'launching' : task.state;
}

// isOver reports whether a job has finished.
export function isOver(job) {
  return ['succeeded', 'failed', 'cancelled'].includes(job.state);
}

// usd writes money: cents, and more digits below ten cents.
export function usd(v) {
  if (!v) return '$0';
  if (v < 0.00005) return '<$0.0001';
  if (v < 0.1) return `$${v.toFixed(4).replace(/0+$/, '')}`;
  return `$${v.toLocaleString('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

// paid writes what a job or a machine has cost; the amount is an estimate if nothing was bought.
export function paid(job, v = job.spentUSD) {
  return job.simulated ? `${usd(v)} est.` : usd(v);
}

// simulated is the label of a job whose machines are simulated, or empty.
export function simulated(job) {
  if (!job.simulated) return '';
  const scale = job.timeScale || 1;
  const times = (v) => (v < 10 ? Number(v.toFixed(1)) : Math.round(v)).toLocaleString('en-US');
  const clock = scale < 1 ? `; time runs ${times(1 / scale)} times faster` : scale > 1 ? `; time runs ${times(scale)} times slower` : '';
  return `SIMULATED, nothing is bought${clock}`;
}

// span writes milliseconds as two units at most.
export function span(ms) {
  if (!(ms >= 0)) return '–';
  const sec = ms / 1000;
  if (sec < 1) return `${Math.round(ms)} ms`;
  if (sec < 60) return `${sec < 10 ? sec.toFixed(1) : Math.round(sec)} s`;
  const min = Math.round(sec / 60);
  if (min < 60) return `${min} min`;
  const hours = Math.floor(min / 60);
  if (hours < 48) return min % 60 ? `${hours} h ${min % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 ? `${days} d ${hours % 24} h` : `${days} d`;
}

export const HOUR = 3600000;

// amount writes a possibly fractional amount: machines may have half a vCPU, and a queue's average usage may be less.
export function amount(v) {
  return v.toLocaleString('en-US', v < 1 ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: 1 });
}

// hours writes hours.
export function hours(v) {
  return span(v * HOUR);
}

// at parses a time; undefined stays undefined.
export function at(text) {
  return text ? Date.parse(text) : undefined;
}

const clockFormat = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const dayFormat = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });

// moment writes a time, with the date unless it is the same day.
export function moment(ms, now) {
  return (Math.abs(now - ms) < 18 * HOUR ? clockFormat : dayFormat).format(ms);
}

// ago writes how long ago something was, or in how long it will be.
export function ago(ms, now) {
  const d = now - ms;
  if (Math.abs(d) < 5000) return 'just now';
  return d > 0 ? `${span(d)} ago` : `in ${span(-d)}`;
}

// percent writes a share.
export function percent(v) {
  return `${v > 0 && v < 0.01 ? '<1' : Math.round(100 * v)}%`;
}

// count writes a number of things.
export function count(n, thing, things = `${thing}s`) {
  return `${n.toLocaleString('en-US')} ${n === 1 ? thing : things}`;
}

// offer parses an offer's ID: CLOUD/REGION/ZONE/TYPE[/SERVICE]/MARKET. Azure and Lambda sell by region, without a zone.
export function offer(id) {
  if (!id) return undefined;
  const parts = id.split('/');
  const market = ['spot', 'on-demand'].includes(parts.at(-1)) ? parts.pop() : '';
  const [cloud, region, ...rest] = parts;
  const zone = ['azure', 'lambda'].includes(cloud) || rest.length < 2 ? '' : rest.shift();
  return { cloud, region, zone, type: rest.join('/'), market };
}

// place is where an offer is, in a few characters.
export function place(id) {
  const o = offer(id);
  return o ? `${o.cloud} ${o.zone || o.region}` : '';
}

// machine is the type of a task's machine, with its accelerators.
export function machine(task) {
  const type = offer(task.offer)?.type ?? '';
  return task.accelerators && !type.includes(task.accelerators) ? `${type} · ${task.accelerators}` : type;
}

// progress is the share of a task's work that is done: what is saved, or what is expected to be done by now.
export function progress(job, task) {
  const saved = task.progress ?? 0;
  const a = job.attemptsOf(task.index).at(-1);
  const began = at(a?.started);
  if (task.state !== 'running' || began === undefined || !task.hours || task.service) return task.state === 'succeeded' ? 1 : saved;
  // The expected hours count from the start, or from the plan if that is newer.
  const ends = Math.max(began, at(job.plans.at(-1)?.at) ?? 0) + task.hours * HOUR;
  const had = a.resumed ?? 0;
  return Math.max(saved, Math.min(had + ((1 - had) * (job.now() - began)) / (ends - began), 0.99));
}

// tally counts tasks by state.
export function tally(tasks) {
  const counts = {};
  for (const t of tasks) counts[stateOf(t)] = (counts[stateOf(t)] ?? 0) + 1;
  return counts;
}

// serving returns the replicas of services: they run until their job is cancelled, and plans count one hour of each.
export function serving(tasks) {
  return tasks.filter((t) => t.service);
}

// expected is what a job costs in the end: by its forecast while it is active, if that is known, and then by its bill.
function expected(job) {
  return isOver(job) ? job.spentUSD : Math.max(job.forecastUSD ?? job.plannedUSD, job.spentUSD);
}

// over says by how much a job costs more than its budget or its first plan; it is empty if it does not.
export function over(job) {
  const cost = expected(job);
  const above = (limit, name) => (limit > 0 && cost > 1.005 * limit ? `${percent(cost / limit - 1)} above ${name}` : '');
  return above(job.budgetUSD, 'the budget') || above(job.plannedUSD, 'the plan');
}

// saving is the share of its on-demand cost that a job saves. A job that failed, was cancelled or costs more than planned has no saving to
// show.
export function saving(job) {
  if (!job.onDemandUSD || job.state === 'failed' || job.state === 'cancelled' || over(job)) return 0;
  const cost = expected(job);
  return Math.max(1 - cost / job.onDemandUSD, 0);
}

// unplanned says why a job has no plan: it is being planned, or no plan is feasible.
export function unplanned(job) {
  if (isOver(job) || job.state === 'ending' || job.state === 'waiting') return job.reason?.includes('no feasible plan') ? 'No plan is feasible' : 'It was not planned';
  return 'It is being planned';
}

// culprit is the index of the task that failed first, if a task has failed.
export function culprit(job) {
  return job.tasks.filter((t) => t.state === 'failed' && t.attempts).sort((a, b) => (at(a.ended) ?? Infinity) - (at(b.ended) ?? Infinity))[0]?.index;
}

// unstarted says that no task of a job has started.
export function unstarted(job) {
  return isOver(job) ? 'No task has started.' : 'No task has started yet.';
}

// failure describes why an attempt failed: the exit code and, of several machines, the one that failed first.
export function failure(a) {
  const f = a.failure;
  const what = f ? [f.exitCode > 0 ? `exit code ${f.exitCode}` : '', a.nodes > 1 ? `on node ${f.rank} of ${a.nodes}` : ''].filter(Boolean).join(' ') : '';
  if (!what || !a.reason || what.startsWith(a.reason)) return what || a.reason || '';
  return a.nodes > 1 || !a.reason.includes(what) ? `${what}: ${a.reason}` : a.reason;
}
