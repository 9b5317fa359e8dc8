package unit

import (
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/broker/book"
)

// flush takes in what was decided in a draft.
func (u *Unit) flush(d *book.Draft) error {
	for _, s := range d.Mine {
		if s.Dirty {
			u.write(s.Key, s.Body, s.Expires)
		}
		if of := u.Slots[s.Key]; of != nil {
			of.Held = of.Held || s.Held
		}
	}
	for _, data := range d.Emits {
		if err := u.Emit(data); err != nil {
			return err
		}
	}
	return nil
}

// draftRounds bounds how often a decision is made again: far more than any needs that looks for something new each
// time.
const draftRounds = 100

// Draft makes a decision on what the unit has loaded, again with what it lacked, until it lacks nothing; then the unit
// takes it in. pools is asked for what a decision lacks beside records.
func (u *Unit) Draft(decide func(*book.Draft) error, pools func(book.Lacking) error) error {
	for range draftRounds {
		d := book.NewDraft(u.Book, u.Now, u.Items())
		d.Crowded = u.Crowded
		err := decide(d)
		if !d.Lack.Any() {
			if err != nil {
				return err
			}
			return u.flush(d)
		}
		if err := u.supply(d.Lack, pools); err != nil {
			return err
		}
	}
	return fmt.Errorf("broker: %s: what it has to look at does not end", u.fn)
}

// supply loads what a draft has lacked, the records at once.
func (u *Unit) supply(l book.Lacking, pools func(book.Lacking) error) error {
	if err := u.Preload(l.Keys...); err != nil {
		return err
	}
	for _, r := range l.Spans {
		if err := u.loadSpan(r); err != nil {
			return err
		}
	}
	for _, b := range l.Blobs {
		if err := u.readBlob(b); err != nil {
			return err
		}
	}
	if l.Pools || len(l.Fresh) > 0 {
		return pools(l)
	}
	return nil
}

// readBlob reads a blob into the cache.
func (u *Unit) readBlob(l book.LackingBlob) (err error) {
	switch l.Ref {
	case l.Job.Spec:
		_, err = u.Spec(l.Job)
	case l.Job.Plan:
		_, err = u.Plan(l.Job)
	default:
		_, err = u.Bids(l.Job)
	}
	return err
}
