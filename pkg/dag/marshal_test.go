package dag

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// readBack reads what Marshal wrote of j, and says whether it is the same job.
func readBack(t interface {
	Helper()
	Fatalf(string, ...any)
}, j *Job,
) {
	t.Helper()
	data, err := Marshal(j)
	if err != nil {
		t.Fatalf("%v", err)
	}
	got, err := ReadNative("job.yaml", bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	want := *j
	want.origin, want.Format, want.Warnings, got.origin = nil, Native, nil, nil
	if want.Infeasible == "" {
		want.Infeasible = Fail
	}
	if !reflect.DeepEqual(got, &want) {
		t.Fatalf("read back\n%+v\nwant\n%+v\nfrom\n%s", got, &want, data)
	}
}

func TestMarshalledJobsReadBackTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { readBack(t, genJob().Draw(t, "job")) })
}

func TestMarshalledFilesReadBackTheSame(t *testing.T) {
	for _, file := range smallTestFiles(t) {
		j, err := ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		readBack(t, j)
	}
}

func TestJobsSurviveJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := genJob().Draw(t, "job")
		data, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		got := new(Job)
		if err := json.Unmarshal(data, got); err != nil {
			t.Fatal(err)
		}
		if err := got.Validate(); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if !reflect.DeepEqual(got, j) {
			t.Fatalf("got\n%+v\nwant\n%+v", got, j)
		}
	})
}

func TestInvalidJobsAreNotMarshalled(t *testing.T) {
	if _, err := Marshal(&Job{Name: "x", Objective: MinimizeCost}); err == nil {
		t.Error("a job without tasks was written")
	}
}
