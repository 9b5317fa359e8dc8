// What moved and why, told where one looks: beside the attempt.

import { at, moment, offer, usd } from './format.js';

const LEFT = {
  preempted: 'the cloud took its machines', lost: 'its machines were lost', moved: 'it left its machines', refused: 'the cloud refused the machines',
  blocked: 'the place was not tried', failed: 'the task failed', budget: 'its budget was used up', cancelled: 'it was cancelled', succeeded: 'it succeeded',
};

// where writes an offer's place, machine and market.
export function whereabouts(id) {
  const o = offer(id);
  return o ? `${o.cloud} ${o.zone || o.region} ${o.type}${o.market ? ` ${o.market}` : ''}` : id ?? '';
}

// ended says how an attempt ended, and why.
export function ended(a) {
  if (!a.outcome) return '';
  const reason = a.reason && a.reason !== a.outcome ? `: ${a.reason}` : '';
  return `${LEFT[a.outcome] ?? a.outcome}${reason}`;
}

// planFor is the plan that an attempt was admitted under.
export function planFor(job, a) {
  return job.plans.find((p) => p.version === a.plan);
}

// moved says why an attempt is where it is, after the one before it: what ended that one, which plan chose the next place and why that plan
// was made. It is empty for a first attempt under the first plan.
export function moved(job, task, a) {
  const before = job.attemptsOf(task.index)[a.number - 2];
  const plan = planFor(job, a);
  const parts = [];
  if (before) parts.push(`Attempt ${before.number} on ${whereabouts(before.offerID)} ended: ${ended(before) || 'it was left'}.`);
  const same = before?.reason && (plan?.reason ?? '').includes(before.reason);
  if (plan?.reason) parts.push(`Plan ${plan.version}, made ${moment(at(plan.at), job.now())} because ${same ? 'of that' : plan.reason}, chose ${before && before.offerID === a.offerID ? 'the same place' : whereabouts(a.offerID)}.`);
  else if (before && plan) parts.push(`Plan ${plan.version} ${before.offerID === a.offerID ? 'kept it there' : `chose ${whereabouts(a.offerID)}`}.`);
  if (before) parts.push(compare(before, a));
  if (a.waitSince) parts.push(`It had waited since ${moment(at(a.waitSince), job.now())} for a better price than ${usd(a.waitUSD)} an hour.`);
  if (a.resumedFrom || a.resumed > 0) parts.push(`It went on from a checkpoint, ${Math.round(100 * (a.resumed ?? 0))}% of the work done.`);
  if (a.instead?.offer) parts.push(`Else it would have bought ${whereabouts(a.instead.offer)} for ${usd(a.instead.usd)}.`);
  return parts.filter(Boolean).join(' ');
}

function compare(before, a) {
  const [was, is] = [before.rateUSD || before.offer?.usdPerHour, a.offer?.usdPerHour];
  if (!was || !is || before.offerID === a.offerID) return '';
  const share = Math.round(100 * (is / was - 1));
  return share ? `An hour costs ${usd(is)} instead of ${usd(was)} (${share > 0 ? '+' : '−'}${Math.abs(share)}%).` : `An hour costs ${usd(is)} there, too.`;
}

// moves lists the attempts of a job that began after another had ended badly, the last first.
export function moves(job, most = 50) {
  const out = [];
  for (const [index, list] of job.attempts) {
    for (const a of list) if (a && a.number > 1) out.push({ task: job.tasks[index], attempt: a, at: at(a.admitted) });
  }
  out.sort((p, q) => q.at - p.at);
  return { all: out.length, list: out.slice(0, most) };
}
