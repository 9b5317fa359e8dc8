// The frame: routing to pages, the live indicator, and errors of the broker.

import { code, h, notice, set } from './dom.js';
import { get } from './api.js';
import { CapacityPage } from './capacity.js';
import { CloudsPage } from './clouds.js';
import { JobPage } from './job.js';
import { JobsPage } from './jobs.js';
import { listen } from './keys.js';
import { MarketsPage } from './markets.js';
import { PlanPage } from './plan.js';
import { signIn } from './session.js';

const PAGES = { jobs: JobsPage, plan: PlanPage, capacity: CapacityPage, markets: MarketsPage, clouds: CloudsPage };
const root = document.getElementById('main');
const light = document.getElementById('live');
const LIVE = { live: 'Live', lost: 'Reconnecting…', over: 'Finished', off: '' };
let page;
let key;

function live(state) {
  light.dataset.live = state;
  set(light, LIVE[state] ?? '');
}

// fail shows an error instead of the page.
function fail(err) {
  page?.close();
  page = undefined;
  live('off');
  if (err.status === 401) {
    root.replaceChildren(notice('Sign in', h('p', {}, 'Open the address that this command prints. It signs in one browser, for twelve hours:'),
      code('tradewind token sign-in'), h('p', { class: 'muted' }, 'The command tradewind dashboard prints one, too, when it starts.')));
  } else if (err.status === 404) {
    root.replaceChildren(notice('Not found', h('p', {}, err.message), h('p', {}, h('a', { href: '#/' }, 'All jobs'))));
  } else {
    const again = h('button', { type: 'button', class: 'quiet', on: { click: () => { key = undefined; route(); } } }, 'Try again');
    root.replaceChildren(notice('The broker does not answer', h('p', {}, err.message), again));
  }
}

// parts are the segments of the address; none if it cannot be decoded.
function parts() {
  try {
    return location.hash.replace(/^#\/?/, '').split('/').map(decodeURIComponent);
  } catch {
    return [];
  }
}

function route() {
  const [name, id, ...view] = parts();
  const of = PAGES[name] ? name : 'jobs';
  const wanted = name === 'jobs' && id ? `job ${id}` : of;
  if (wanted === key) return page?.open?.(...view);
  key = wanted;
  page?.close();
  live('off');
  const Page = wanted === of ? PAGES[of] : JobPage;
  for (const a of document.querySelectorAll('[data-nav]')) {
    if (a.dataset.nav === of) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  page = new Page(root, id, view, { live, fail });
  window.scrollTo(0, 0);
}

// begin signs in with the code in the address, if there is one, and shows the page.
async function begin() {
  await signIn();
  key = undefined;
  route();
}

window.addEventListener('hashchange', () => {
  if (location.hash.startsWith('#code=')) return void begin();
  const before = key;
  route();
  if (key !== before) root.focus({ preventScroll: true });
});
// The fragment selects the page, so the skip link must not change it.
document.querySelector('.skip').addEventListener('click', (e) => {
  e.preventDefault();
  root.focus();
});
listen();
begin();
get('/healthz').then((info) => set(document.getElementById('version'), `Tradewind ${info.version ?? ''}`), () => {});
