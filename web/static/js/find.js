// Finds text in an element without changing it: highlights matches if the browser supports that, and scrolls to the current one.

const MOST = 5000; // maximum number of matches

export class Find {
  constructor(box) {
    this.box = box;
    this.ranges = [];
    this.at = -1;
    this.can = typeof Highlight === 'function' && CSS.highlights;
  }

  // look searches for a text, ignoring case, and returns the number of matches.
  look(text) {
    this.box.normalize();
    this.ranges = [];
    const node = this.box.firstChild;
    const want = text.toLowerCase();
    if (want && node?.nodeType === 3) {
      const all = node.data.toLowerCase();
      for (let k = all.indexOf(want); k >= 0 && this.ranges.length < MOST && all.length === node.data.length; k = all.indexOf(want, k + want.length)) {
        const r = new Range();
        r.setStart(node, k);
        r.setEnd(node, k + want.length);
        this.ranges.push(r);
      }
    }
    this.at = Math.min(this.at, this.ranges.length - 1);
    this.paint();
    return this.ranges.length;
  }

  // go moves to the next or the previous match.
  go(by) {
    const n = this.ranges.length;
    if (!n) return;
    this.at = this.at < 0 ? (by > 0 ? 0 : n - 1) : (this.at + by + n) % n;
    this.paint();
    const r = this.ranges[this.at].getBoundingClientRect();
    const b = this.box.getBoundingClientRect();
    this.box.scrollTop += r.top - b.top - b.height / 2;
  }

  paint() {
    if (!this.can) return;
    CSS.highlights.set('found', new Highlight(...this.ranges));
    CSS.highlights.set('found-here', new Highlight(...(this.ranges[this.at] ? [this.ranges[this.at]] : [])));
  }

  close() {
    if (!this.can) return;
    CSS.highlights.delete('found');
    CSS.highlights.delete('found-here');
  }
}
