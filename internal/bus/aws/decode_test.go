package aws

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

func same(a, b bus.Message) bool {
	return a.ID == b.ID && a.Type == b.Type && a.Group == b.Group && bytes.Equal(a.Body, b.Body) && a.NotBefore.Equal(b.NotBefore)
}

func TestDecodeKeepsForeignEvents(t *testing.T) {
	for file, want := range map[string]Foreign{
		"s3-object-created": {ID: "17793124-05d4-b198-2fde-7ededc63b103", Source: "aws.s3", DetailType: "Object Created", Region: "ca-central-1", Account: "111122223333"},
		"ec2-interruption":  {ID: "1e5527d7-bb36-4607-3370-4164db56a40e", Source: "aws.ec2", DetailType: "EC2 Spot Instance Interruption Warning", Region: "us-east-1", Account: "123456789012"},
		"scheduled":         {ID: "d9bb9a2f-9ba4-4b1e-8a0b-2b6a1d5b6c9e", Source: "aws.scheduler", DetailType: "Scheduled Event", Region: "us-east-1", Account: "123456789012"},
	} {
		body, err := os.ReadFile(filepath.Join("testdata", "bodies", file+".json"))
		if err != nil {
			t.Fatal(err)
		}
		e, err := Decode(body)
		f := e.Foreign
		if err != nil || e.Kind != External || f.ID != want.ID || f.Source != want.Source || f.DetailType != want.DetailType ||
			f.Region != want.Region || f.Account != want.Account || len(f.Resources) != 1 || f.Time.IsZero() || !bytes.Equal(f.Raw, body) || !json.Valid(f.Detail) {
			t.Errorf("%s: %+v, %v", file, e, err)
		}
	}
}

func TestDecodeBareCloudEvent(t *testing.T) {
	body := []byte(`{"specversion":"1.0","id":"tick-7","source":"tradewind/schedule","type":"tradewind.market.ticked.v1","subject":"market","time":"2026-11-21T09:00:00Z","data":{}}`)
	e, err := Decode(body)
	want := bus.Message{ID: "tick-7", Type: "tradewind.market.ticked.v1", Group: "market", Body: body}
	if err != nil || e.Kind != CloudEvent || !same(e.Message, want) {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestDecodeRejectsNonEvents(t *testing.T) {
	for _, body := range []string{
		"", "hello", "[]", "null", "{}", `{"id":1}`, `{"source":"tradewind"}`, `{"source":"tradewind","detail":{}}`, `{"source":"tradewind","detail":{"id":"a"}}`,
		`{"source":"tradewind","detail":{"id":"a","type":"t","ref":{"bucket":"b","key":"","bytes":1}}}`,
		`{"source":"tradewind","detail":{"id":"a","type":"t","ref":{"bucket":"b","key":"k","bytes":99999999}}}`,
		`{"source":"tradewind","detail":{"id":"a","type":"t","text":"x","ref":{"bucket":"b","key":"k","bytes":1}}}`,
		`{"source":"tradewind","detail":{"id":"a","type":"t","data":"%"}}`,
		`{"specversion":"1.0"}`, `{"source":"aws.s3","id":"1"}`, `{"source":"aws.s3","detail-type":"x"}`,
	} {
		if e, err := Decode([]byte(body)); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%s: %+v, %v", body, e, err)
		}
	}
}

// respelt returns body as another program might write it after it has read it.
func respelt(t testing.TB, body string) []byte {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.MarshalIndent(v, " ", "\t")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestMessageRoundTripsThroughRewriters(t *testing.T) {
	bodies := rapid.OneOf(
		rapid.SampledFrom([]string{
			`{"a":1,"b":[1.5,1e+21,-0,0.1],"c":"<&> é 🛳 \u0000"}`, `{ "spaced" : 1 }`, `{"a":2.50}`, `{"a":1,"a":2}`, `{"big":12345678901234567890}`,
			`"x"`, `null`, `not JSON`, "\xff\xfe", "\ufffe", "", `{"n":1.0}`, `{"e":1E5}`, `{"s":"\u0041"}`,
		}),
		rapid.Custom(func(rt *rapid.T) string {
			b, err := json.Marshal(rapid.MapOf(rapid.String(), rapid.Float64()).Draw(rt, "object"))
			if err != nil {
				return "{}"
			}
			return string(b)
		}),
		rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	)
	rapid.Check(t, func(rt *rapid.T) {
		m := bus.Message{
			ID: rapid.StringN(1, 50, 200).Draw(rt, "id"), Type: rapid.StringN(1, 50, 200).Draw(rt, "type"), Group: rapid.StringN(0, 50, 200).Draw(rt, "group"),
			Body: []byte(bodies.Draw(rt, "body")),
		}
		if rapid.Bool().Draw(rt, "delayed") {
			m.NotBefore = time.Unix(rapid.Int64Range(-1<<40, 1<<37).Draw(rt, "at"), rapid.Int64Range(0, 1e9-1).Draw(rt, "ns"))
		}
		if m.Validate() != nil || m.NotBefore.Year() < 0 {
			return
		}
		d := newDetail(&m)
		text, err := d.marshal()
		if err != nil {
			rt.Fatal(err)
		}
		body, err := enveloped(&m, text, time.Unix(0, 0))
		if err != nil {
			rt.Fatal(err)
		}
		want := m
		if want.NotBefore.After(latest) {
			want.NotBefore = latest
		}
		for _, form := range [][]byte{[]byte(body), respelt(t, body)} {
			e, err := Decode(form)
			if err != nil || e.Kind != Own || !same(e.Message, want) {
				rt.Fatalf("%+v was decoded as %+v, %v, from\n%s", want, e.Message, err, form)
			}
		}
	})
}

func TestInlineDetailFitsInEveryEncoding(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		unit := rapid.SampledFrom([]string{"x", "é", "🛳", "日", `",":`}).Draw(rt, "unit")
		text, err := json.Marshal(bytes.Repeat([]byte(unit), rapid.IntRange(0, bus.MaxMessageBytes/len(unit)).Draw(rt, "n")))
		if err != nil {
			rt.Fatal(err)
		}
		s := string(text)
		if inline(s) && len(s) > maxInline {
			rt.Fatalf("%d bytes are inline", len(s))
		}
	})
	for text, want := range map[string]bool{
		string(bytes.Repeat([]byte("x"), maxInline)):     true,
		string(bytes.Repeat([]byte("x"), maxInline+1)):   false,
		string(bytes.Repeat([]byte("é"), maxInline/6)):   true,
		string(bytes.Repeat([]byte("é"), maxInline/6+1)): false,
		string(bytes.Repeat([]byte(","), maxInline/2+1)): false,
	} {
		if got := inline(text); got != want {
			t.Errorf("%d bytes of %.2q: inline is %v", len(text), text, got)
		}
	}
}

func TestBatchesKeepOrderAndBounds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, maxCall+10), 0, 60).Draw(rt, "sizes")
		var got []int
		var last []int
		for piece := range batches(sizes, func(n int) int { return n }) {
			total := 0
			for _, n := range piece {
				total += n
			}
			if len(piece) == 0 || len(piece) > maxBatch || total > maxCall && len(piece) > 1 {
				rt.Fatalf("a batch of %d items with %d bytes", len(piece), total)
			}
			if len(last) > 0 && len(last) < maxBatch {
				before := piece[0]
				for _, n := range last {
					before += n
				}
				if before <= maxCall {
					rt.Fatalf("%v has room for %d", last, piece[0])
				}
			}
			last = piece
			got = append(got, piece...)
		}
		if !slices.Equal(got, sizes) {
			rt.Fatalf("%v became %v", sizes, got)
		}
	})
}

func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/bodies/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal("no bodies", err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Add([]byte(`{"specversion":"1.0","id":"tick-7","source":"s","type":"t"}`))
	f.Add([]byte(`{"version":"0","source":"tradewind","detail":{"id":"a","type":"t","group":"g","notBefore":"2026-11-21T09:00:00Z","body":{"a":[1,2.5]}}}`))
	f.Add([]byte(`{"source":"tradewind","detail":{"id":"a","type":"t","ref":{"bucket":"b","key":"events/x","bytes":9,"sha256":"00"}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := Decode(body)
		switch {
		case err != nil && !errors.Is(err, ErrUnreadable):
			t.Errorf("%v is not ErrUnreadable", err)
		case err == nil && e.Kind == External && (e.Foreign.ID == "" || e.Foreign.Source == ""):
			t.Errorf("%+v", e)
		case err == nil && e.Kind != External && e.Message.Validate() != nil:
			t.Errorf("%+v: %v", e.Message, e.Message.Validate())
		}
	})
}
