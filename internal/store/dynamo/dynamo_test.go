package dynamo_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/storetest"
)

// tables creates a table for each test. All tests share one emulator.
type tables struct {
	cfg  aws.Config
	made atomic.Int64
}

func (ts *tables) create(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test-%d", ts.made.Add(1))
	if err := dynamo.CreateTable(t.Context(), ts.cfg, name); err != nil {
		t.Fatal(err)
	}
	return name
}

func open(t testing.TB, cfg aws.Config, table string, o dynamo.Options) *dynamo.Store {
	t.Helper()
	s, err := dynamo.New(cfg, table, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// onLocal returns tables on DynamoDB Local.
func onLocal(t testing.TB) *tables {
	t.Helper()
	return local(emulator.DynamoDBLocal(t))
}

var local = memo(func(endpoint string) *tables { return &tables{cfg: emulator.Config(endpoint)} })

func memo(f func(string) *tables) func(string) *tables {
	var m sync.Map
	return func(endpoint string) *tables {
		v, _ := m.LoadOrStore(endpoint, f(endpoint))
		return v.(*tables)
	}
}

// onMoto returns tables on moto. Requests are made one at a time, because a failing transaction in moto restores
// whole tables and reverts the writes of other requests.
func onMoto(t testing.TB) *tables {
	t.Helper()
	return moto(emulator.Moto(t))
}

var moto = memo(func(endpoint string) *tables {
	cfg := emulator.Config(endpoint)
	cfg.HTTPClient = &oneByOne{client: http.DefaultClient}
	return &tables{cfg: cfg}
})

type oneByOne struct {
	mu     sync.Mutex
	client *http.Client
}

func (c *oneByOne) Do(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client.Do(r)
}

// These are moto's differences from DynamoDB. The package's documentation lists them.
const (
	motoItemSize = "moto measures binary values by their base64 length, a third more, so items of the maximum size do not fit"
	motoCopies   = "moto copies the whole table for each item of a transaction: takes minutes; set " + soak + " to run it"
)

// soak is the environment variable that enables tests of several minutes.
const soak = "TRADEWIND_SOAK"

func motoExceptions() map[string]string {
	out := map[string]string{
		"an item of maximum size is accepted, one byte more is not":       motoItemSize,
		"a transaction of maximum size is accepted, one byte more is not": motoItemSize,
		"a record of maximum size is found among many small ones":         motoItemSize,
	}
	if os.Getenv(soak) == "" {
		for _, name := range []string{
			"a long partition is read completely and in order", "counters lose no increment and no event", "checked reads are never torn",
		} {
			out[name] = motoCopies
		}
	}
	return out
}

// fewerChecks limits the number of checks in property tests, unless the command line sets rapid.checks: each step
// takes several requests.
func fewerChecks(t *testing.T, n string) {
	t.Helper()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" })
	if asked || os.Getenv(soak) != "" {
		return
	}
	old := flag.Lookup("rapid.checks").Value.String()
	if err := flag.Lookup("rapid.checks").Value.Set(n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Lookup("rapid.checks").Value.Set(old) })
}

func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("takes thousands of requests to each emulator")
	}
	fewerChecks(t, "5")
	for _, c := range []struct {
		name   string
		on     func(testing.TB) *tables
		except map[string]string
	}{
		{"DynamoDB Local", onLocal, nil},
		{"moto", onMoto, motoExceptions()},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // each emulator is a separate process
			ts := c.on(t)
			var mu sync.Mutex
			names := make(map[store.Store]string)
			openTable := func(t *testing.T, table string) store.Store {
				s := open(t, ts.cfg, table, dynamo.Options{})
				mu.Lock()
				defer mu.Unlock()
				names[s] = table
				return s
			}
			storetest.Run(t, func(t *testing.T) store.Store { return openTable(t, ts.create(t)) },
				storetest.SelfExpiring(),
				storetest.Except(c.except),
				storetest.Reopen(func(t *testing.T, s store.Store) store.Store {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					return openTable(t, names[s])
				}))
		})
	}
}
