// Explains which attempts moved and why, next to the attempt.

import { at, moment, offer, usd } from './format.js';

const LEFT = {
  preempted: 'the cloud took its machines', lost: 'its machines were lost', moved: 'it moved to other machines', refused: 'the cloud refused the machines',
  blocked: 'the place was blocked', failed: 'the task failed', budget: 'its budget was used up', cancelled: 'it was cancelled', succeeded: 'it succeeded',
};

// whereabouts writes an offer's place, machine and market.
export function whereabouts(id) {
  const o = offer(id);
  return o ? `${o.cloud} ${o.zone || o.region} ${o.type}${o.market ? ` ${o.market}` : ''}` : id ?? '';
}

// ended explains how and why an attempt ended.
export function ended(a) {
  if (!a.outcome) return '';
  const reason = a.reason && a.reason !== a.outcome ? `: ${a.reason}` : '';
  return `${LEFT[a.outcome] ?? a.outcome}${reason}`;
}

// planFor is the plan under which an attempt was admitted.
export function planFor(job, a) {
  return job.plans.find((p) => p.version === a.plan);
}

// moved explains why an attempt runs where it does: how the previous attempt ended, which plan chose the next place, and why that plan
// was made. It is empty for a first attempt under the first plan.
export function moved(job, task, a) {
  const before = job.attemptsOf(task.index)[a.number - 2];
  const plan = planFor(job, a);
  const parts = [];
  if (before) parts.push(`Attempt ${before.number} on ${whereabouts(before.offerID)} ended: ${ended(before) || 'it was replaced'}.`);
  const same = before?.reason && (plan?.reason ?? '').includes(before.reason);
  if (plan?.reason) parts.push(`Plan ${plan.version}, made ${moment(at(plan.at), job.now())} because ${same ? 'of this' : plan.reason}, chose ${before && before.offerID === a.offerID ? 'the same place' : whereabouts(a.offerID)}.`);
  else if (before && plan) parts.push(`Plan ${plan.version} ${before.offerID === a.offerID ? 'kept it there' : `chose ${whereabouts(a.offerID)}`}.`);
  if (before) parts.push(compare(before, a));
  if (a.waitSince) parts.push(`It had waited since ${moment(at(a.waitSince), job.now())} for a better price than ${usd(a.waitUSD)} an hour.`);
  if (a.resumedFrom || a.resumed > 0) parts.push(`It resumed from a checkpoint, with ${Math.round(100 * (a.resumed ?? 0))}% of the work done.`);
  if (a.instead?.offer) parts.push(`The alternative was to buy ${whereabouts(a.instead.offer)} for ${usd(a.instead.usd)}.`);
  return parts.filter(Boolean).join(' ');
}

function compare(before, a) {
  const [was, is] = [before.rateUSD || before.offer?.usdPerHour, a.offer?.usdPerHour];
  if (!was || !is || before.offerID === a.offerID) return '';
  const share = Math.round(100 * (is / was - 1));
  return share ? `An hour costs ${usd(is)} instead of ${usd(was)} (${share > 0 ? '+' : '−'}${Math.abs(share)}%).` : `The price per hour is the same, ${usd(is)}.`;
}

// moves lists the attempts of a job that follow an unsuccessful one, the latest first.
export function moves(job, most = 50) {
  const out = [];
  for (const [index, list] of job.attempts) {
    for (const a of list) if (a && a.number > 1) out.push({ task: job.tasks[index], attempt: a, at: at(a.admitted) });
  }
  out.sort((p, q) => q.at - p.at);
  return { all: out.length, list: out.slice(0, most) };
}
