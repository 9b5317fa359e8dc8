package catalog_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/catalog/sellable"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

func TestEmbeddedSnapshotMatchesPublishedData(t *testing.T) {
	const data = "../../../shared/data/catalog"
	if _, err := os.Stat(data); err != nil {
		t.Skipf("the public data is missing: %v", err)
	}
	all, err := catalog.Load(os.DirFS(data))
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := sellable.Only(all)
	if err != nil {
		t.Fatal(err)
	}
	if c, _, err = sellable.Plausible(c); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := c.WriteSnapshot(&b); err != nil {
		t.Fatal(err)
	}
	shipped, err := os.ReadFile("data/offers.snapshot")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), shipped) {
		t.Error("data/offers.snapshot is out of date: run go generate ./pkg/catalog")
	}
}
