package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/onmachine"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// replicas returns a service whose replicas have ended twice before they were ready.
func replicas(n int) *apitypes.JobDetail {
	d := &apitypes.JobDetail{JobView: apitypes.JobView{ID: "chat-aaaaaa", State: apitypes.JobRunning, Tasks: n}}
	for i := range n {
		d.TaskList = append(d.TaskList, apitypes.TaskView{Index: i, Name: fmt.Sprintf("web.%d", i), Service: "web", State: "queued"})
		for k := 1; k <= 2; k++ {
			d.Attempts = append(d.Attempts, apitypes.Attempt{Task: i, Number: k, Outcome: apitypes.OutcomeFailed,
				Reason: fmt.Sprintf("exit code %d: ./serve: No such file or directory", 100+k)})
		}
	}
	return d
}

// TestStatusShowsFailuresOfRetriedTasks: otherwise tasks that fail again and again look merely queued.
func TestStatusShowsFailuresOfRetriedTasks(t *testing.T) {
	d := replicas(5)
	want := []string{
		"web.0: attempt 2 failed: exit code 102: ./serve: No such file or directory",
		"web.1: attempt 2 failed: exit code 102: ./serve: No such file or directory",
		"web.2: attempt 2 failed: exit code 102: ./serve: No such file or directory",
		"the latest attempts of 2 tasks more failed, too",
	}
	if got := troubles(d); !slices.Equal(got, want) {
		t.Errorf("told:\n%s", strings.Join(got, "\n"))
	}
	d.TaskList[0].State, d.TaskList[0].Ready = "running", true
	d.TaskList[1].State = "failed" // the table shows that, and the job the reason
	d.Attempts[5].Outcome = apitypes.OutcomePreempted
	if got := troubles(d); len(got) != 2 || !strings.HasPrefix(got[0], "web.3: ") {
		t.Errorf("of what is well, over or was taken is told:\n%s", strings.Join(got, "\n"))
	}
	d.State = apitypes.JobFailed
	if got := troubles(d); len(got) > 0 {
		t.Errorf("a finished job has troubles:\n%s", strings.Join(got, "\n"))
	}
}

func TestUnknownTaskSuggestsSimilar(t *testing.T) {
	d := replicas(4)
	d.TaskList = append(d.TaskList, apitypes.TaskView{Index: 4, Name: "train"})
	for task, hint := range map[string]string{
		"web":   "it is a service: its replicas are web.0, web.1, web.2, …",
		"trian": `did you mean "train"?`,
		"other": "`tradewind status chat-aaaaaa` lists its tasks",
	} {
		what, got := command.Describe(onmachine.CheckTask(d, task))
		if what != fmt.Sprintf("job chat-aaaaaa has no task %q", task) || !strings.HasPrefix(got, hint) {
			t.Errorf("%s: %s\n%s", task, what, got)
		}
	}
	if err := onmachine.CheckTask(d, "web.3"); err != nil {
		t.Error(err)
	}
}
