// The drawing of a job's DAG with the states of its tasks: one box for each task, or one for each level if there are many tasks.
// Users can move and zoom it with pointer, touch and keys, and move between boxes with the arrow keys.

import { h, s, set, shapeOf } from './dom.js';
import { STATES, count, machine, offer, percent, place, progress, stateOf, tally } from './format.js';
import { blocks, collapse, layout, widest } from './layout.js';

const MANY = 300; // minimum number of tasks at which levels are drawn instead
const MOST = 3000; // maximum number of tasks that can be drawn individually
const WIDE = 60; // tasks in a level at which it is drawn as a block of columns
const FULL = { w: 196, h: 68, gapX: 56, gapY: 16, bend: 8 };
const SMALL = { w: 148, h: 24, gapX: 64, gapY: 6, bend: 4 };
const LEVEL = { w: 256, h: 92, gapX: 60, gapY: 18, bend: 8 };
const PAD = 16;
const NARROW = 560; // width below which levels are drawn from top to bottom
const ABREAST = 2; // boxes in a row of such a drawing
const TALLEST = 2400; // pixels
const ZOOM_MIN = 0.02;
const ZOOM_MAX = 2.5;
const LEGIBLE = 0.62; // the smallest zoom at which names are legible

const ink = document.createElement('canvas').getContext('2d');

// clip shortens a text to a width in pixels, given its font weight and size.
function clip(text, most, font) {
  ink.font = `${font} ${getComputedStyle(document.body).fontFamily}`;
  if (ink.measureText(text).width <= most) return text;
  let [fits, over] = [0, text.length];
  while (over - fits > 1) {
    const mid = (fits + over) >> 1;
    if (ink.measureText(`${text.slice(0, mid)}…`).width <= most) fits = mid;
    else over = mid;
  }
  return `${text.slice(0, fits)}…`;
}

// glyph is a state's icon inside the drawing.
function glyph(x, y, size) {
  const path = s('path', { class: 'glyph' });
  path.setAttribute('transform', `translate(${x} ${y}) scale(${size / 16})`);
  return path;
}

export class Graph {
  // select is called with a task's index, or with the tasks of a level.
  constructor({ select, selectLevel }) {
    this.select = select;
    this.selectLevel = selectLevel;
    this.view = { x: 0, y: 0, k: 1 };
    this.tasks = [];
    this.width = 0; // for which it is drawn; 0 before it is visible
    this.forced = false; // draw every task, although there are many
    this.world = s('g', {});
    this.svg = s('svg', { class: 'graph', role: 'group', 'aria-label': 'Tasks and their dependencies', data: { graph: '' } }, this.world);
    this.mode = h('button', { type: 'button', class: 'quiet', hidden: true, on: { click: () => this.toggle() } });
    this.zoomText = h('output', { class: 'zoom', 'aria-label': 'Zoom' });
    const tool = (label, text, run) => h('button', { type: 'button', class: 'tool', title: label, 'aria-label': label, on: { click: run } }, text);
    this.tools = h('div', { class: 'tools', role: 'group', 'aria-label': 'Drawing' },
      this.mode, this.zoomText,
      tool('Zoom out', '−', () => this.zoom(1 / 1.3)), tool('Zoom in', '+', () => this.zoom(1.3)), tool('Show everything', '⤢', () => this.fit(true)));
    this.listen();
    this.resized = new ResizeObserver(() => this.resize());
    this.resized.observe(this.svg);
  }

  close() {
    this.resized.disconnect();
  }

  // resize draws it when it becomes visible, and when another direction fits better.
  resize() {
    const width = this.svg.clientWidth;
    if (!width) return;
    const other = !this.boxes || (width < NARROW) !== (this.width < NARROW);
    this.width = width;
    if (other) this.draw();
    else if (this.untouched) this.fit(this.whole);
  }

  // show redraws everything if the list of tasks changed, and otherwise only the changed tasks.
  show(job, changed) {
    const same = this.tasks.length === job.tasks.length && this.boxes;
    this.job = job;
    this.tasks = job.tasks;
    if (!same) this.draw();
    else if (this.folded) this.paintLevels();
    else for (const i of changed) this.paint(i);
  }

  toggle() {
    this.forced = !this.forced;
    this.draw();
  }

  draw() {
    if (!this.width || !this.tasks.length) return;
    const many = this.tasks.length > MANY;
    this.folded = many && !this.forced;
    this.mode.hidden = !many || this.tasks.length > MOST;
    set(this.mode, this.folded ? `Show all ${this.tasks.length.toLocaleString('en-US')} tasks` : 'Show levels');
    const after = this.tasks.map((t) => t.after ?? []);
    this.size = this.folded ? LEVEL : many ? SMALL : FULL;
    this.fold = this.folded ? collapse(after) : undefined;
    const dense = !this.folded && many && widest(after) > WIDE;
    const height = 0.62 * window.innerHeight;
    this.down = this.width < NARROW && (this.folded || !many);
    const place = this.down ? downwards : layout;
    this.placed = dense ? blocks(after, this.size, this.width / height) : place(this.fold?.after ?? after, this.size);
    this.children = this.placed.nodes.map(() => []);
    this.parents = this.placed.nodes.map(() => []);
    for (const e of this.placed.edges) {
      this.children[e.from].push(e.to);
      this.parents[e.to].push(e.from);
    }
    this.lines = this.placed.edges.map((e) => s('path', { class: 'edge', d: this.down ? curveDown(e.points) : curve(e.points), data: { from: e.from, to: e.to } }));
    this.boxes = this.placed.nodes.map((n, i) => (this.folded ? this.levelBox(n, i) : this.taskBox(n, i, many)));
    this.world.replaceChildren(s('g', { 'aria-hidden': 'true' }, this.lines), ...this.boxes.map((b) => b.el));
    this.svg.classList.toggle('small', many && !this.folded);
    this.svg.classList.toggle('dense', dense);
    const scale = this.down ? this.scale() : 1;
    this.svg.style.setProperty('height', `${Math.max(Math.min(this.placed.height * scale + 2 * PAD, this.down ? TALLEST : height), this.down ? 0 : 200)}px`);
    this.boxes[0]?.el.setAttribute('tabindex', '0');
    if (this.folded) this.paintLevels();
    else this.tasks.forEach((_, i) => this.paint(i));
    this.mark(this.selected);
    this.fit();
  }

  // box creates the common parts of task and level boxes.
  box(node, i, data, choose) {
    const el = s('g', { class: 'node', role: 'button', tabindex: '-1', transform: `translate(${node.x} ${node.y})`, data },
      s('title', {}), s('rect', { class: 'body', width: node.w, height: node.h, rx: Math.min(8, node.h / 3) }));
    el.addEventListener('click', () => choose());
    el.addEventListener('keydown', (e) => this.walk(e, i, choose));
    el.addEventListener('focus', () => this.reveal(i));
    return el;
  }

  taskBox(node, i, small) {
    const el = this.box(node, i, { task: i }, () => this.select(i));
    const task = this.tasks[i];
    const bar = s('rect', { class: 'stripe', width: 4, height: node.h - 12, x: 5, y: 6, rx: 2 });
    const mark = small ? glyph(13, 4, 15) : glyph(17, 8, 16);
    const name = s('text', { class: 'name', x: small ? 33 : 39, y: small ? 16 : 21 }, clip(task.name, node.w - (small ? 39 : 47), small ? '500 11.5px' : '600 13px'));
    el.append(bar, mark, name);
    const box = { el, mark };
    if (!small) {
      box.where = s('text', { class: 'where', x: 17, y: 39 });
      box.machine = s('text', { class: 'where', x: 17, y: 54 });
      box.share = s('text', { class: 'where', x: node.w - 8, y: 54, 'text-anchor': 'end' });
      box.done = s('rect', { class: 'done', x: 5, y: node.h - 6, height: 4, rx: 2, width: 0 });
      el.append(box.where, box.machine, box.share, box.done);
    }
    return box;
  }

  // paint shows the state of a task.
  paint(i) {
    const task = this.tasks[i];
    const box = this.boxes[i];
    const state = stateOf(task);
    if (box.el.dataset.state !== state) {
      box.el.dataset.state = state;
      box.mark.setAttribute('d', shapeOf(state));
    }
    const where = place(task.offer);
    const ran = task.attempts > 0 && state !== 'queued';
    const label = `${task.name}: ${state}${where ? `, ${ran ? 'on' : 'planned on'} ${where}` : ''}` +
      `${machine(task) ? `, ${machine(task)}` : ''}${task.attempts > 1 ? `, attempt ${task.attempts}` : ''}${task.progress > 0 && state !== 'succeeded' ? `, ${percent(task.progress)} saved` : ''}`;
    if (box.label !== label) {
      box.label = label;
      box.el.setAttribute('aria-label', label);
      set(box.el.firstChild, label);
    }
    if (!box.where) return;
    const market = offer(task.offer)?.market;
    const share = state === 'running' || (state !== 'succeeded' && task.progress) ? progress(this.job, task) : 0;
    set(box.share, task.service || !share ? '' : percent(share));
    set(box.machine, clip(machine(task), this.size.w - (share ? 60 : 25), '400 11.5px'));
    set(box.where, clip(where ? `${where}${market ? ` · ${market === 'spot' ? 'spot' : 'od'}` : ''}${task.nodes > 1 ? ` ×${task.nodes}` : ''}` : state, this.size.w - 25, '400 11.5px'));
    box.done.setAttribute('width', Math.round((this.size.w - 10) * share));
  }

  levelBox(node, i) {
    const members = this.fold.members[i];
    const el = this.box(node, i, { level: i }, () => this.selectLevel(i, members));
    const title = s('text', { class: 'name', x: 14, y: 24 }, clip(commonName(members.map((m) => this.tasks[m].name)), node.w - 28, '600 13px'));
    const sub = s('text', { class: 'where', x: 14, y: 42 }, `level ${i + 1} · ${count(members.length, 'task')}`);
    const bars = STATES.map((state) => s('rect', { class: 'share', y: 54, height: 8, data: { state } }));
    const legend = s('text', { class: 'where', x: 14, y: 80 });
    el.append(title, sub, s('rect', { class: 'track', x: 14, y: 54, width: node.w - 28, height: 8 }), ...bars, legend);
    return { el, bars, legend, name: title.textContent, width: node.w - 28 };
  }

  // paintLevels counts the states of every level.
  paintLevels() {
    this.boxes.forEach((box, i) => {
      const members = this.fold.members[i];
      const counts = tally(members.map((m) => this.tasks[m]));
      let x = 14;
      box.bars.forEach((bar, k) => {
        const w = (box.width * (counts[STATES[k]] ?? 0)) / members.length;
        bar.setAttribute('x', x.toFixed(2));
        bar.setAttribute('width', w.toFixed(2));
        x += w;
      });
      const told = STATES.filter((st) => counts[st]).map((st) => `${counts[st].toLocaleString('en-US')} ${st}`);
      set(box.legend, clip(told.join(' · ').replace('succeeded', 'done'), box.width, '400 11.5px'));
      box.el.dataset.state = counts.failed ? 'failed' : counts.running ? 'running' : counts.succeeded === members.length ? 'succeeded' : 'waiting';
      const label = `Level ${i + 1}, ${box.name}, ${count(members.length, 'task')}: ${told.join(', ')}`;
      box.el.setAttribute('aria-label', label);
      set(box.el.firstChild, label);
    });
  }

  // mark highlights the selected task and its edges.
  mark(index) {
    this.selected = index;
    if (!this.boxes || this.folded) return;
    this.boxes.forEach((b, i) => b.el.classList.toggle('selected', i === index));
    this.placed.edges.forEach((e, k) => this.lines[k].classList.toggle('lit', e.from === index || e.to === index));
  }

  // walk moves between boxes: to a successor, to a predecessor, and within the level.
  walk(e, i, choose) {
    const at = this.placed.nodes[i];
    const beside = (by) => this.placed.nodes.findIndex((n) => n.level === at.level && n.order > at.order === by > 0 && n.order !== at.order &&
      !this.placed.nodes.some((m) => m.level === at.level && m.order !== at.order && (by > 0 ? m.order > at.order && m.order < n.order : m.order < at.order && m.order > n.order)));
    const [ahead, back, more, less] = this.down ? ['ArrowDown', 'ArrowUp', 'ArrowRight', 'ArrowLeft'] : ['ArrowRight', 'ArrowLeft', 'ArrowDown', 'ArrowUp'];
    const next = { [ahead]: () => this.children[i][0], [back]: () => this.parents[i][0], [more]: () => beside(1), [less]: () => beside(-1) }[e.key];
    if (next) {
      const to = next();
      e.preventDefault();
      if (to === undefined || to < 0) return;
      this.boxes[i].el.setAttribute('tabindex', '-1');
      this.boxes[to].el.setAttribute('tabindex', '0');
      this.boxes[to].el.focus({ preventScroll: true });
    } else if (e.key === 'Enter' || e.key === ' ') {
      e.preventDefault();
      choose();
    }
  }

  // reveal scrolls a box into view.
  reveal(i) {
    const n = this.placed.nodes[i];
    const { width, height } = this.svg.getBoundingClientRect();
    const { k } = this.view;
    const keep = (shift, from, size, room) => {
      const lo = shift + from * k;
      if (lo < PAD) return shift + PAD - lo;
      const hi = lo + size * k;
      return hi > room - PAD ? shift - Math.min(hi - room + PAD, lo - PAD) : shift;
    };
    this.view.x = keep(this.view.x, n.x, n.w, width);
    this.view.y = keep(this.view.y, n.y, n.h, height);
    this.apply();
  }

  // fit zooms to show everything, at most at full size. Without everything, it stays large enough to read and
  // shows the active part.
  fit(everything = false) {
    const { width, height } = this.svg.getBoundingClientRect();
    if (!width || !this.placed) return;
    if (this.down) return this.fitDown(everything, width, height);
    const whole = Math.min((width - 2 * PAD) / this.placed.width, (height - 2 * PAD) / this.placed.height, 1);
    const least = everything || this.size === SMALL ? ZOOM_MIN : LEGIBLE;
    let k = Math.max(whole, least);
    const step = this.size.w + this.size.gapX;
    // If not all columns fit, the visible ones are complete.
    const columns = Math.max(Math.floor((width - 2 * PAD + this.size.gapX * k) / (step * k)), 1);
    const cut = k > whole && this.placed.width * k > width - 2 * PAD && this.size !== SMALL;
    if (cut) k = Math.min(Math.max((width - 2 * PAD) / (columns * step - this.size.gapX), least), 1);
    const focus = this.placed.nodes[this.focusOn()];
    const along = (room, size, from, extent) => {
      const spare = room - size * k;
      if (spare >= 2 * PAD) return spare / 2;
      return Math.max(Math.min(room / 2 - (from + extent / 2) * k, PAD), spare - PAD);
    };
    const first = Math.max(Math.min(focus.level - Math.floor(columns / 2), Math.round((this.placed.width + this.size.gapX) / step) - columns), 0);
    const x = cut ? PAD - first * step * k : along(width, this.placed.width, focus.x, focus.w);
    this.view = { k, x, y: along(height, this.placed.height, focus.y, focus.h) };
    this.untouched = true;
    this.whole = everything;
    this.apply();
  }

  // scale is the zoom at which a drawing from top to bottom has the width of the page, but stays legible.
  scale() {
    return Math.min(Math.max((this.width - 2 * PAD) / this.placed.width, LEGIBLE), 1);
  }

  fitDown(everything, width, height) {
    const whole = Math.min((width - 2 * PAD) / this.placed.width, (height - 2 * PAD) / this.placed.height, 1);
    const k = everything ? Math.max(whole, ZOOM_MIN) : this.scale();
    const focus = this.placed.nodes[this.focusOn()];
    const spare = width - this.placed.width * k;
    const x = spare >= 2 * PAD - 1 ? spare / 2 : Math.max(Math.min(width / 2 - (focus.x + focus.w / 2) * k, PAD), spare - PAD);
    this.view = { k, x, y: PAD };
    this.untouched = true;
    this.whole = everything;
    this.apply();
  }

  // focusOn is the box to show first: the selected one, or else the first active one.
  focusOn() {
    if (!this.folded && this.selected !== undefined) return this.selected;
    for (const state of ['running', 'launching', 'failed', 'queued', 'waiting']) {
      const i = this.boxes.findIndex((b) => b.el.dataset.state === state);
      if (i >= 0) return i;
    }
    return 0;
  }

  zoom(by, cx, cy) {
    const { width, height } = this.svg.getBoundingClientRect();
    const x = cx ?? width / 2;
    const y = cy ?? height / 2;
    const k = Math.min(Math.max(this.view.k * by, ZOOM_MIN), ZOOM_MAX);
    this.view.x = x - ((x - this.view.x) * k) / this.view.k;
    this.view.y = y - ((y - this.view.y) * k) / this.view.k;
    this.view.k = k;
    this.untouched = false;
    this.apply();
  }

  move(dx, dy) {
    this.view.x += dx;
    this.view.y += dy;
    this.untouched = false;
    this.apply();
  }

  apply() {
    const { x, y, k } = this.view;
    this.world.setAttribute('transform', `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${k.toFixed(4)})`);
    set(this.zoomText, percent(k));
  }

  // listen handles dragging (moves) and pinching or the wheel with Ctrl or ⌘ (zooms). The plain wheel still scrolls the page.
  listen() {
    const pointers = new Map();
    let moved = 0;
    const at = (e) => {
      const r = this.svg.getBoundingClientRect();
      return { x: e.clientX - r.left, y: e.clientY - r.top };
    };
    const gap = () => {
      const [a, b] = [...pointers.values()];
      return { d: Math.hypot(a.x - b.x, a.y - b.y) || 1, x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
    };
    this.svg.addEventListener('pointerdown', (e) => {
      if (e.pointerType === 'mouse' && e.button !== 0) return;
      pointers.set(e.pointerId, at(e));
      moved = 0;
    });
    this.svg.addEventListener('pointermove', (e) => {
      const was = pointers.get(e.pointerId);
      if (!was) return;
      const before = pointers.size === 2 ? gap() : undefined;
      const is = at(e);
      pointers.set(e.pointerId, is);
      moved += Math.abs(is.x - was.x) + Math.abs(is.y - was.y);
      if (moved < 5) return;
      // Captured only after a move, so that a click still reaches its box.
      if (!this.svg.hasPointerCapture(e.pointerId)) this.svg.setPointerCapture(e.pointerId);
      if (!before) return this.move(is.x - was.x, is.y - was.y);
      const after = gap();
      this.move(after.x - before.x, after.y - before.y);
      this.zoom(after.d / before.d, after.x, after.y);
    });
    for (const end of ['pointerup', 'pointercancel']) {
      this.svg.addEventListener(end, (e) => pointers.delete(e.pointerId));
    }
    this.svg.addEventListener('wheel', (e) => {
      if (!e.ctrlKey && !e.metaKey) return;
      e.preventDefault();
      const p = at(e);
      this.zoom(Math.exp(-e.deltaY / 300), p.x, p.y);
    }, { passive: false });
    this.svg.addEventListener('keydown', (e) => {
      const run = { '+': () => this.zoom(1.3), '=': () => this.zoom(1.3), '-': () => this.zoom(1 / 1.3), 0: () => this.fit(true) }[e.key];
      if (!run || e.ctrlKey || e.metaKey) return;
      e.preventDefault();
      run();
    });
  }
}

// downwards is a layout whose levels follow each other from top to bottom. A wide level has several rows.
function downwards(after, size) {
  const sideways = { ...size, w: size.h, h: size.w, gapX: size.gapX / 2 };
  const turned = widest(after) > ABREAST ? blocks(after, sideways, 1, ABREAST) : layout(after, sideways);
  return {
    nodes: turned.nodes.map((n) => ({ ...n, x: n.y, y: n.x, w: n.h, h: n.w })),
    edges: turned.edges.map((e) => ({ ...e, points: e.points.map(([x, y]) => [y, x]) })), width: turned.height, height: turned.width,
  };
}

// curveDown joins points by lines that start and end vertically.
function curveDown(points) {
  return points.map(([x, y], k) => {
    if (!k) return `M${x.toFixed(1)} ${y}`;
    const [x0, y0] = points[k - 1];
    const mid = (y0 + y) / 2;
    return `C${x0.toFixed(1)} ${mid} ${x.toFixed(1)} ${mid} ${x.toFixed(1)} ${y}`;
  }).join('');
}

// curve joins points by lines that start and end horizontally.
function curve(points) {
  let d = `M${points[0][0]} ${points[0][1].toFixed(1)}`;
  for (let k = 1; k < points.length; k++) {
    const [x0, y0] = points[k - 1];
    const [x1, y1] = points[k];
    const mid = (x0 + x1) / 2;
    d += y0 === y1 ? `H${x1}` : `C${mid} ${y0.toFixed(1)} ${mid} ${y1.toFixed(1)} ${x1} ${y1.toFixed(1)}`;
  }
  return d;
}

// commonName is the common part of the names of a level.
export function commonName(names) {
  if (names.length === 1) return names[0];
  let n = names[0].length;
  for (const name of names) {
    while (!name.startsWith(names[0].slice(0, n))) n--;
  }
  const prefix = names[0].slice(0, n).replace(/[-_.\d]+$/, '');
  if (prefix.length >= 2) return `${prefix}…`;
  const kinds = new Set(names.map((name) => name.replace(/[-_.]?(ID)?\d+$/, '')));
  return kinds.size <= 3 ? [...kinds].join(', ') : `${kinds.size.toLocaleString('en-US')} kinds of task`;
}
