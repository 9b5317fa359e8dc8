package lambdalabs_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/lambdalabs"
	"github.com/tradewind-broker/tradewind/internal/emulator/lambdacloud"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// shelf keeps a catalogue snapshot in memory.
type shelf struct{ data []byte }

func (s *shelf) Get(context.Context, string) ([]byte, string, error) {
	if s.data == nil {
		return nil, "", fs.ErrNotExist
	}
	return s.data, "tag", nil
}

func (s *shelf) Put(_ context.Context, data []byte) error {
	s.data = data
	return nil
}

func newRefresher(t *testing.T, types []lambdacloud.Type) (*lambdalabs.Refresher, *shelf, *lambdacloud.Cloud) {
	t.Helper()
	account := lambdacloud.New(lambdacloud.Config{Types: types, Fault: func(err error) { t.Error(err) }})
	server := httptest.NewServer(account)
	t.Cleanup(server.Close)
	c := lambdalabs.New(lambdalabs.Config{Deployment: "d", Endpoint: server.URL,
		Key: func(context.Context) (string, error) { return lambdacloud.DefaultKey, nil }})
	s := &shelf{}
	return &lambdalabs.Refresher{Source: c, Snapshots: s, Now: time.Now}, s, account
}

func TestRefreshReplacesTypes(t *testing.T) {
	r, s, _ := newRefresher(t, []lambdacloud.Type{
		{Name: "gpu_1x_a10", GPU: "A10 (24 GB PCIe)", GPUs: 1, Cents: 99, VCPU: 30, MemoryGiB: 200, Regions: []string{"us-midwest-2"}},
		{Name: "gpu_2x_new", GPU: "A100 (80 GB SXM4)", GPUs: 2, Cents: 250, VCPU: 60, MemoryGiB: 400, Regions: []string{"us-east-1"}},
	})
	before, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.ReadSnapshot(s.data)
	if err != nil {
		t.Fatal(err)
	}
	known, err := c.Lookup("lambda/us-east-1/gpu_1x_a10")
	if err != nil || known.OnDemandUSD != 0.99 || known.Accelerator != "A10" {
		t.Errorf("known: %+v %v", known, err)
	}
	if _, err := before.Lookup("lambda/us-midwest-2/gpu_1x_a10"); err == nil {
		t.Fatal("the region is not new in the catalogue")
	}
	if o, err := c.Lookup("lambda/us-midwest-2/gpu_1x_a10"); err != nil || o.OnDemandUSD != 0.99 || o.VCPU != 30 {
		t.Errorf("in a new region: %+v %v", o, err)
	}
	if o, err := c.Lookup("lambda/us-east-1/gpu_2x_new"); err != nil || o.Accelerator != "A100-80GB" || o.AcceleratorCount != 2 ||
		o.MemoryGiB != 400 || o.Arch != catalog.AMD64 {
		t.Errorf("new: %+v %v", o, err)
	}
	if _, err := c.Lookup("lambda/us-east-1/gpu_8x_v100"); err == nil {
		t.Error("a type that is no longer sold still exists")
	}
	if !slices.Equal(res.New, []string{"lambda/us-east-1/gpu_2x_new", "lambda/us-midwest-2/gpu_1x_a10"}) ||
		!slices.Contains(res.Gone, "lambda/us-east-1/gpu_8x_v100") || len(res.Changed) == 0 || res.Changed[0].Now != 0.99 {
		t.Errorf("%+v", res)
	}
	count := func(c *catalog.Catalog) (n int) {
		for o := range c.All() {
			if o.Cloud != "lambda" {
				n++
			}
		}
		return n
	}
	if was, is := count(before), count(c); was != is || was == 0 {
		t.Errorf("other clouds had %d offers and have %d", was, is)
	}
	if again, err := r.Refresh(t.Context()); err != nil || len(again.New)+len(again.Gone)+len(again.Changed) != 0 {
		t.Errorf("the second time: %+v %v", again, err)
	}
}

func TestRefreshOfUnavailableAPIChangesNothing(t *testing.T) {
	r, s, account := newRefresher(t, nil)
	account.Revoke(true)
	if _, err := r.Refresh(t.Context()); err == nil || s.data != nil {
		t.Errorf("%v, %d bytes", err, len(s.data))
	}
}

// listed is a source with a fixed list.
type listed map[string]lambdalabs.Sold

func (l listed) Types(context.Context) (map[string]lambdalabs.Sold, error) { return l, nil }

func list(t testing.TB, text string) (listed, bool) {
	var l listed
	return l, json.Unmarshal([]byte(text), &l) == nil
}

const good = `{"t":{"instance_type":{"name":"t","gpu_description":"L4 (24 GB)","price_cents_per_hour":50,"specs":{"vcpus":1,"memory_gib":2,"gpus":1}},
"regions_with_capacity_available":[{"name":"us-east-1"}]}}`

func TestRefreshRejectsMalformedList(t *testing.T) {
	for name, text := range map[string]string{
		"empty": `{}`, "free": strings.Replace(good, "50", "0", 1), "no memory": strings.Replace(good, `"memory_gib":2`, `"memory_gib":0`, 1),
		"another name": strings.Replace(good, `{"t":`, `{"u":`, 1),
	} {
		r, s, _ := newRefresher(t, nil)
		l, ok := list(t, text)
		if !ok {
			t.Fatal(text)
		}
		r.Source = l
		if _, err := r.Refresh(t.Context()); !errors.Is(err, lambdalabs.ErrMalformed) || s.data != nil {
			t.Errorf("%s: %v, %d bytes", name, err, len(s.data))
		}
	}
}

// FuzzTypes checks that any list of types either changes nothing or results in a readable catalogue.
func FuzzTypes(f *testing.F) {
	f.Add(good)
	f.Add(`{}`)
	base, err := catalog.Default()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, ok := list(t, text)
		if !ok {
			t.Skip()
		}
		s := &shelf{}
		r := &lambdalabs.Refresher{Source: l, Snapshots: s, Now: time.Now, Base: base}
		if _, err := r.Refresh(t.Context()); err != nil {
			if s.data != nil {
				t.Error("a failed refresh wrote a snapshot")
			}
			return
		}
		if _, err := catalog.ReadSnapshot(s.data); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	})
}
