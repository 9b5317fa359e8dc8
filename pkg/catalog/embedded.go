package catalog

import (
	_ "embed"
	"sync"
)

// The snapshot has the offers that data/README.md describes. To update it after that data changes:
//
//go:generate go run ./internal/gensnapshot -data ../../../shared/data

//go:embed data/offers.snapshot
var embeddedSnapshot []byte

var embedded = sync.OnceValues(func() (*Catalog, error) { return ReadSnapshot(embeddedSnapshot) })

// Default returns the catalogue embedded in the binary. The first call decodes it, in about 10 ms; later calls return
// the same catalogue.
func Default() (*Catalog, error) { return embedded() }
