// The card of an attempt in the timeline: where it ran, what it cost and why it was placed there.

import { badge, h } from './dom.js';
import { at, percent, span, stateOf, usd } from './format.js';
import { ended, moved, whereabouts } from './moves.js';
import { precise } from './span.js';

const LOOKS = { preempted: 'failed', lost: 'failed', refused: 'failed', blocked: 'failed', budget: 'failed', moved: 'queued' };
const NAMES = { preempted: 'preempted', moved: 'moved', blocked: 'blocked', budget: 'over budget' };

// attemptCard shows an attempt. go is called with 'task' or 'log'.
export function attemptCard(job, { task, attempt: a, from, to, over, on }, { close, go }) {
  const fact = (label, value) => (value ? h('div', {}, h('dt', {}, label), h('dd', {}, value)) : '');
  const why = moved(job, task, a);
  const boot = a.started ? span(at(a.started) - from) : '';
  return h('section', { class: 'attempt-card', 'aria-label': `Attempt ${a.number} of ${task.name}` },
    h('div', { class: 'head' }, h('h3', {}, `${task.name}, attempt ${a.number}`), badge(LOOKS[a.outcome] ?? a.outcome ?? stateOf(task), NAMES[a.outcome] ?? a.outcome ?? stateOf(task)),
      h('button', { type: 'button', class: 'tool', 'aria-label': 'Close', title: 'Close', on: { click: close } }, '✕')),
    h('dl', { class: 'facts columns' },
      fact('Where', whereabouts(on?.offer ?? a.offerID)), fact('Shares', on?.worker ? `the machine ${on.worker} with ${on.tasks - 1} other ${on.tasks === 2 ? 'task' : 'tasks'} so far` : ''), fact('Machines', a.nodes > 1 ? String(a.nodes) : ''), fact('From', precise(from)), fact('For', `${span(to - from)}${over ? '' : ' so far'}`),
      fact('Start', boot ? `${boot} from admission to work` : ''), fact('Price', a.offer?.usdPerHour ? `${usd(a.rateUSD || a.offer.usdPerHour)} an hour${a.rateUSD ? `, ${usd(a.offer.usdPerHour)} at first` : ''}` : ''),
      fact('Bid', a.maxUSD ? `up to ${usd(a.maxUSD)} an hour` : ''), fact('Cost', a.usd ? usd(a.usd) : ''), fact('Saved', task.progress && !a.outcome ? percent(task.progress) : ''),
      fact('Ended', ended(a))),
    why ? h('p', { class: 'why' }, h('b', {}, a.number > 1 ? 'Why it moved here: ' : 'Why here: '), why) : '',
    h('div', { class: 'row' }, h('button', { type: 'button', class: 'quiet', on: { click: () => go('task') } }, 'Show the task'), h('button', { type: 'button', class: 'quiet', on: { click: () => go('log') } }, 'Show its log')));
}
