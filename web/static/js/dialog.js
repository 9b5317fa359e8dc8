// Confirmation dialogs.

import { h } from './dom.js';

let count = 0;

// ask opens a dialog with content and two buttons. It returns true if the user confirmed; check may reject the input with a text.
export function ask({ title, content, verb, danger = false, check }) {
  const before = document.activeElement;
  const id = `dialog-${++count}`;
  const wrong = h('p', { class: 'wrong', role: 'alert' });
  const yes = h('button', { type: 'submit', class: danger ? 'solid danger' : 'solid' }, verb);
  const no = h('button', { type: 'button', class: 'quiet' }, 'Go back');
  const form = h('form', { novalidate: true }, h('h2', { id }, title), content, wrong, h('div', { class: 'row end' }, no, yes));
  const dialog = h('dialog', { 'aria-labelledby': id }, form);
  document.body.append(dialog);
  return new Promise((done) => {
    const close = (answer) => {
      dialog.close();
      dialog.remove();
      before?.focus?.();
      done(answer);
    };
    form.addEventListener('submit', (e) => {
      e.preventDefault();
      const text = check?.();
      if (text) wrong.textContent = text;
      else close(true);
    });
    no.addEventListener('click', () => close(false));
    dialog.addEventListener('cancel', (e) => { e.preventDefault(); close(false); });
    dialog.showModal();
    (danger ? no : form.querySelector('input, textarea, select') ?? yes).focus();
  });
}

// tell shows content until the user closes it.
export function tell(title, content) {
  const before = document.activeElement;
  const id = `dialog-${++count}`;
  const close = h('button', { type: 'button', class: 'quiet' }, 'Close');
  const dialog = h('dialog', { 'aria-labelledby': id }, h('h2', { id }, title), content, h('div', { class: 'row end' }, close));
  const end = () => { dialog.close(); dialog.remove(); before?.focus?.(); };
  close.addEventListener('click', end);
  dialog.addEventListener('cancel', (e) => { e.preventDefault(); end(); });
  document.body.append(dialog);
  dialog.showModal();
  close.focus();
}
