package catalog

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// withReserved returns a snapshot of c whose reserved capacity is this JSON.
func withReserved(t *testing.T, c *Catalog, reserved string) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	body := append(binary.AppendUvarint(nil, uint64(len(reserved))), reserved...)
	return z.EncodeAll(append(body, table.Encode(c.cols)...), []byte(reservedMagic))
}

// reservedIn returns the JSON of the reserved capacity in a snapshot.
func reservedIn(t *testing.T, c *Catalog) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.WriteSnapshot(&b); err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	raw, err := z.DecodeAll(bytes.TrimPrefix(b.Bytes(), []byte(reservedMagic)), nil)
	if err != nil {
		t.Fatal(err)
	}
	size, n := binary.Uvarint(raw)
	return string(raw[n : n+int(size)])
}

const (
	known  = `{"cloud":"aws","id":"ri-1","region":"us-east-1","instanceType":"m5.large","count":3}`
	future = `{"cloud":"aws","id":"blocks","kind":7,"region":["us-east-1"],"count":"by the week","commitment":{"has":{"qubits":3}}}`
)

// A snapshot has reserved capacity of a kind that only later programs know. The reader must skip it and write it
// back. If the caller supplies the same capacity in a known form, that replaces it.
func TestUnknownKindsAreSkippedAndKept(t *testing.T) {
	c, err := ReadSnapshot(withReserved(t, tiny(t), "["+future+","+known+"]"))
	if err != nil {
		t.Fatal(err)
	}
	if all := c.Reserved(); len(all) != 1 || all[0].ID != "ri-1" || c.Unknown() != 1 || c.Len() != tiny(t).Len() {
		t.Errorf("%+v, %d unknown", all, c.Unknown())
	}
	if c, err = c.Replace(func(*Offer) bool { return false }, nil); err != nil {
		t.Fatal(err)
	}
	all := func(*Reserved) bool { return true }
	if c, err = c.WithReserved(all, nil); err != nil {
		t.Fatal(err)
	}
	if text := reservedIn(t, c); text != "["+future+"]" || c.Reserves() {
		t.Errorf("written: %s", text)
	}
	same := Reserved{Cloud: "aws", ID: "blocks", Region: "us-east-1", InstanceType: "m5.large", Count: 3}
	if c, err = c.WithReserved(all, []Reserved{same}); err != nil || c.Unknown() != 0 {
		t.Errorf("%d unknown, %v", c.Unknown(), err)
	}
	for what, bad := range map[string]string{
		"no object": "[3]", "a kind that is no number": `[{"kind":"x"}]`, "a known one without machines": strings.Replace("["+known+"]", "3", "0", 1),
		"more than there can be": "[" + strings.Repeat("{\"kind\":9},", maxReserved) + known + "]",
	} {
		if _, err := ReadSnapshot(withReserved(t, tiny(t), bad)); !errors.Is(err, ErrBadSnapshot) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Each element of the reserved capacity must be written with the lowest kind that it needs, so that older programs
// can read as many as possible.
func TestReservedKinds(t *testing.T) {
	takes := func(a apitypes.Amount) *Commitment {
		return &Commitment{What: "x", Has: a.Times(3), Takes: map[string]apitypes.Amount{"us-east-1/m5.large": a}}
	}
	c, err := tiny(t).WithReserved(func(*Reserved) bool { return true }, []Reserved{
		{Cloud: "aws", ID: "a", Region: "us-east-1", InstanceType: "m5.large", Count: 3},
		{Cloud: "aws", ID: "b", Commitment: takes(DemandUSD(1))},
		{Cloud: "aws", ID: "c", Commitment: takes(apitypes.Amount{CentiUnits: 400})},
	})
	if err != nil {
		t.Fatal(err)
	}
	var list []struct{ Kind int }
	if err := json.Unmarshal([]byte(reservedIn(t, c)), &list); err != nil {
		t.Fatal(err)
	}
	var kinds []int
	for _, e := range list {
		kinds = append(kinds, e.Kind)
	}
	if !slices.Equal(kinds, []int{0, 1, 2}) {
		t.Errorf("%v", kinds)
	}
}
