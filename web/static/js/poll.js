// Polls the data of a page: less often the longer nothing has changed, and not at all while the page is hidden.

const EVERY = 3000; // ms between two requests
const SELDOM = 30000; // after nothing has changed for a while

export class Poll {
  // load returns the data; show is called if it differs from the last time.
  constructor({ load, show, live, fail, every = EVERY }) {
    Object.assign(this, { load, show, live, fail, every, wait: every });
    this.seen = () => document.hidden || this.look();
    document.addEventListener('visibilitychange', this.seen);
    this.look();
  }

  close() {
    clearTimeout(this.timer);
    document.removeEventListener('visibilitychange', this.seen);
    this.closed = true;
  }

  async look() {
    clearTimeout(this.timer);
    if (this.closed || (document.hidden && this.last)) return;
    try {
      const data = await this.load();
      if (this.closed) return;
      this.live('live');
      // Redrawn only if something changed, so that a selection is not lost. A new clock time alone does not count.
      const news = JSON.stringify(data, (name, v) => (name === 'now' ? undefined : v));
      this.wait = news === this.last ? Math.min(1.5 * this.wait, SELDOM) : this.every;
      if (news !== this.last) this.show(data);
      this.last = news;
    } catch (err) {
      if (this.closed) return;
      if (err.status || !this.last) return this.fail(err);
      this.live('lost');
    }
    this.timer = setTimeout(() => this.look(), this.wait);
  }
}
