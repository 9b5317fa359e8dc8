// Actions on jobs, queues and machines. Actions that stop or destroy work ask for confirmation first.

import { h } from './dom.js';
import { get, parts, path } from './api.js';
import { ask } from './dialog.js';
import { isOver } from './format.js';
import { key, send } from './send.js';
import { toast } from './toast.js';

// act asks for confirmation, sends the request and reports the result. It returns the response, or undefined if the user declined.
async function act({ question, request, done, then }) {
  if (question && !(await ask(question))) return undefined;
  try {
    const answer = await request();
    toast(done(answer));
    then?.(answer);
    return answer;
  } catch (err) {
    toast(err.message, true);
    return undefined;
  }
}

const json = { 'Content-Type': 'application/json' };
const para = (...text) => h('p', {}, text);

function reasonField() {
  return h('input', { type: 'text', class: 'field', maxlength: '1024', 'aria-label': 'Reason, shown in the story (optional)', placeholder: 'Reason, shown in the story (optional)' });
}

function query(values) {
  const q = new URLSearchParams(Object.entries(values).filter(([, v]) => v));
  return q.size ? `?${q}` : '';
}

export function cancelJob(job) {
  const why = reasonField();
  return act({
    question: { title: `Cancel ${job.name}?`, verb: 'Cancel the job', danger: true, content: h('div', { class: 'stack' }, para('No more of its tasks start, and its machines are released. Running tasks lose all work since their last checkpoint. This cannot be undone: to run it again, submit a new job.'), why) },
    request: () => send('POST', `${path('jobs', job.id, 'cancel')}${query({ reason: why.value })}`), done: () => `${job.name} is being cancelled`,
  });
}

// losing returns the names of the running tasks that would lose their work.
const losing = (tasks) => tasks.filter((t) => t.unsaved && t.started && !t.ended).map((t) => t.name);

// unsaved says which tasks would lose their work.
function unsaved(lost) {
  if (!lost.length) return '';
  const names = lost.slice(0, 5).join(', ') + (lost.length > 5 ? ` and ${lost.length - 5} more` : '');
  return para(`Without checkpoints, these start again from the beginning: ${names}.`);
}

export function suspendJob(job, tasks = []) {
  const why = reasonField();
  return act({
    question: { title: `Suspend ${job.name}?`, verb: 'Suspend', content: h('div', { class: 'stack' }, para('Running tasks save their work and release their machines. None of its tasks is admitted until you resume it. Its deadline does not change.'), unsaved(losing(tasks)), why) },
    request: () => send('POST', `${path('jobs', job.id, 'suspend')}${query({ by: 'dashboard', reason: why.value })}`, undefined, { 'Idempotency-Key': key() }), done: () => `${job.name} is being suspended`,
  });
}

export function resumeJob(job) {
  return act({ request: () => send('POST', `${path('jobs', job.id, 'resume')}?by=dashboard`, undefined, { 'Idempotency-Key': key() }), done: () => `${job.name} is resumed` });
}

export function rerunJob(job) {
  return act({
    question: { title: `Run ${job.name} again?`, verb: 'Run it again', content: para('All of its tasks are submitted as a new job, with its full budget and with its deadline counted from now.') },
    request: () => send('POST', path('jobs', job.id, 'rerun'), undefined, { 'Idempotency-Key': key() }), done: (v) => `${v.id} is submitted`,
    then: (v) => { location.hash = `#/jobs/${encodeURIComponent(v.id)}`; },
  });
}

const maxExamined = 100;

// unsavedIn returns the tasks of a queue and of those below it that would lose their work, as JOB/TASK.
async function unsavedIn(name) {
  const [{ queues }, { jobs }] = await Promise.all([get('/v1/queues'), get('/v1/jobs?limit=1000')]);
  const parent = new Map(queues.map((q) => [q.name, q.parent]));
  const below = (q) => q === name || (parent.has(q) && Boolean(parent.get(q)) && below(parent.get(q)));
  const those = jobs.filter((j) => !isOver(j) && below(j.queue));
  const lost = [];
  for (const j of those.slice(0, maxExamined)) lost.push(...losing((await parts(path('jobs', j.id), ['taskList'])).taskList).map((t) => `${j.id}/${t}`));
  return lost;
}

export async function suspendQueue(queue, drain, then) {
  let lost = [];
  try {
    if (drain) lost = await unsavedIn(queue.name);
  } catch (err) {
    return toast(err.message, true);
  }
  return act({
    question: {
      title: drain ? `Drain queue ${queue.name}?` : `Suspend queue ${queue.name}?`, verb: drain ? 'Drain' : 'Suspend', danger: drain,
      content: h('div', { class: 'stack' }, para(`Neither this queue nor the queues below it admit tasks until you resume it. ${drain ? 'Running tasks save their work and wait.' : 'Running tasks continue.'}`), unsaved(lost)),
    },
    request: () => send('POST', `${path('queues', queue.name, 'suspend')}${query({ by: 'dashboard', drain: drain && 'true' })}`, undefined, { 'Idempotency-Key': key() }),
    done: () => `Queue ${queue.name} is suspended`, then,
  });
}

export function resumeQueue(queue, then) {
  return act({ request: () => send('POST', `${path('queues', queue.name, 'resume')}?by=dashboard`, undefined, { 'Idempotency-Key': key() }), done: () => `Queue ${queue.name} is resumed`, then });
}

// drain empties a pool, or only the named machine. how is drain, now or undo.
export function drain(pool, machine, how, then) {
  const what = machine ? `machine ${machine}` : `pool ${pool}`;
  const texts = { drain: 'It gets no new tasks; running tasks finish.', now: 'It gets no new tasks; running tasks save their work and continue elsewhere.' };
  return act({
    question: how === 'undo' ? undefined : { title: `${how === 'now' ? 'Empty' : 'Drain'} ${what}${how === 'now' ? ' now' : ''}?`, verb: how === 'now' ? 'Empty it now' : 'Drain', danger: how === 'now', content: para(texts[how]) },
    request: () => send('POST', machine ? path('pools', pool, 'machines', machine, 'drain') : path('pools', pool, 'drain'), JSON.stringify({ how }), json),
    done: () => (how === 'undo' ? `${what} accepts tasks again` : `${what} is drained`), then,
  });
}

export function redrive(then) {
  return act({
    question: { title: 'Deliver the events again?', verb: 'Deliver them', content: para('Do this after you have fixed the cause. An event that fails again returns to this list.') },
    request: () => send('POST', '/v1/deadletters/redrive', '{}', json), done: (v) => `${v.redriven ?? 'The'} events are delivered again`, then,
  });
}

// JobActions are the buttons on a job's page.
export class JobActions {
  constructor() {
    this.el = h('div', { class: 'row actions', role: 'group', 'aria-label': 'Actions' });
  }

  show(view, tasks) {
    const buttons = isOver(view) ? [['Run again', rerunJob]]
      : [...(view.suspended ? [['Resume', resumeJob]] : view.state === 'ending' ? [] : [['Suspend', suspendJob]]), ['Cancel', cancelJob]];
    const shape = `${view.id} ${buttons.map((b) => b[0])}`;
    this.view = view;
    this.tasks = tasks;
    if (shape === this.shape) return;
    this.shape = shape;
    this.el.replaceChildren(...buttons.map(([name, run]) => h('button', { type: 'button', class: name === 'Cancel' ? 'quiet danger' : 'quiet', data: { action: name.toLowerCase() }, on: { click: () => run(this.view, this.tasks) } }, name)));
  }
}
