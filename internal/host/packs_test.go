package host_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/internal/localfiles"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

func put(t *testing.T, dir, name, content string) {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// left returns the files of the output with a name that a job's tasks have stored.
func left(t *testing.T, state, job, name string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(state, "objects", job, "*", "out", "*", "*", "files", name))
	if err != nil || len(found) != 1 {
		t.Fatalf("outputs %q, %v", found, err)
	}
	body, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestChangesAfterSubmitDoNotAffectJob: after a submission, the folder of the job's code is changed and removed. The
// job must run with the old content.
func TestChangesAfterSubmitDoNotAffectJob(t *testing.T) {
	state, dir := t.TempDir(), filepath.Join(t.TempDir(), "code")
	put(t, dir, "version", "handed in")
	h, _ := serve(t, host.Options{State: state, TimeScale: 0.01})
	c := client.New(h.URL(), h.Token())
	tree, err := (&localfiles.Sender{Asker: c}).Bring(t.Context(), dir, pack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "version", "changed")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	job, err := c.Submit(t.Context(), "job.yaml", "", fmt.Appendf(nil, `apiVersion: tradewind/v1
name: bring
tasks:
  a: {workdir: %q, run: cp version $TRADEWIND_OUTPUT, time: 1m}
`, tree.URI()), nil)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job succeeds", func() bool {
		d, err := h.Broker().Views.JobDetail(context.Background(), job.ID)
		return err == nil && d.State == apitypes.JobSucceeded
	})
	if got := left(t, state, job.ID, "version"); got != "handed in" {
		t.Errorf("the task saw %q", got)
	}
}

// TestPacksFolderNextToDroppedFile: a folder next to a dropped job file is packed. If it is missing, the error must
// be in a file next to the job file.
func TestPacksFolderNextToDroppedFile(t *testing.T) {
	state, dags := t.TempDir(), t.TempDir()
	const file = "apiVersion: tradewind/v1\nname: %s\ntasks:\n  a: {workdir: %s, run: cp version $TRADEWIND_OUTPUT, time: 1m}\n"
	put(t, dags, "code/version", "beside")
	put(t, dags, "good.yaml", fmt.Sprintf(file, "good", "code"))
	put(t, dags, "bad.yaml", fmt.Sprintf(file, "bad", "none"))
	put(t, dags, "worse.yaml", strings.Replace(fmt.Sprintf(file, "worse", "none"), "time: 1m", "time: soon", 1))
	h, _ := serve(t, host.Options{State: state, DAGs: dags, TimeScale: 0.01})
	id := ""
	eventually(t, "the job succeeds", func() bool {
		list, _, err := h.Broker().Views.Jobs(context.Background(), "", 0)
		if err != nil || len(list) != 1 {
			return false
		}
		id = list[0].ID
		return list[0].State == apitypes.JobSucceeded
	})
	if got := left(t, state, id, "version"); got != "beside" {
		t.Errorf("the task saw %q", got)
	}
	eventually(t, "the missing folder is explained", func() bool {
		said, err := os.ReadFile(filepath.Join(dags, "bad.yaml.error.txt"))
		return err == nil && bytes.Contains(said, []byte(`bad.yaml:4:16: tasks.a.workdir: "none": there is no `)) &&
			strings.Contains(string(said), dags)
	})
	eventually(t, "it is explained together with other errors", func() bool {
		said, err := os.ReadFile(filepath.Join(dags, "worse.yaml.error.txt"))
		return err == nil && bytes.Contains(said, []byte(`worse.yaml:4:16: tasks.a.workdir: "none": there is no `)) &&
			bytes.Contains(said, []byte(`tasks.a.time: "soon"`))
	})
}
