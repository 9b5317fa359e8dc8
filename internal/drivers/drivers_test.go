package drivers_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/drivers"
)

func TestThePageIsNotStale(t *testing.T) {
	found, err := drivers.Find("../..")
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../../docs/drivers.md")
	if err != nil || !bytes.Equal(have, drivers.Page(found)) {
		t.Error("docs/drivers.md is stale: run go generate ./internal/drivers", err)
	}
}

// TestEveryDriverRunsItsSuite compares the folders of drivers with those that were found to run a suite.
func TestEveryDriverRunsItsSuite(t *testing.T) {
	found, err := drivers.Find("../..")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"pkg/store": {"pkg/store/bolt", "pkg/store/dynamo", "pkg/store/mem"},
		"pkg/bus":   {"pkg/bus/aws", "pkg/bus/local", "pkg/bus/pubsub"},
		"pkg/cloud": {"pkg/cloud/aws", "pkg/cloud/azure", "pkg/cloud/gcp", "pkg/cloud/kubernetes",
			"pkg/cloud/lambda", "pkg/cloud/local"},
	}
	for _, s := range found {
		var run []string
		for _, r := range s.Runs {
			run = append(run, r.Driver)
		}
		if run = slices.Compact(run); !slices.Equal(run, want[s.Port]) {
			t.Errorf("%s: its suite is run by %v, its drivers are %v", s.Port, run, want[s.Port])
		}
	}
}

// TestTablesAndOptionsAreRead finds them in a small module.
func TestTablesAndOptionsAreRead(t *testing.T) {
	root := t.TempDir()
	write := func(name, body string) {
		t.Helper()
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, port := range []string{"store", "bus", "cloud"} {
		write("pkg/"+port+"/"+port+"test/suite.go", "package "+port+"test\nvar tests = map[string]func(){\"it works\": nil, \"it ends\": nil}\n")
	}
	write("pkg/bus/busy/busy_test.go", `package busy
// TestIt runs it.
func TestIt(t *testing.T) {
	for _, c := range []struct{ name string }{{"here"}, {"there"}} {
		t.Run(c.name, func(t *testing.T) { bustest.Run(t, bustest.WithClock(), bustest.Reopen(nil)) })
	}
}
func TestOther(t *testing.T) { bustest.NewClock() }
`)
	found, err := drivers.Find(root)
	if err != nil {
		t.Fatal(err)
	}
	s := found[1]
	if !slices.Equal(s.Checks, []string{"it ends", "it works"}) || len(s.Runs) != 1 {
		t.Fatalf("%+v", s)
	}
	r := s.Runs[0]
	if r.Driver != "pkg/bus/busy" || r.Test != "TestIt" || r.Remark != "TestIt runs it." ||
		!slices.Equal(r.On, []string{"here", "there"}) || !slices.Equal(r.Options, []string{"Reopen", "WithClock"}) {
		t.Errorf("%+v", r)
	}
}
