package objects_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	dagread "github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// TestRelativePathsAreNextToFile.
func TestRelativePathsAreNextToFile(t *testing.T) {
	const body = `apiVersion: tradewind/v1
name: beside
tasks:
  a: {run: ls, workdir: code, inputs: [{uri: "my data.csv"}, {uri: more/}, {uri: "s3://other/x"}, {uri: /opt/y}]}
`
	settle := func(body string) (*dag.Job, error) {
		spec, err := dagread.Job("team/job.yaml", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return spec, (&objects.DAGs{}).Settle(t.Context(), "dags", "team/job.yaml", spec)
	}
	spec, err := settle(body)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{spec.Tasks[0].Workdir}
	for _, in := range spec.Tasks[0].Inputs {
		got = append(got, in.URI)
	}
	want := []string{"s3://dags/team/code/", "s3://dags/team/my%20data.csv", "s3://dags/team/more/", "s3://other/x", "/opt/y"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	var bad *dag.Error
	if _, err := settle(strings.Replace(body, "code", "../../code", 1)); !errors.As(err, &bad) || bad.Line != 4 {
		t.Errorf("a path out of the bucket: %v", err)
	}
}

// TestWarnsOfFolderWithDAGFiles: the bucket does not record which of its files belong to which job, so the warning goes
// by their names.
func TestWarnsOfFolderWithDAGFiles(t *testing.T) {
	for folder, warned := range map[string]bool{"code": true, "_code": false, ".code/src": false, "src/_code": false} {
		body := "apiVersion: tradewind/v1\nname: beside\ntasks:\n  a: {run: ls, workdir: " + folder + "}\n"
		spec, err := dagread.Job("team/job.yaml", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if err := (&objects.DAGs{}).Settle(t.Context(), "dags", "team/job.yaml", spec); err != nil {
			t.Fatal(err)
		}
		is := slices.ContainsFunc(spec.Warnings, func(w string) bool {
			return strings.HasPrefix(w, "team/job.yaml:4:") && strings.Contains(w, "files in team/"+folder+"/ are submitted as jobs")
		})
		if is != warned {
			t.Errorf("%s: %q", folder, spec.Warnings)
		}
	}
}
