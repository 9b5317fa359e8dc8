// Creates elements. Text is always set as text, so text from a job is never interpreted as HTML.

const SVG = 'http://www.w3.org/2000/svg';

function fill(el, props, children) {
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key === 'on') {
      for (const [type, listener] of Object.entries(value)) el.addEventListener(type, listener);
    } else if (key === 'style') {
      for (const [name, v] of Object.entries(value)) el.style.setProperty(name, v);
    } else if (key === 'data') {
      Object.assign(el.dataset, value);
    } else {
      el.setAttribute(key, value === true ? '' : value);
    }
  }
  el.append(...children.flat(Infinity).filter((c) => c !== undefined && c !== null && c !== false));
  return el;
}

// h creates an HTML element.
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

// s creates an SVG element.
export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

// set changes the text of an element only when it differs, so that selections survive.
export function set(el, text) {
  if (el.textContent !== text) el.textContent = text;
}

// renew replaces the content of an element. The focus stays on the element with the same name, if there is one.
export function renew(el, ...content) {
  const named = (x) => x.getAttribute('aria-label') ?? x.textContent;
  const had = el.contains(document.activeElement) ? document.activeElement : undefined;
  const name = had && named(had);
  el.replaceChildren(...content);
  if (had) [...el.querySelectorAll(had.tagName)].find((x) => named(x) === name)?.focus({ preventScroll: true });
}

// say announces a text to screen readers.
export function say(text) {
  set(document.getElementById('said'), text);
}

const SHAPES = {
  waiting: 'M8 2.75a5.25 5.25 0 1 0 0 10.5a5.25 5.25 0 1 0 0 -10.5',
  queued: 'M8 2.75a5.25 5.25 0 1 0 0 10.5a5.25 5.25 0 1 0 0 -10.5M8 5.5V8l2 1.5',
  launching: 'M8 12.75V3.5M4.25 7L8 3.25L11.75 7',
  running: 'M5.75 4.25v7.5L12 8z',
  succeeded: 'M3.5 8.5l3 3l6 -6.5',
  failed: 'M4.25 4.25l7.5 7.5M11.75 4.25l-7.5 7.5',
  cancelled: 'M8 2.75a5.25 5.25 0 1 0 0 10.5a5.25 5.25 0 1 0 0 -10.5M4.5 11.5l7 -7',
  planned: 'M3 4h10M3 8h10M3 12h6',
  suspended: 'M5.75 4v8M10.25 4v8',
};

// shapeOf is the outline of a state's icon, on a field of 16.
export function shapeOf(state) {
  return SHAPES[state] ?? { admitted: SHAPES.launching, planning: SHAPES.planned, ending: SHAPES.queued, suspending: SHAPES.suspended }[state] ?? SHAPES.waiting;
}

// icon draws a state, so that no state is shown by colour alone.
export function icon(state) {
  return s('svg', { class: 'icon', viewBox: '0 0 16 16', 'aria-hidden': 'true' }, s('path', { d: shapeOf(state) }));
}

// badge shows a state with its icon, and optionally under another name.
export function badge(state, name = state) {
  return h('span', { class: 'badge', data: { state } }, icon(state), name);
}

// notice is a message that a page shows instead of content.
export function notice(title, ...content) {
  return h('section', { class: 'card notice' }, h('h2', {}, title), content);
}

// code is a command with a copy button.
export function code(text) {
  const button = h('button', { type: 'button', class: 'quiet' }, 'Copy');
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text);
      set(button, 'Copied');
      say('Copied');
    } catch {
      set(button, 'Select it');
    }
  });
  return h('div', { class: 'code' }, h('code', {}, text), button);
}

// hold disables a button during an operation. It returns a function that enables it again and restores the focus.
export function hold(button) {
  const had = document.activeElement === button;
  button.disabled = true;
  return () => {
    button.disabled = false;
    if (had && document.activeElement === document.body) button.focus({ preventScroll: true });
  };
}
