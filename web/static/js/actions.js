// What can be done to jobs, queues and machines. Whatever destroys work, or stops it, is asked about first.

import { h, say } from './dom.js';
import { path } from './api.js';
import { ask } from './dialog.js';
import { isOver } from './format.js';
import { Unsent, key, send } from './send.js';
import { toast } from './toast.js';

// act asks, sends, and tells how it went. It returns the answer, or nothing where it was not done.
async function act({ question, request, done, then }) {
  if (question && !(await ask(question))) return undefined;
  try {
    const answer = await request();
    toast(done(answer));
    then?.(answer);
    return answer;
  } catch (err) {
    if (err instanceof Unsent) say(err.message);
    else toast(err.message, true);
    return undefined;
  }
}

const json = { 'Content-Type': 'application/json' };
const para = (...text) => h('p', {}, text);

function reasonField() {
  return h('input', { type: 'text', class: 'field', maxlength: '1024', 'aria-label': 'Why, for the story (may be empty)', placeholder: 'Why, for the story (may be empty)' });
}

function query(values) {
  const q = new URLSearchParams(Object.entries(values).filter(([, v]) => v));
  return q.size ? `?${q}` : '';
}

export function cancelJob(job) {
  const why = reasonField();
  return act({
    question: { title: `Cancel ${job.name}?`, verb: 'Cancel the job', danger: true, content: h('div', { class: 'stack' }, para('Nothing new of it starts and its machines are freed. What runs is lost, but for its checkpoints. This cannot be undone: running it again is a new job.'), why) },
    request: () => send('POST', `${path('jobs', job.id, 'cancel')}${query({ reason: why.value })}`), done: () => `${job.name} is being cancelled`,
  });
}

export function suspendJob(job) {
  const why = reasonField();
  return act({
    question: { title: `Suspend ${job.name}?`, verb: 'Suspend', content: h('div', { class: 'stack' }, para('What runs saves its work and gives back its machines. Nothing of it is admitted until it is resumed. Its deadline stays.'), why) },
    request: () => send('POST', `${path('jobs', job.id, 'suspend')}${query({ by: 'dashboard', reason: why.value })}`, undefined, { 'Idempotency-Key': key() }), done: () => `${job.name} is being suspended`,
  });
}

export function resumeJob(job) {
  return act({ request: () => send('POST', `${path('jobs', job.id, 'resume')}?by=dashboard`, undefined, { 'Idempotency-Key': key() }), done: () => `${job.name} goes on` });
}

export function rerunJob(job) {
  return act({
    question: { title: `Run ${job.name} again?`, verb: 'Run it again', content: para('It is submitted as a new job: all of its tasks, with its deadline counted from now and its whole budget.') },
    request: () => send('POST', path('jobs', job.id, 'rerun'), undefined, { 'Idempotency-Key': key() }), done: (v) => `${v.id} is submitted`,
    then: (v) => { location.hash = `#/jobs/${encodeURIComponent(v.id)}`; },
  });
}

export function suspendQueue(queue, drain, then) {
  return act({
    question: {
      title: drain ? `Drain queue ${queue.name}?` : `Suspend queue ${queue.name}?`, verb: drain ? 'Drain' : 'Suspend', danger: drain,
      content: para(`Neither it nor the queues below it admit anything until it is resumed. ${drain ? 'What runs saves its work and waits.' : 'What runs goes on.'}`),
    },
    request: () => send('POST', `${path('queues', queue.name, 'suspend')}${query({ by: 'dashboard', drain: drain && 'true' })}`, undefined, { 'Idempotency-Key': key() }),
    done: () => `Queue ${queue.name} admits nothing`, then,
  });
}

export function resumeQueue(queue, then) {
  return act({ request: () => send('POST', `${path('queues', queue.name, 'resume')}?by=dashboard`, undefined, { 'Idempotency-Key': key() }), done: () => `Queue ${queue.name} admits again`, then });
}

// drain empties a pool, or one of its machines where one is named. how is drain, now or undo.
export function drain(pool, machine, how, then) {
  const what = machine ? `machine ${machine}` : `pool ${pool}`;
  const texts = { drain: 'It gets nothing new; what runs there ends.', now: 'It gets nothing new; what runs there saves its work and goes on elsewhere.' };
  return act({
    question: how === 'undo' ? undefined : { title: `${how === 'now' ? 'Empty' : 'Drain'} ${what}${how === 'now' ? ' now' : ''}?`, verb: how === 'now' ? 'Empty it now' : 'Drain', danger: how === 'now', content: para(texts[how]) },
    request: () => send('POST', machine ? path('pools', pool, 'machines', machine, 'drain') : path('pools', pool, 'drain'), JSON.stringify({ how }), json),
    done: () => (how === 'undo' ? `${what} is back at work` : `${what} is drained`), then,
  });
}

export function redrive(then) {
  return act({
    question: { title: 'Deliver the events again?', verb: 'Deliver them', content: para('Do it when what failed them is mended: an event that fails again comes back here.') },
    request: () => send('POST', '/v1/deadletters/redrive', '{}', json), done: (v) => `${v.redriven ?? 'The'} events are delivered again`, then,
  });
}

// JobActions are the buttons of a job's page.
export class JobActions {
  constructor() {
    this.el = h('div', { class: 'row actions', role: 'group', 'aria-label': 'What can be done' });
  }

  show(view) {
    const buttons = isOver(view) ? [['Run again', rerunJob]]
      : [...(view.suspended ? [['Resume', resumeJob]] : view.state === 'ending' ? [] : [['Suspend', suspendJob]]), ['Cancel', cancelJob]];
    const shape = `${view.id} ${buttons.map((b) => b[0])}`;
    this.view = view;
    if (shape === this.shape) return;
    this.shape = shape;
    this.el.replaceChildren(...buttons.map(([name, run]) => h('button', { type: 'button', class: name === 'Cancel' ? 'quiet danger' : 'quiet', data: { action: name.toLowerCase() }, on: { click: () => run(this.view) } }, name)));
  }
}
