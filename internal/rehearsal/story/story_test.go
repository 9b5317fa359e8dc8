package story

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/rehearsal/account"
)

func TestSecretShapes(t *testing.T) {
	for text, want := range map[string]bool{
		"Authorization: Bearer abcdefghijklmnopqrstuvwxyz":             true,
		"eyJqb2IiOiJhIiwiY2x1c3RlciI6ImEifQ.c2lnbmF0dXJl.b3RoZXJwYXJ0": true,
		`{"level":"INFO","message":"attempt begins"}`:                  false,
	} {
		if secretShapes.MatchString(text) != want {
			t.Errorf("%s", text)
		}
	}
}

func TestBetweenPricesMoves(t *testing.T) {
	const east, west = account.Region, Elsewhere
	got, err := between([]account.Move{
		{From: west, To: east, Object: "west/j-1/survey/a", Bytes: 1 << 30},
		{From: west, To: east, Object: "west/j-1/survey/b", Bytes: 1 << 29},
		{From: east, To: west, Object: "east/agent/x", Bytes: 1 << 20},
		{From: east, To: west, Object: "east/j-2/a", Bytes: 5},
	}, "j-1")
	if err != nil {
		t.Fatal(err)
	}
	want := []Between{
		{What: outputs, From: west, To: east, Bytes: 3 << 29, USD: 0.03},
		{What: program, From: east, To: west, Bytes: 1 << 20, USD: 0.02 / 1024},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	got[0].PlannedUSD = 0.031
	line := "moved between regions: 1610612736 bytes of outputs from us-west-2 to us-east-1, 0.030000 USD; " +
		"planned 0.031000 USD"
	if got[0].String() != line {
		t.Errorf("%s", got[0])
	}
	nobody := account.Move{From: west, To: account.Unknown, Object: "west/j-1/a", Bytes: 1}
	if _, err := between([]account.Move{nobody}, "j-1"); err == nil {
		t.Error("a move without a known region is ignored")
	}
}

func TestHoldsFindsCompressedSecrets(t *testing.T) {
	text := strings.Repeat("x", 1000) + secretValue + strings.Repeat("y", 1000)
	var zipped, packed bytes.Buffer
	packed.WriteByte(1)
	zw := gzip.NewWriter(&zipped)
	fw, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []io.WriteCloser{zw, fw} {
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, raw := range [][]byte{[]byte(text), zipped.Bytes(), packed.Bytes()} {
		if !holds(raw, secretValue) || holds(raw, "another") {
			t.Errorf("%q", raw)
		}
	}
	if holds(nil, secretValue) {
		t.Error("empty data contains the secret")
	}
}

func TestAsPlanned(t *testing.T) {
	const east, west = account.Region, Elsewhere
	planned := Between{What: outputs, From: west, To: east, USD: 1}
	for _, c := range []struct {
		moved []Between
		usd   float64
		ok    bool
	}{
		{[]Between{planned, {What: program, From: east, To: west, USD: 1}}, 1.05, true},
		{[]Between{planned}, 1.2, false},
		{[]Between{planned}, 0.8, false},
		{[]Between{planned}, 0, false},
		{[]Between{planned, {What: outputs, From: east, To: west}}, 1, false}, // written to the wrong bucket
		{[]Between{{What: program, From: west, To: east, USD: 1}}, 1, false},
		{nil, 0, false},
	} {
		if err := asPlanned(c.moved, c.usd); (err == nil) != c.ok {
			t.Errorf("%v, %v USD planned: %v", c.moved, c.usd, err)
		}
	}
}
