package txn

import (
	"fmt"

	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
)

// flush adds the writes and events of a draft to the unit.
func (u *Unit) flush(d *recordcache.Draft) error {
	for _, s := range d.Changed {
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

// draftRounds is the maximum number of rounds of a decision. Correct decisions need far fewer.
const draftRounds = 100

// Draft makes a decision on the records that the unit has loaded. It loads missing records and repeats the decision
// until none is missing. Then the unit takes over the result. pools loads the pools that a decision lacks.
func (u *Unit) Draft(decide func(*recordcache.Draft) error, pools func(recordcache.Missing) error) error {
	for range draftRounds {
		d := recordcache.NewDraft(u.Book, u.Now, u.Items())
		d.Crowded = u.Batched
		err := decide(d)
		if !d.Missing.Any() {
			if err != nil {
				return err
			}
			return u.flush(d)
		}
		if err := u.supply(d.Missing, pools); err != nil {
			return err
		}
	}
	return fmt.Errorf("broker: %s: a decision still lacks records after the maximum number of rounds", u.fn)
}

// supply loads the missing records of a draft in one call.
func (u *Unit) supply(l recordcache.Missing, pools func(recordcache.Missing) error) error {
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
func (u *Unit) readBlob(l recordcache.MissingBlob) (err error) {
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
