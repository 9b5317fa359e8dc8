// A time span that several charts share, and the ticks on its axis.

const STEPS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 604800, 2592000].map((sec) => 1000 * sec);
const DAY = 86400000;

// RIGHT is the free space to the right of an axis, in pixels: in the timeline it holds the scroll bar.
export const RIGHT = 16;
const HALF = 3.4; // half the width of a tick's character, in pixels

// room is the number of ticks that fit on an axis of a width.
export function room(width) {
  return Math.max(Math.floor(width / 64), 2);
}

// Span is the visible part, from and to in milliseconds, of the whole time. Charts share one: zooming in one zooms all.
export class Span {
  constructor() {
    this.all = [0, 1];
    this.part = undefined; // undefined: everything, until the user zooms
    this.watchers = new Set();
  }

  get from() {
    return (this.part ?? this.all)[0];
  }

  get to() {
    return (this.part ?? this.all)[1];
  }

  // grow extends the whole time. If all of it was visible, all of it stays visible.
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

  // zoom scales the visible part around its middle, or around a given time.
  zoom(by, around = (this.from + this.to) / 2) {
    this.set(around - (around - this.from) * by, around + (this.to - around) * by);
  }

  // move shifts the visible part by a share of its length.
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

// ticks returns at most the given number of round times in a span, in the user's time zone.
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

// names returns the labels of ticks: the time, or the date at the start of a day.
export function names(list) {
  const step = list.length > 1 ? list[1] - list[0] : 60000;
  return list.map((t) => {
    const midnight = new Date(t).getHours() === 0 && new Date(t).getMinutes() === 0 && new Date(t).getSeconds() === 0;
    if (step >= DAY || midnight) return day.format(t);
    return (step < 60000 ? second : time).format(t);
  });
}

// fitting returns the labels of ticks, without one that would be cut off at the right end of an axis of px pixels.
export function fitting(list, from, to, px) {
  return names(list).map((text, i) => (((to - list[i]) / (to - from)) * px + RIGHT < text.length * HALF ? '' : text));
}

// precise writes a time with its date.
export function precise(t) {
  return `${day.format(t)}, ${second.format(t)}`;
}
