// Package rank has two structures that find the first item without looking at all
// of them: a heap in which only the first item may change its rank, and a tournament
// over scores in which any score may change.
package rank
