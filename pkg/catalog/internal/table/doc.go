// Package table holds a catalogue's offers as columns, small enough for a binary
// to carry: the places and the machine types that clouds sell, distinct prices,
// and for each offer its positions among those. A [Builder] lays them out;
// [Encode] and [Decode] are their binary form. What an offer means, and how
// offers are searched, is package catalog's.
package table
