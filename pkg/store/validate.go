package store

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// Validate reports whether every driver accepts tx: it returns nil, or
// ErrTooLarge or ErrInvalid with detail. Every driver calls it first, so that
// all agree. It only reads tx.
func (tx Tx) Validate() error {
	if n := len(tx.Writes) + len(tx.Events); n > MaxItems {
		return fmt.Errorf("%w: %d writes and events; the maximum is %d", ErrTooLarge, n, MaxItems)
	}
	total := 0
	for i := range tx.Writes {
		n, err := tx.Writes[i].validate()
		if err != nil {
			return err
		}
		total += n
	}
	for i := range tx.Events {
		n, err := tx.Events[i].validate()
		if err != nil {
			return err
		}
		total += n
	}
	if total > MaxTxBytes {
		return fmt.Errorf("%w: a transaction of %d bytes; the maximum is %d", ErrTooLarge, total, MaxTxBytes)
	}
	return tx.validateUnique()
}

func (tx Tx) validateUnique() error {
	keys := make(map[Key]struct{}, len(tx.Writes))
	for i := range tx.Writes {
		keys[tx.Writes[i].Key] = struct{}{}
		if len(keys) != i+1 {
			return fmt.Errorf("%w: duplicate key %q", ErrInvalid, tx.Writes[i].Key)
		}
	}
	ids := make(map[string]struct{}, len(tx.Events))
	for i := range tx.Events {
		ids[tx.Events[i].ID] = struct{}{}
		if len(ids) != i+1 {
			return fmt.Errorf("%w: duplicate event %q", ErrInvalid, tx.Events[i].ID)
		}
	}
	return nil
}

func (w *Write) validate() (size int, err error) {
	if err := w.Key.Validate(); err != nil {
		return 0, err
	}
	if w.Op > Check {
		return 0, fmt.Errorf("%w: unknown operation %d on %q", ErrInvalid, w.Op, w.Key)
	}
	if w.Op == Check && w.Expect == Any {
		return 0, fmt.Errorf("%w: the check of %q names no version to expect", ErrInvalid, w.Key)
	}
	size = len(w.Key.Partition) + len(w.Key.Sort) + len(w.Body)
	if size > MaxItemBytes {
		return 0, fmt.Errorf("%w: record %q has %d bytes; the maximum is %d", ErrTooLarge, w.Key, size, MaxItemBytes)
	}
	return size, nil
}

func (e *Event) validate() (size int, err error) {
	if err := validateText("event ID", e.ID); err != nil {
		return 0, err
	}
	size = len(e.ID) + len(e.Body)
	if size > MaxItemBytes {
		return 0, fmt.Errorf("%w: event %q has %d bytes; the maximum is %d", ErrTooLarge, e.ID, size, MaxItemBytes)
	}
	return size, nil
}

// Validate returns ErrInvalid or ErrTooLarge if no record can have this key.
func (k Key) Validate() error {
	if err := validateText("partition", k.Partition); err != nil {
		return err
	}
	return validateText("sort key", k.Sort)
}

// ValidateQuery returns ErrInvalid or ErrTooLarge for query arguments that no
// driver accepts.
func ValidateQuery(partition, prefix string, page Page) error {
	if err := validateText("partition", partition); err != nil {
		return err
	}
	if prefix != "" {
		if err := validateText("prefix", prefix); err != nil {
			return err
		}
	}
	if page.After != "" {
		if err := validateText("sort key to continue after", page.After); err != nil {
			return err
		}
	}
	if page.Limit < 0 {
		return fmt.Errorf("%w: page limit %d", ErrInvalid, page.Limit)
	}
	return nil
}

func validateText(what, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%w: empty %s", ErrInvalid, what)
	case len(s) > MaxKeyBytes:
		return fmt.Errorf("%w: %s has %d bytes; the maximum is %d", ErrTooLarge, what, len(s), MaxKeyBytes)
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: %s %q is not UTF-8", ErrInvalid, what, s)
	}
	return nil
}

// RoundExpiry returns t in UTC, rounded up to whole seconds, as drivers store it.
// Zero stays zero.
func RoundExpiry(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	seconds := t.Unix()
	if t.Nanosecond() > 0 {
		seconds++
	}
	return time.Unix(seconds, 0).UTC()
}
