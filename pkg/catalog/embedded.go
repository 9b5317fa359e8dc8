package catalog

import (
	_ "embed"
	"sync"
)

// The snapshot holds the offers of data/README.md. After that data changes:
//
//go:generate go run ./internal/gensnapshot -data ../../../shared/data

//go:embed data/offers.snapshot
var embeddedSnapshot []byte

var embedded = sync.OnceValues(func() (*Catalog, error) { return ReadSnapshot(embeddedSnapshot) })

// Default is the catalogue in the binary. It is decoded on the first call, in
// about 10 ms; later calls return the same one.
func Default() (*Catalog, error) { return embedded() }
