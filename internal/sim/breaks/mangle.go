package breaks

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Unconditional ignores the expected versions of records in the partitions with a prefix.
func Unconditional(tx store.Tx, partition string) store.Tx {
	tx.Writes = slices.Clone(tx.Writes)
	for i := range tx.Writes {
		if w := &tx.Writes[i]; strings.HasPrefix(w.Key.Partition, partition) && w.Op != store.Check {
			w.Expect = store.Any
		}
	}
	return tx
}

// Without removes writes to the partitions with a prefix.
func Without(tx store.Tx, partition string) store.Tx {
	return Drop(tx, func(w store.Write) bool { return strings.HasPrefix(w.Key.Partition, partition) })
}

// Drop removes the writes for which lost is true.
func Drop(tx store.Tx, lost func(store.Write) bool) store.Tx {
	tx.Writes = slices.DeleteFunc(slices.Clone(tx.Writes), lost)
	return tx
}

// WithoutField removes the text from field up to end from records whose sort key starts with sort.
func WithoutField(tx store.Tx, sort, field, end string) store.Tx {
	tx.Writes = slices.Clone(tx.Writes)
	for i := range tx.Writes {
		if w := &tx.Writes[i]; strings.HasPrefix(w.Key.Sort, sort) {
			w.Body = cutField(w.Body, field, end)
		}
	}
	return tx
}

// cutField returns a body without the text from field to end.
func cutField(body []byte, field, end string) []byte {
	before, rest, found := bytes.Cut(body, []byte(field))
	if !found {
		return body
	}
	_, after, _ := bytes.Cut(rest, []byte(end))
	return slices.Concat(before, after)
}

// counts matches the numbers in a record's body.
var counts = regexp.MustCompile(`:\d+`)

// AsOne replaces every number in some records by 1.
func AsOne(tx store.Tx, of func(store.Key) bool) store.Tx {
	tx.Writes = slices.Clone(tx.Writes)
	for i := range tx.Writes {
		if w := &tx.Writes[i]; of(w.Key) {
			w.Body = counts.ReplaceAll(w.Body, []byte(":1"))
		}
	}
	return tx
}
