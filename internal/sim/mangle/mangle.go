// Package mangle makes transactions lose what a broken store would.
package mangle

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Unconditional has the records of some partitions written whatever version is expected.
func Unconditional(tx store.Tx, partition string) store.Tx {
	tx.Writes = slices.Clone(tx.Writes)
	for i := range tx.Writes {
		if w := &tx.Writes[i]; strings.HasPrefix(w.Key.Partition, partition) && w.Op != store.Check {
			w.Expect = store.Any
		}
	}
	return tx
}

// Without removes what is written of some partitions.
func Without(tx store.Tx, partition string) store.Tx {
	return Drop(tx, func(w store.Write) bool { return strings.HasPrefix(w.Key.Partition, partition) })
}

// Drop removes writes.
func Drop(tx store.Tx, lost func(store.Write) bool) store.Tx {
	tx.Writes = slices.DeleteFunc(slices.Clone(tx.Writes), lost)
	return tx
}

// WithoutField removes a field, from how it begins to how it ends, of the records whose sort key begins so.
func WithoutField(tx store.Tx, sort, field, end string) store.Tx {
	tx.Writes = slices.Clone(tx.Writes)
	for i := range tx.Writes {
		w := &tx.Writes[i]
		before, rest, found := bytes.Cut(w.Body, []byte(field))
		if strings.HasPrefix(w.Key.Sort, sort) && found {
			_, after, _ := bytes.Cut(rest, []byte(end))
			w.Body = slices.Concat(before, after)
		}
	}
	return tx
}

// counts are the numbers of a record's body.
var counts = regexp.MustCompile(`:\d+`)

// AsOne has every number in some records be 1.
func AsOne(tx store.Tx, of func(store.Key) bool) store.Tx {
	tx.Writes = slices.Clone(tx.Writes)
	for i := range tx.Writes {
		if w := &tx.Writes[i]; of(w.Key) {
			w.Body = counts.ReplaceAll(w.Body, []byte(":1"))
		}
	}
	return tx
}
