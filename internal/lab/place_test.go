package lab_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/lab"
)

// placed runs the command place, checks its exit code and parses its output.
func placed(t *testing.T, code int, args ...string) (lab.PlaceResult, result) {
	t.Helper()
	r := run(append([]string{"place", "-o", "json"}, args...)...)
	if r.code != code {
		t.Fatalf("%v: exit %d, not %d\n%s%s", args, r.code, code, r.out, r.err)
	}
	var fields map[string]any
	var got lab.PlaceResult
	if r.out != "" {
		if err := json.Unmarshal([]byte(r.out), &fields); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, r.out)
		}
		if err := json.Unmarshal([]byte(r.out), &got); err != nil {
			t.Fatal(err)
		}
		for _, f := range []string{"instances", "placed", "violations", "machines", "lowerBound", "seconds"} {
			if _, there := fields[f]; !there {
				t.Errorf("%s is missing in %s", f, r.out)
			}
		}
	}
	return got, r
}

// generated generates a small data set.
func generated(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "set")
	r := run("place", "--generate", dir, "--machines", "40", "--containers", "300", "--apps", "60", "--priority", "0")
	if r.code != command.ExitDone || !strings.Contains(r.out, "300 instances of 60 apps on 40 machines") {
		t.Fatalf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	return dir
}

func TestPlaceAndVerify(t *testing.T) {
	dir := generated(t)
	out := filepath.Join(t.TempDir(), "assignment.csv")
	got, _ := placed(t, command.ExitDone, "--data", dir, "--steps", "2000", "--out", out)
	if got.Instances != 300 || got.Placed != 300 || got.Violations != 0 || got.Machines < got.LowerBound || got.Machines > 40 || got.LowerBound < 10 {
		t.Errorf("%+v", got)
	}
	again, _ := placed(t, command.ExitDone, "--data", dir, "--verify", out)
	if again.Placed != 300 || again.Violations != 0 || again.Machines != got.Machines || again.LowerBound != got.LowerBound {
		t.Errorf("placed %+v, verified %+v", got, again)
	}
	body, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	second := filepath.Join(t.TempDir(), "again.csv")
	placed(t, command.ExitDone, "--data", dir, "--steps", "2000", "--out", second)
	if b, err := os.ReadFile(second); err != nil || string(b) != string(body) {
		t.Error("the same steps gave another assignment")
	}

	// All instances on one machine exceed its capacity and violate anti-affinity.
	lines := strings.Split(strings.TrimSpace(string(body)), "\n")
	spoiled := slices.Clone(lines)
	for i, line := range spoiled {
		instance, _, _ := strings.Cut(line, ",")
		spoiled[i] = instance + ",machine_1"
	}
	bad := filepath.Join(t.TempDir(), "bad.csv")
	write := func(lines []string) {
		t.Helper()
		if err := os.WriteFile(bad, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(spoiled)
	got, r := placed(t, command.ExitFailed, "--data", dir, "--verify", bad)
	if got.Violations < 3 || got.Machines != 1 || !strings.Contains(r.err, "machine_1: capacity: cpu is ") || !strings.Contains(r.err, "affinity: ") {
		t.Errorf("%+v\n%s", got, r.err)
	}
	write(lines[1:])
	if got, r := placed(t, command.ExitFailed, "--data", dir, "--verify", bad); got.Placed != 299 || got.Violations != 0 || !strings.Contains(r.err, "1 instance without a machine") {
		t.Errorf("%+v\n%s", got, r.err)
	}
	write(append(lines, lines[0]))
	if _, r := placed(t, command.ExitBadInput, "--data", dir, "--verify", bad); !strings.Contains(r.err, "bad.csv: row 301: instance: ") {
		t.Error(r.err)
	}
}

func TestEverySolverPlaces(t *testing.T) {
	dir := generated(t)
	for _, s := range []string{"auto", "pack", "flow", "ffd", "bfd", "dot", "firmament", "medea"} {
		r := run("place", "--data", dir, "--steps", "100", "--solver", s, "-o", "json")
		var got lab.PlaceResult
		if err := json.Unmarshal([]byte(r.out), &got); err != nil {
			t.Fatalf("%s: %v\n%s", s, err, r.err)
		}
		if got.Placed == 0 || (got.Violations > 0) != (r.code == command.ExitFailed) || got.Violations > 0 && s != "medea" {
			t.Errorf("%s: exit %d, %+v", s, r.code, got)
		}
	}
}

func TestPlaceRejectsInvalidInput(t *testing.T) {
	dir := generated(t)
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.CopyFS(broken, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "instance_deploy.csv"), []byte("i1,app_1,\ni2,app_x,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(t.TempDir(), "full")
	run("place", "--generate", full, "--machines", "5", "--containers", "300", "--apps", "60")
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{command.ExitBadInput, "--data must name the folder", nil},
		{command.ExitBadInput, "nowhere: ", []string{"--data", "nowhere"}},
		{command.ExitBadInput, "app_resources.csv: the folder has no file", []string{"--data", t.TempDir()}},
		{command.ExitBadInput, "instance_deploy.csv: row 2: app: \"app_x\" is not in app_resources.csv", []string{"--data", broken}},
		{command.ExitBadInput, "none.csv: ", []string{"--data", dir, "--verify", "none.csv"}},
		{command.ExitBadInput, "leave out --out", []string{"--data", dir, "--verify", "a", "--out", "b"}},
		{command.ExitBadInput, "--steps must be at least 0", []string{"--data", dir, "--steps", "-1"}},
		{command.ExitBadInput, "--generate only generates a data set", []string{"--data", dir, "--generate", "x"}},
		{command.ExitBadInput, "apps: 0", []string{"--generate", "x", "--apps", "0"}},
		{command.ExitInfeasible, "could not place ", []string{"--data", full, "--steps", "100"}},
	} {
		if _, r := placed(t, c.code, c.args...); !strings.Contains(r.err, c.want) {
			t.Errorf("%v: %q is not in %s", c.args, c.want, r.err)
		}
	}
}
