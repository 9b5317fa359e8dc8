package broker

import "fmt"

// flush takes in what was decided in a draft.
func (u *unit) flush(d *draft) error {
	for _, s := range d.mine {
		if s.dirty {
			u.write(s.key, s.body, s.expires)
		}
		if of := u.slots[s.key]; of != nil {
			of.held = of.held || s.held
		}
	}
	for _, data := range d.emits {
		if err := u.emit(data); err != nil {
			return err
		}
	}
	return nil
}

// draftRounds bounds how often a decision is made again: far more than any needs that looks for something new each time.
const draftRounds = 100

// draft makes a decision on what the unit has loaded, again with what it lacked, until it lacks nothing; then the unit takes it in. pools is asked
// for what a decision lacks beside records.
func (u *unit) draft(decide func(*draft) error, pools func() error) error {
	for range draftRounds {
		d := newDraft(u.book, u.now, u.items())
		d.crowded = u.crowded
		err := decide(d)
		if !d.lack.any() {
			if err != nil {
				return err
			}
			return u.flush(d)
		}
		if err := u.supply(d.lack, pools); err != nil {
			return err
		}
	}
	return fmt.Errorf("broker: %s: what it has to look at does not end", u.fn)
}

// supply loads what a draft has lacked, the records at once.
func (u *unit) supply(l lacking, pools func() error) error {
	if err := u.preload(l.keys...); err != nil {
		return err
	}
	for _, r := range l.spans {
		if err := u.loadSpan(r); err != nil {
			return err
		}
	}
	for _, b := range l.blobs {
		if err := u.readBlob(b); err != nil {
			return err
		}
	}
	if l.pools {
		return pools()
	}
	return nil
}

// readBlob reads a blob into the cache.
func (u *unit) readBlob(l lackingBlob) (err error) {
	switch l.ref {
	case l.job.Spec:
		_, err = u.spec(l.job)
	case l.job.Plan:
		_, err = u.plan(l.job)
	default:
		_, err = u.bids(l.job)
	}
	return err
}
