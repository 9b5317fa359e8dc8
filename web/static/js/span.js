// A part of time that several charts show together, and the moments that are written on its axis.

const STEPS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 604800, 2592000].map((sec) => 1000 * sec);
const DAY = 86400000;

// RIGHT is what is left free to the right of an axis, in pixels: of the timeline it is the scroll bar's.
export const RIGHT = 16;
const HALF = 3.4; // pixels of half a character of a tick

// room is how many ticks an axis of a width has room for.
export function room(width) {
  return Math.max(Math.floor(width / 64), 2);
}

// Span is what is looked at, from and to in milliseconds, of what there is. Charts share one: zooming in one zooms all.
export class Span {
  constructor() {
    this.all = [0, 1];
    this.part = undefined; // all, while nobody has zoomed
    this.watchers = new Set();
  }

  get from() {
    return (this.part ?? this.all)[0];
  }

  get to() {
    return (this.part ?? this.all)[1];
  }

  // grow says what there is now. Who looks at all of it goes on doing so.
  grow(from, to) {
    if (from === this.all[0] && to === this.all[1]) return;
    this.all = [from, Math.max(to, from + 1)];
    this.tell();
  }

  set(from, to) {
    const least = Math.max((this.all[1] - this.all[0]) / 5000, 1000);
    let width = Math.max(to - from, least);
    width = Math.min(width, this.all[1] - this.all[0]);
    const start = Math.min(Math.max(from, this.all[0]), this.all[1] - width);
    this.part = width >= this.all[1] - this.all[0] ? undefined : [start, start + width];
    this.tell();
  }

  // zoom scales what is looked at around its middle, or around a moment.
  zoom(by, around = (this.from + this.to) / 2) {
    this.set(around - (around - this.from) * by, around + (this.to - around) * by);
  }

  // move goes along by a share of what is looked at.
  move(by) {
    const d = by * (this.to - this.from);
    this.set(this.from + d, this.to + d);
  }

  whole() {
    this.part = undefined;
    this.tell();
  }

  watch(f) {
    this.watchers.add(f);
    return () => this.watchers.delete(f);
  }

  tell() {
    for (const f of this.watchers) f(this);
  }
}

// ticks are round moments between two, at most so many, in the time zone of who looks.
export function ticks(from, to, most) {
  const step = STEPS.find((s) => (to - from) / s <= most) ?? Math.ceil((to - from) / most / DAY) * DAY;
  const zone = new Date(from).getTimezoneOffset() * 60000;
  const out = [];
  for (let t = Math.ceil((from - zone) / step) * step + zone; t <= to; t += step) out.push(t);
  return out;
}

const time = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const second = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
const day = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' });

// names are what ticks are called: by the clock, and by the date where a day begins.
export function names(list) {
  const step = list.length > 1 ? list[1] - list[0] : 60000;
  return list.map((t) => {
    const midnight = new Date(t).getHours() === 0 && new Date(t).getMinutes() === 0 && new Date(t).getSeconds() === 0;
    if (step >= DAY || midnight) return day.format(t);
    return (step < 60000 ? second : time).format(t);
  });
}

// fitting are the names of ticks without one that would be cut off at the right end of an axis so many pixels long.
export function fitting(list, from, to, px) {
  return names(list).map((text, i) => (((to - list[i]) / (to - from)) * px + RIGHT < text.length * HALF ? '' : text));
}

// precise writes a moment with its date.
export function precise(t) {
  return `${day.format(t)}, ${second.format(t)}`;
}
