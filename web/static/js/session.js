// The session of this page. It is in the storage of the page's origin, which includes the port: a cookie would go to every port of
// this host, also to a program that a user forwards to one.

const KEY = 'tradewind-session';

// session returns the session of this browser, or null.
export function session() {
  const kept = JSON.parse(localStorage.getItem(KEY) ?? 'null');
  return kept && Date.parse(kept.expires) > Date.now() ? kept.session : null;
}

// signIn exchanges the code in the address, if there is one, for a session, and removes it from the address.
export async function signIn() {
  const code = location.hash.match(/^#code=([\w-]+)$/)?.[1];
  if (!code) return;
  history.replaceState(null, '', location.pathname);
  const res = await fetch('/signin', { method: 'POST', body: JSON.stringify({ code }) });
  if (res.ok) localStorage.setItem(KEY, await res.text());
}
