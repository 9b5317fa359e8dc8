// Package table stores a catalogue's offers as columns, small enough to be embedded in a binary: the places and
// machine types that clouds sell, the distinct prices, and for each offer its positions among those. A [Builder]
// makes the columns; [Encode] and [Decode] convert them to and from their binary form. The meaning of offers and the
// search are in package catalog.
package table
