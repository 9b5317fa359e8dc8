package host_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

const shortJob = "apiVersion: tradewind/v1\nname: short\ntasks:\n  a: {run: 'true', time: 1m}\n"

func TestAdmissionPausesWhileDiskIsNearlyFull(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("no small disk can be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "--lazy", dir).Run() })
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 40<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	h, stop := serve(t, host.Options{State: filepath.Join(dir, "state"), ReserveBytes: 32 << 20})
	defer stop() // before the disk is full
	file := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(file, []byte(shortJob), 0o600); err != nil {
		t.Fatal(err)
	}
	spec, err := read.File(file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, b := context.Background(), h.Broker()
	job, err := b.Users.Submit(ctx, broker.Submission{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	const want = "no task is admitted: the broker's disk is nearly full"
	for { // until the job has a plan
		why, err := b.Views.WhyWaiting(ctx, job.ID)
		if err != nil {
			t.Fatal(err)
		}
		if why.Waiting > 0 && why.State == apitypes.JobRunning {
			if !strings.HasPrefix(why.Reason, want) {
				t.Errorf("why it waits: %q", why.Reason)
			}
			break
		}
		if why.State != apitypes.JobPlanning && why.State != apitypes.JobRunning {
			t.Fatalf("%+v", why)
		}
	}
	if v, err := b.Views.JobView(ctx, job.ID); err != nil || !strings.HasPrefix(v.Reason, want) {
		t.Errorf("status: %+v, %v", v, err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if d := await(t, b, job.ID); d.State != apitypes.JobSucceeded {
		t.Errorf("%s: %s", d.State, d.Reason)
	}
}

// TestFullDiskIsNamed: on a full disk, a submission fails, and a broker cannot start. Each error must name the
// folder, the free space and a remedy.
func TestFullDiskIsNamed(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("no small disk can be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "--lazy", dir).Run() })
	state := filepath.Join(dir, "state")
	h, stop := serve(t, host.Options{State: state})
	defer stop()
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 4<<10))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	_, err = client.New(h.URL(), h.Token()).Submit(t.Context(), "job.yaml", "key", []byte(shortJob), nil)
	var p *apitypes.Problem
	if !errors.As(err, &p) || p.Status != http.StatusInsufficientStorage || !strings.Contains(p.Detail, state+" is full: ") ||
		!strings.Contains(p.Hint, "tradewind rm") {
		t.Errorf("%v", err)
	}
	if err := os.Remove(filler.Name()); err != nil {
		t.Fatal(err)
	}
}
