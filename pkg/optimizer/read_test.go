package optimizer_test

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"pgregory.net/rapid"
)

const goodModel = `{
 "objective":"cost","deadlineHours":6,"budgetUSD":null,
 "places":["aws:us-east-1","gcp:us-central1"],
 "usdPerGiB":[[0,0.09],[0.12,0]],"hoursPerGiB":[[0,0.00022],[0.00022,0]],
 "tasks":[
  {"id":"train","candidates":[
   {"id":"aws/us-east-1/use1-az1/p3.2xlarge/spot","place":0,"usd":1.93,"hours":2.1},
   {"id":"gcp/us-central1/us-central1-a/v2-8/spot","place":1,"usd":2.5,"hours":0.9}]},
  {"id":"infer","candidates":[{"id":"aws/us-east-1/use1-az1/m5.xlarge/spot","place":0,"usd":0.05,"hours":0.7}]}],
 "edges":[{"from":"train","to":"infer","gib":12}]
}`

func TestReadModel(t *testing.T) {
	m, err := optimizer.ReadModel(strings.NewReader(goodModel))
	if err != nil {
		t.Fatal(err)
	}
	deadline := 6.0
	want := &optimizer.Model{
		Objective: optimizer.Cost, DeadlineHours: &deadline,
		Places:      []string{"aws:us-east-1", "gcp:us-central1"},
		USDPerGiB:   [][]float64{{0, 0.09}, {0.12, 0}},
		HoursPerGiB: [][]float64{{0, 0.00022}, {0.00022, 0}},
		Tasks: []optimizer.Task{
			{ID: "train", Candidates: []optimizer.Candidate{
				{ID: "aws/us-east-1/use1-az1/p3.2xlarge/spot", Place: 0, USD: 1.93, Hours: 2.1},
				{ID: "gcp/us-central1/us-central1-a/v2-8/spot", Place: 1, USD: 2.5, Hours: 0.9},
			}},
			{ID: "infer", Candidates: []optimizer.Candidate{{ID: "aws/us-east-1/use1-az1/m5.xlarge/spot", Place: 0, USD: 0.05, Hours: 0.7}}},
		},
		Edges: []optimizer.Edge{{From: "train", To: "infer", GiB: 12}},
	}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got %+v", m)
	}
}

func TestModelJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := boundedModel(t)
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := optimizer.ReadModel(strings.NewReader(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(got)
		if err != nil || string(again) != string(normal(t, m)) {
			t.Fatalf("%s became %s", text, again)
		}
	})
}

// normal encodes m with empty lists instead of null, as in the reader's result.
func normal(t *rapid.T, m *optimizer.Model) []byte {
	c := *m
	if c.Edges == nil {
		c.Edges = []optimizer.Edge{}
	}
	text, err := json.Marshal(&c)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Each case changes one field of a valid model. The error must name the field.
func TestReadModelErrorsNameField(t *testing.T) {
	tests := []struct {
		name, old, new string
		field, reason  string
	}{
		{"unknown field", `"gib":12`, `"gib":12,"gb":1`, "edges[0].gb", "unknown field"},
		{"unknown top field", `"objective"`, `"carbon":1,"objective"`, "carbon", "unknown field"},
		{"repeated field", `"gib":12`, `"gib":12,"gib":13`, "edges[0].gib", "duplicate"},
		{"missing field", `,"usd":1.93`, ``, "tasks[0].candidates[0]", `"usd" is missing`},
		{"missing list", `"edges":[{"from":"train","to":"infer","gib":12}]`, `"budgetUSD":1`, "", `duplicate`},
		{"bad objective", `"cost"`, `"speed"`, "objective", "neither"},
		{"wrong type", `"usd":1.93`, `"usd":"1.93"`, "tasks[0].candidates[0].usd", "a string, not a number"},
		{"list for object", `{"from":"train","to":"infer","gib":12}`, `[]`, "edges[0]", "an array, not an object"},
		{"negative", `"usd":1.93`, `"usd":-1`, "tasks[0].candidates[0].usd", "negative"},
		{"huge", `"usd":1.93`, `"usd":1e300`, "tasks[0].candidates[0].usd", "over 1e+12"},
		{"beyond float64", `"usd":1.93`, `"usd":1e999`, "tasks[0].candidates[0].usd", ""},
		{"negative deadline", `"deadlineHours":6`, `"deadlineHours":-6`, "deadlineHours", "negative"},
		{"place out of range", `"place":1`, `"place":2`, "tasks[0].candidates[1].place", "not an index"},
		{"place negative", `"place":1`, `"place":-1`, "tasks[0].candidates[1].place", "negative"},
		{"place not whole", `"place":1`, `"place":0.5`, "tasks[0].candidates[1].place", "not an index"},
		{"short matrix", `[[0,0.09],[0.12,0]]`, `[[0,0.09]]`, "usdPerGiB", "1 rows for 2 places"},
		{"ragged matrix", `[[0,0.09],[0.12,0]]`, `[[0,0.09],[0.12]]`, "usdPerGiB[1]", "1 columns for 2 places"},
		{"wide matrix", `[[0,0.00022],[0.00022,0]]`, `[[0,0.1,0],[0.1,0,0]]`, "hoursPerGiB[0]", "3 columns for 2 places"},
		{"negative price", `[[0,0.09],[0.12,0]]`, `[[0,0.09],[-0.12,0]]`, "usdPerGiB[1][0]", "negative"},
		{"unknown producer", `"from":"train"`, `"from":"trian"`, "edges[0].from", `no task has the id "trian"`},
		{"unknown consumer", `"to":"infer"`, `"to":"inver"`, "edges[0].to", `no task has the id "inver"`},
		{"self-loop", `"to":"infer"`, `"to":"train"`, "edges[0]", "to itself"},
		{"cycle", `{"from":"train","to":"infer","gib":12}`, `{"from":"train","to":"infer","gib":12},{"from":"infer","to":"train","gib":0}`, "edges", "infer → train → infer"},
		{"duplicate task", `"id":"infer"`, `"id":"train"`, "tasks[1].id", "already tasks[0]"},
		{"empty task id", `"id":"infer"`, `"id":""`, "tasks[1].id", "is empty"},
		{"duplicate candidate", `gcp/us-central1/us-central1-a/v2-8/spot`, `aws/us-east-1/use1-az1/p3.2xlarge/spot`, "tasks[0].candidates[1].id", "already candidates[0]"},
		{"empty candidate id", `gcp/us-central1/us-central1-a/v2-8/spot`, ``, "tasks[0].candidates[1].id", "is empty"},
		{"duplicate place", `"gcp:us-central1"`, `"aws:us-east-1"`, "places[1]", "already places[0]"},
		{"empty place", `"gcp:us-central1"`, `""`, "places[1]", "is empty"},
		{"trailing text", `"gib":12}]
}`, `"gib":12}]
} {}`, "", "followed by more"},
		{"trailing rubbish", `"gib":12}]
}`, `"gib":12}]
} x`, "", "byte"},
		{"cut short", `"gib":12}]
}`, `"gib":12}`, "", ""},
		{"not JSON", goodModel, `objective: cost`, "", "byte 0"},
		{"nothing", goodModel, ``, "", "empty"},
		{"null", goodModel, `null`, "", "null, not an object"},
		{"NaN", `"usd":1.93`, `"usd":NaN`, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(goodModel, tt.old, tt.new, 1)
			if text == goodModel {
				t.Fatal("the case does not change the model")
			}
			m, err := optimizer.ReadModel(strings.NewReader(text))
			var bad *optimizer.ModelError
			if !errors.As(err, &bad) {
				t.Fatalf("got %v, %v", m, err)
			}
			if tt.field != "" && bad.Field != tt.field || !strings.Contains(bad.Reason, tt.reason) {
				t.Errorf("got an error in %q: %q, want %q … %q", bad.Field, bad.Reason, tt.field, tt.reason)
			}
		})
	}
}

// Validate must reject numbers such as NaN. They cannot come from JSON, but from Go callers.
func TestValidateRejectsNonFiniteNumbers(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1e-300} {
		for field, set := range map[string]func(*optimizer.Model){
			"tasks[0].candidates[0].usd":   func(m *optimizer.Model) { m.Tasks[0].Candidates[0].USD = x },
			"tasks[1].candidates[0].hours": func(m *optimizer.Model) { m.Tasks[1].Candidates[0].Hours = x },
			"edges[0].gib":                 func(m *optimizer.Model) { m.Edges[0].GiB = x },
			"usdPerGiB[0][1]":              func(m *optimizer.Model) { m.USDPerGiB[0][1] = x },
			"hoursPerGiB[1][1]":            func(m *optimizer.Model) { m.HoursPerGiB[1][1] = x },
			"deadlineHours":                func(m *optimizer.Model) { m.DeadlineHours = &x },
			"budgetUSD":                    func(m *optimizer.Model) { m.BudgetUSD = &x },
		} {
			m, err := optimizer.ReadModel(strings.NewReader(goodModel))
			if err != nil {
				t.Fatal(err)
			}
			set(m)
			var bad *optimizer.ModelError
			if err := m.Validate(); !errors.As(err, &bad) || bad.Field != field {
				t.Errorf("%v in %s: %v", x, field, err)
			}
			if _, err := optimizer.Solve(t.Context(), m, optimizer.Options{}); !errors.As(err, &bad) || bad.Field != field {
				t.Errorf("Solve with %v in %s: %v", x, field, err)
			}
		}
	}
}

func TestReaderErrorsPassThrough(t *testing.T) {
	broken := errors.New("disk error")
	r := io.MultiReader(strings.NewReader(goodModel[:100]), iotest.ErrReader(broken))
	if _, err := optimizer.ReadModel(r); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestErrorsClipLongNames(t *testing.T) {
	text := strings.Replace(goodModel, `"to":"infer"`, `"to":"`+strings.Repeat("x", 1<<20)+`"`, 1)
	_, err := optimizer.ReadModel(strings.NewReader(text))
	if err == nil || len(err.Error()) > 300 {
		t.Errorf("error of %d bytes", len(err.Error()))
	}
	text = strings.Replace(goodModel, `"gib":12`, `"`+strings.Repeat("x", 1<<20)+`":12`, 1)
	if _, err = optimizer.ReadModel(strings.NewReader(text)); err == nil || len(err.Error()) > 300 {
		t.Errorf("error of %d bytes", len(err.Error()))
	}
}

// FuzzReadModel checks that an accepted model is valid, stays equal when it is encoded and read, and can be solved.
// The error of a rejected text must have a reason.
func FuzzReadModel(f *testing.F) {
	f.Add([]byte(goodModel))
	f.Add([]byte(`{"objective":"makespan","places":[],"usdPerGiB":[],"hoursPerGiB":[],"tasks":[],"edges":[]}`))
	for _, s := range []shape{chain, forkJoin, randomDAG} {
		text, err := json.Marshal(generate(1, s, 5, 4, 3))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := optimizer.ReadModel(strings.NewReader(string(text)))
		if err != nil {
			var bad *optimizer.ModelError
			if !errors.As(err, &bad) {
				t.Fatalf("not a model error: %v", err)
			}
			return
		}
		if err := m.Validate(); err != nil {
			t.Fatalf("read an invalid model: %v", err)
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		back, err := optimizer.ReadModel(strings.NewReader(string(again)))
		if err != nil || !reflect.DeepEqual(m, back) {
			t.Fatalf("%s does not read back: %v", again, err)
		}
		s, err := optimizer.Solve(t.Context(), m, optimizer.Options{WorkLimit: 1_000_000})
		if errors.Is(err, optimizer.ErrUndecided) {
			return
		}
		if err != nil {
			t.Fatalf("Solve: %v", err)
		}
		if s.Status != optimizer.Infeasible && !(s.Bound <= s.Objective) {
			t.Fatalf("bound %v, objective %v", s.Bound, s.Objective)
		}
	})
}
