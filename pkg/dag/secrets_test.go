package dag_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

func job(t *testing.T, text string) *dag.Job {
	t.Helper()
	j, err := read.Job("job.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// The values of a job's secrets must not appear when the job is stored, sent or printed.
func TestJobDoesNotExposeSecretValues(t *testing.T) {
	for _, text := range []string{
		"run: x\nsecrets: {TOKEN: hunter2}\n",
		"apiVersion: tradewind/v1\nsecrets: {TOKEN: hunter2}\ntasks: {a: {run: x}}\n",
		"apiVersion: tradewind/v1\ntasks: {a: {run: x, secrets: {TOKEN: hunter2}}}\n",
	} {
		j := job(t, text)
		if j.Stated["TOKEN"] != "hunter2" || len(j.Tasks[0].Secrets) != 1 {
			t.Errorf("%q: %d values, tasks %q", text, len(j.Stated), j.Tasks[0].Secrets)
		}
		stored, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		written, err := dag.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secrets", j.Stated, "job", j)
		for _, text := range []string{string(stored), string(written), log.String(), fmt.Sprintf("%v %+v %#v %s %q", j, *j, j.Stated, j.Stated, j.Stated)} {
			if strings.Contains(text, "hunter2") {
				t.Errorf("a secret in %s", text)
			}
		}
	}
}

func TestTakeSecretsRejectsMissingValues(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{
			"run: x\nsecrets:\n  TOKEN: null\n",
			`job.yaml:3:3: secrets.TOKEN: has no value (give it with --secret TOKEN, which takes it from the variable of that name)`,
		},
		{"run: x\nsecrets: [\"x:TOKEN\"]\n", "job.yaml:2:11: secrets.TOKEN: has no value"},
		{"apiVersion: tradewind/v1\nsecrets: [TOKEN]\ntasks: {a: {run: x}}\n", "job.yaml:2:11: tasks.a.secrets.TOKEN: has no value"},
		{
			"apiVersion: tradewind/v1\ntasks:\n  a:\n    run: x\n    secrets:\n      TOKEN:\n",
			"job.yaml:6:7: tasks.a.secrets.TOKEN: has no value",
		},
	} {
		j := job(t, c.text)
		if _, _, err := j.ResolveSecrets(nil); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v\nwant %s", err, c.want)
		}
		if _, _, err := j.ResolveSecrets(dag.SecretValues{"TOKEN": "x"}); err != nil {
			t.Error(err)
		}
	}
}

func TestTakeSecretsAddsUnnamedSecretsToAllTasks(t *testing.T) {
	j := job(t, "apiVersion: tradewind/v1\ntasks: {a: {run: x, env: {TOKEN: seen, B: b}}, b: {run: x, secrets: [OWN]}, c: {recorded: 1m}}\n")
	given := dag.SecretValues{"TOKEN": "t", "OWN": "o"}
	for _, changes := range []bool{true, false} {
		values, changed, err := j.ResolveSecrets(given)
		if err != nil || changed != changes || !maps.Equal(values, given) {
			t.Errorf("%d values, changed %v, %v", len(values), changed, err)
		}
	}
	if err := j.Validate(); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(j.Tasks[0].Secrets, j.Tasks[0].Env, j.Tasks[1].Secrets, j.Tasks[2].Secrets)
	if want := "[TOKEN] map[B:b] [OWN TOKEN] []"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestStateSecretRejectsSecondValue(t *testing.T) {
	_, err := read.Job("job.yaml", strings.NewReader(
		"apiVersion: tradewind/v1\ntasks: {a: {run: x, secrets: {T: one}}, b: {run: x, secrets: {T: two}}}\n"))
	want := "job.yaml:2:66: tasks.b.secrets.T: has another value elsewhere in the file (a secret has one value in a job)"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
