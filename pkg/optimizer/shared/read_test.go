package shared_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

const goodModel = `{
 "objective":"cost","deadlineHours":1.5,"budgetUSD":null,
 "places":["aws:us-east-1","gcp:us-central1"],
 "usdPerGiB":[[0,0.09],[0.12,0]],"hoursPerGiB":[[0.0005,0.0012],[0.0012,0.0005]],
 "machines":[
  {"id":"aws/c7a","place":0,"usdPerHour":0.31,"cpus":16,"memoryGiB":32,"gpus":0,"speed":1.8,
   "bootHours":0.0086,"minimumHours":0.01666667,"incrementHours":0.000277778,"most":64},
  {"id":"gcp/n2","place":1,"usdPerHour":0.2,"cpus":8,"memoryGiB":16,"gpus":1,"speed":1.1,
   "bootHours":0.01,"minimumHours":0.01,"incrementHours":0,"most":0}],
 "tasks":[{"id":"a","cpus":1,"memoryGiB":2,"gpus":0,"hours":0.12},
          {"id":"b","cpus":1,"memoryGiB":2,"gpus":0,"hours":0.36}],
 "edges":[{"from":"a","to":"b","gib":0.2}]}`

func TestReadModel(t *testing.T) {
	m, err := shared.ReadModel(strings.NewReader(goodModel))
	if err != nil {
		t.Fatal(err)
	}
	deadline := 1.5
	want := &shared.Model{
		Objective: optimizer.Cost, DeadlineHours: &deadline,
		Places:      []string{"aws:us-east-1", "gcp:us-central1"},
		USDPerGiB:   [][]float64{{0, 0.09}, {0.12, 0}},
		HoursPerGiB: [][]float64{{0.0005, 0.0012}, {0.0012, 0.0005}},
		Machines: []shared.Machine{
			{ID: "aws/c7a", USDPerHour: 0.31, CPUs: 16, MemoryGiB: 32, Speed: 1.8, BootHours: 0.0086,
				MinimumHours: 0.01666667, IncrementHours: 0.000277778, Most: 64},
			{ID: "gcp/n2", Place: 1, USDPerHour: 0.2, CPUs: 8, MemoryGiB: 16, GPUs: 1, Speed: 1.1, BootHours: 0.01,
				MinimumHours: 0.01},
		},
		Tasks: []shared.Task{{ID: "a", CPUs: 1, MemoryGiB: 2, Hours: 0.12}, {ID: "b", CPUs: 1, MemoryGiB: 2, Hours: 0.36}},
		Edges: []optimizer.Edge{{From: "a", To: "b", GiB: 0.2}},
	}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got %+v", m)
	}
}

// Each case changes one field of a valid model. The error must name the field.
func TestReadModelErrorsNameField(t *testing.T) {
	tests := []struct{ name, old, new, field, reason string }{
		{"unknown field", `"speed":1.8`, `"speed":1.8,"sped":2`, "machines[0].sped", "unknown field"},
		{"unknown top field", `"edges"`, `"together":[],"edges"`, "together", "unknown field"},
		{"candidates", `"hours":0.12`, `"hours":0.12,"candidates":[]`, "tasks[0].candidates", "unknown field"},
		{"repeated field", `"most":64`, `"most":64,"most":65`, "machines[0].most", "duplicate"},
		{"missing field", `"speed":1.8,`, ``, "machines[0]", `"speed" is missing`},
		{"missing list", `,
 "edges":[{"from":"a","to":"b","gib":0.2}]`, ``, "", `"edges" is missing`},
		{"carbon", `"cost"`, `"carbon"`, "objective", `neither "cost" nor "makespan"`},
		{"wrong type", `"hours":0.12`, `"hours":"0.12"`, "tasks[0].hours", "a string, not a number"},
		{"negative price", `"usdPerHour":0.31`, `"usdPerHour":-0.31`, "machines[0].usdPerHour", "negative"},
		{"negative task", `"hours":0.36`, `"hours":-1`, "tasks[1].hours", "negative"},
		{"huge", `"bootHours":0.0086`, `"bootHours":1e300`, "machines[0].bootHours", "over 1e+12"},
		{"not a number", `"cpus":16`, `"cpus":NaN`, "machines[0].cpus", "invalid"},
		{"no speed", `"speed":1.1`, `"speed":0`, "machines[1].speed", "is 0"},
		{"tiny speed", `"speed":1.1`, `"speed":1e-300`, "machines[1].speed", "below"},
		{"place out of range", `"place":1`, `"place":2`, "machines[1].place", "not an index"},
		{"place not whole", `"place":1`, `"place":0.5`, "machines[1].place", "not an index"},
		{"part of an instance", `"most":64`, `"most":0.5`, "machines[0].most", "not a number of instances"},
		{"negative deadline", `"deadlineHours":1.5`, `"deadlineHours":-1`, "deadlineHours", "negative"},
		{"short matrix", `[[0,0.09],[0.12,0]]`, `[[0,0.09]]`, "usdPerGiB", "1 rows for 2 places"},
		{"ragged matrix", `[[0.0005,0.0012],[0.0012,0.0005]]`, `[[0,0.1],[0.1]]`, "hoursPerGiB[1]", "1 columns"},
		{"duplicate machine", `"gcp/n2"`, `"aws/c7a"`, "machines[1].id", "already machines[0]"},
		{"empty machine", `"gcp/n2"`, `""`, "machines[1].id", "is empty"},
		{"duplicate place", `"gcp:us-central1"`, `"aws:us-east-1"`, "places[1]", "already places[0]"},
		{"duplicate task", `"id":"b"`, `"id":"a"`, "tasks[1].id", "already tasks[0]"},
		{"empty task", `"id":"b"`, `"id":""`, "tasks[1].id", "is empty"},
		{"unknown producer", `"from":"a"`, `"from":"c"`, "edges[0].from", `no task has the id "c"`},
		{"unknown consumer", `"to":"b"`, `"to":"c"`, "edges[0].to", `no task has the id "c"`},
		{"negative data", `"gib":0.2`, `"gib":-0.2`, "edges[0].gib", "negative"},
		{"self-loop", `"to":"b"`, `"to":"a"`, "edges[0]", "to itself"},
		{"cycle", `"gib":0.2}`, `"gib":0.2},{"from":"b","to":"a","gib":0}`, "edges", "form a cycle: a → b → a"},
		{"trailing text", `"gib":0.2}]}`, `"gib":0.2}]} {}`, "", "more text"},
		{"cut", `"gib":0.2}]}`, `"gib":0.2}]`, "", "unexpected EOF"},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(goodModel, c.old, c.new, 1)
			if text == goodModel {
				t.Fatal("nothing was changed")
			}
			_, err := shared.ReadModel(strings.NewReader(text))
			var bad *optimizer.ModelError
			if !errors.As(err, &bad) || bad.Field != c.field || !strings.Contains(bad.Reason, c.reason) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestValidateRejectsNonFiniteNumbers(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1)} {
		m, err := shared.ReadModel(strings.NewReader(goodModel))
		if err != nil {
			t.Fatal(err)
		}
		m.Machines[1].BootHours = x
		var bad *optimizer.ModelError
		if err := m.Validate(); !errors.As(err, &bad) || bad.Field != "machines[1].bootHours" {
			t.Errorf("for %v the error is %v", x, err)
		}
	}
}

func TestReadModelReturnsReaderErrors(t *testing.T) {
	broken := errors.New("disk error")
	if _, err := shared.ReadModel(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
}

func TestIsModelTellsTheFormsApart(t *testing.T) {
	for text, want := range map[string]bool{
		goodModel:                 true,
		`{"tasks":[],"machines":`: true,
		`{"tasks":[{"id":"machines","machines":1,"candidates":[]}],"machines":[]}`: false,
		`{"spread":[{"tasks":[],"machines":[1]}]}`:                                 false,
		`["machines"]`: false,
		``:             false,
		`{"objective"`: false,
	} {
		if got := shared.IsModel(strings.NewReader(text)); got != want {
			t.Errorf("IsModel(%q) = %v", text, got)
		}
	}
}

// FuzzReadModel checks that every accepted model is valid, and stays equal when it is written and read.
func FuzzReadModel(f *testing.F) {
	f.Add(goodModel)
	f.Add(`{"objective":"makespan","places":[],"usdPerGiB":[],"hoursPerGiB":[],"machines":null,"tasks":[],"edges":[]}`)
	f.Fuzz(func(t *testing.T, text string) {
		m, err := shared.ReadModel(strings.NewReader(text))
		if err != nil {
			var bad *optimizer.ModelError
			if !errors.As(err, &bad) {
				t.Fatalf("not a model error: %v", err)
			}
			return
		}
		if !shared.IsModel(strings.NewReader(text)) {
			t.Fatal("IsModel denies it")
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := shared.ReadModel(strings.NewReader(string(again))); err != nil || !reflect.DeepEqual(m, n) {
			t.Fatalf("%s was read as %+v, %v", again, n, err)
		}
	})
}
