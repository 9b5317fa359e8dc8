// The editor of a job file: users drop, choose, paste or type it. Lines are numbered, and a wrong line is marked.

import { h, set } from './dom.js';

const SHOWN = 1 << 20; // maximum size in bytes of a file that is shown as text

export class Source {
  // changed is called when the file or its text changes.
  constructor({ changed }) {
    this.changed = changed;
    this.name = h('input', { type: 'text', class: 'field', value: 'job.yaml', 'aria-label': 'Name of the file', spellcheck: 'false', maxlength: '200' });
    this.text = h('textarea', { class: 'source', 'aria-label': 'Job file', spellcheck: 'false', wrap: 'off', rows: '18', autocapitalize: 'off',
      placeholder: 'Drop a job file here, paste one, or write it:\n\napiVersion: tradewind/v1\nname: hello\ntasks:\n  greet:\n    run: echo hello\n    time: 10m',
      on: { input: () => this.typed(), scroll: () => { this.lines.scrollTop = this.text.scrollTop; } } });
    this.lines = h('div', { class: 'line-numbers', 'aria-hidden': 'true' });
    this.large = h('p', { class: 'muted', hidden: true });
    this.file = h('input', { type: 'file', class: 'sr', tabindex: '-1', 'aria-hidden': 'true', on: { change: () => this.take(this.file.files[0]) } });
    this.choose = h('button', { type: 'button', class: 'quiet', on: { click: () => this.file.click() } }, 'Choose a file');
    this.wrong = h('div', { role: 'alert' });
    this.box = h('div', { class: 'editor' }, this.lines, this.text);
    this.el = h('div', { class: 'stack drop', on: {
      dragover: (e) => { e.preventDefault(); this.el.classList.add('over'); }, dragleave: () => this.el.classList.remove('over'),
      drop: (e) => { e.preventDefault(); this.el.classList.remove('over'); this.take(e.dataTransfer.files[0]); },
    } }, h('div', { class: 'row' }, this.name, this.choose, this.file), this.wrong, this.box, this.large);
    this.number();
  }

  // take loads a file. A compressed or long file is sent unchanged and not shown.
  async take(file) {
    if (!file) return;
    this.name.value = file.name;
    this.blob = undefined;
    const head = new Uint8Array(await file.slice(0, 2).arrayBuffer());
    if (file.size > SHOWN || (head[0] === 0x1f && head[1] === 0x8b)) {
      this.blob = file;
      this.text.value = '';
      set(this.large, `${file.name}, ${(file.size / 1024).toLocaleString('en-US', { maximumFractionDigits: 0 })} KiB: too long to show here; it is planned unchanged.`);
    } else {
      this.text.value = await file.text();
    }
    this.box.hidden = Boolean(this.blob);
    this.large.hidden = !this.blob;
    this.clear();
    this.number();
    this.changed(true);
  }

  typed() {
    this.clear();
    this.number();
    this.changed(false);
  }

  body() {
    return this.blob ?? this.text.value;
  }

  empty() {
    return !this.blob && !this.text.value.trim();
  }

  number() {
    const n = this.text.value.split('\n').length;
    if (n === this.numbered && !this.badLine) return;
    this.numbered = n;
    this.lines.replaceChildren(...Array.from({ length: Math.min(n, 20000) }, (_, i) => h('div', { class: i + 1 === this.badLine ? 'bad' : '' }, String(i + 1))));
  }

  clear() {
    if (this.badLine) this.numbered = 0;
    this.badLine = undefined;
    this.wrong.replaceChildren();
  }

  // fail shows an error in the file, at its line.
  fail(problem) {
    const b = problem.body ?? {};
    this.badLine = b.line;
    this.numbered = 0;
    this.number();
    const place = [b.line ? `line ${b.line}${b.column ? `, column ${b.column}` : ''}` : '', b.field].filter(Boolean).join(': ');
    this.wrong.replaceChildren(h('div', { class: 'warning', data: { state: 'failed' } }, h('div', { class: 'stack tight' },
      place ? h('b', {}, place) : '', h('span', {}, b.reason || problem.message), b.hint ? h('span', {}, b.hint) : '',
      b.line && !this.blob ? h('button', { type: 'button', class: 'link', on: { click: () => this.goTo(b.line, b.column) } }, `Go to line ${b.line}`) : '')));
    if (b.line && !this.blob) this.scrollTo(b.line);
  }

  scrollTo(line) {
    const height = parseFloat(getComputedStyle(this.text).lineHeight) || 20;
    this.text.scrollTop = Math.max((line - 6) * height, 0);
    this.lines.scrollTop = this.text.scrollTop;
  }

  goTo(line, column = 1) {
    const lines = this.text.value.split('\n');
    const at = lines.slice(0, line - 1).reduce((n, l) => n + l.length + 1, 0) + Math.max(column - 1, 0);
    this.text.focus();
    this.text.setSelectionRange(at, at);
    this.scrollTo(line);
  }
}
