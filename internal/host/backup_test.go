package host_test

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/host/backup"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func succeeded(d *apitypes.JobDetail) (n int) {
	for _, task := range d.TaskList {
		if task.State == "succeeded" {
			n++
		}
	}
	return n
}

// A backup is made in the middle of a job, more of the job runs, and the broker is killed. The backup is restored
// into a new folder. Processes of the old folder must be ended. The tasks that had not succeeded at the time of the
// backup must run again and succeed, and no others may run again.
func TestRestoreContinuesJobFromBackup(t *testing.T) {
	if testing.Short() {
		t.Skip("backs up a busy broker and restores it")
	}
	notes, dir := t.TempDir(), t.TempDir()
	v := &victim{t: t, state: filepath.Join(dir, "state")}
	v.start()
	t.Cleanup(func() { _ = v.cmd.Process.Kill() }) // if the test gives up early
	r := v.running()
	var job apitypes.JobView
	if err := call(r, http.MethodPost, "/v1/dags", strings.NewReader(ladder(8, 6, notes)), &job); err != nil {
		t.Fatal(err)
	}
	wait := func(v *victim, tasks int) (d apitypes.JobDetail) {
		t.Helper()
		r := v.running()
		for range 1200 {
			if err := call(r, http.MethodGet, "/v1/jobs/"+job.ID, nil, &d); err == nil && succeeded(&d) >= tasks {
				return d
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatalf("%d of %d tasks after a minute\n%s", succeeded(&d), tasks, v.out.String())
		return d
	}
	copied := wait(v, 9)
	file := filepath.Join(dir, "backup.tar.gz")
	made, err := backup.Make(t.Context(), v.state, file, "test", false)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup has mode %v, %v", info.Mode(), err)
	}
	list, err := exec.Command("tar", "tzf", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(list)) {
		if name == "token" || strings.HasPrefix(name, "machines/") || strings.HasPrefix(name, "pools/") {
			t.Errorf("the backup has %s", name)
		}
	}
	after := wait(v, 20) // more tasks than the backup has
	if _, err := backup.Restore(t.Context(), file, filepath.Join(dir, "early")); err == nil {
		t.Error("a backup was restored while its broker runs")
	}
	v.kill()
	if len(processesOf(t, v.state)) == 0 {
		t.Error("no agent survives its broker, so the test shows nothing")
	}

	w := &victim{t: t, state: filepath.Join(dir, "restored")}
	back, err := backup.Restore(t.Context(), file, w.state)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d files, %d bytes; %d tasks had succeeded before the kill; ended %d machines", made.Files, made.Bytes, succeeded(&after), back.Ended)
	if left := processesOf(t, v.state); len(left) > 0 || back.Ended == 0 {
		t.Errorf("ended %d machines, but of the old folder there still run %q", back.Ended, left)
	}
	if _, err := backup.Restore(t.Context(), file, w.state); err == nil {
		t.Error("a backup was restored into a folder that is not empty")
	}
	w.start()
	t.Cleanup(func() { _ = w.cmd.Process.Kill() })
	done := wait(w, 48)
	for range 200 {
		if done.State.Finished() {
			break
		}
		time.Sleep(50 * time.Millisecond)
		done = wait(w, 48)
	}
	if done.State != apitypes.JobSucceeded {
		t.Errorf("the job is %s: %s", done.State, done.Reason)
	}
	for _, task := range copied.TaskList {
		if n := starts(t, notes, task.Name); task.State == "succeeded" && n != 1 {
			t.Errorf("%s had succeeded in the backup, and was started %d times", task.Name, n)
		}
	}
	for range 200 { // the machines of the last tasks need a moment to end
		if len(processesOf(t, w.state+"/machines")) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := errors.Join(w.cmd.Process.Signal(syscall.SIGTERM), w.cmd.Wait()); err != nil {
		t.Errorf("%v\n%s", err, w.out.String())
	}
	if left := processesOf(t, dir); len(left) > 0 {
		t.Errorf("still run: %q", left)
	}
}
