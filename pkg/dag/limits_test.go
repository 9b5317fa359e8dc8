package dag

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// TestValidateAcceptsMaximums checks that the maximum of each limit is accepted, and that one more is rejected.
func TestValidateAcceptsMaximums(t *testing.T) {
	a := func(change func(*Task, int)) func(*Job, int) { return func(j *Job, n int) { change(&j.Tasks[0], n) } }
	res := func(change func(*Resources, int)) func(*Job, int) {
		return func(j *Job, n int) { change(&j.Tasks[0].Resources[0], n) }
	}
	x := func(n int) string { return strings.Repeat("x", n) }
	many := func(n int, name string) map[string]string {
		out := map[string]string{}
		for i := range n {
			out[fmt.Sprintf("%s%d", name, i)] = "v"
		}
		return out
	}
	serve := func(s *Service) *Service { s.Of, s.Port = "s", 80; s.Readiness.Path = "/"; return s }
	for name, c := range map[string]struct {
		most   int
		change func(*Job, int)
	}{
		"name":         {jobtext.MaxNameBytes, func(j *Job, n int) { j.Name = x(n) }},
		"description":  {jobtext.MaxTextBytes, func(j *Job, n int) { j.Description = x(n) }},
		"deadline":     {int(MaxDuration), func(j *Job, n int) { j.Deadline = time.Duration(n) }},
		"kept":         {int(maxKeep), func(j *Job, n int) { j.KeepOnFailure = time.Duration(n) }},
		"patience":     {int(MaxDuration), func(j *Job, n int) { j.Patience = time.Duration(n) }},
		"budget":       {int(MaxBudget), func(j *Job, n int) { j.Budget = USD(n) }},
		"high":         {MaxPriority, func(j *Job, n int) { j.Priority = n }},
		"low":          {MaxPriority, func(j *Job, n int) { j.Priority = -n }},
		"tasks":        {jobtext.MaxTasks, func(j *Job, n int) { *j = *numbered(n) }},
		"run":          {MaxScriptBytes, a(func(t *Task, n int) { t.Run = x(n) })},
		"setup":        {MaxScriptBytes - 1, a(func(t *Task, n int) { t.Setup = x(n) })},
		"environment":  {MaxEnvBytes - 3, a(func(t *Task, n int) { t.Env = map[string]string{"A": x(n), "B": "b"} })},
		"variable":     {jobtext.MaxNameBytes, a(func(t *Task, n int) { t.Env = map[string]string{x(n): ""} })},
		"workdir":      {jobtext.MaxTextBytes, a(func(t *Task, n int) { t.Workdir = x(n) })},
		"nodes":        {MaxNodes, a(func(t *Task, n int) { t.Nodes = n })},
		"retries":      {jobtext.MaxRetries, a(func(t *Task, n int) { t.Retries = n })},
		"alternatives": {jobtext.MaxAlternatives, a(func(t *Task, n int) { t.Resources = make([]Resources, n) })},
		"cpus":         {jobtext.MaxCPUs, res(func(r *Resources, n int) { r.CPUs.Min = float64(n) })},
		"cpus at most": {jobtext.MaxCPUs, res(func(r *Resources, n int) { r.CPUs.Max = float64(n) })},
		"memory":       {jobtext.MaxMemoryGiB, res(func(r *Resources, n int) { r.Memory.Min = float64(n) })},
		"accelerators": {jobtext.MaxAccelerators, res(func(r *Resources, n int) {
			r.Accelerator, r.AcceleratorCount = "V100", float64(n)
		})},
		"disk":    {int(MaxSize), res(func(r *Resources, n int) { r.DiskGiB = GiB(n) })},
		"outputs": {jobtext.MaxFiles, a(func(t *Task, n int) { t.Outputs = outputs(n) })},
		"labels":  {jobtext.MaxLabels, a(func(t *Task, n int) { t.Labels = many(n, "l") })},
		"label":   {jobtext.MaxLabelBytes, a(func(t *Task, n int) { t.Labels = map[string]string{"l": x(n)} })},
		"rules":   {jobtext.MaxPlacements, a(func(t *Task, n int) { t.Placement = rules(n, Placement{Pack: LevelZone}) })},
		"spread":  {MaxNodes, a(func(t *Task, n int) { t.Placement = []Placement{{Spread: LevelZone, Max: n}} })},
		"rules of jobs": {jobtext.MaxPlacements, func(j *Job, n int) {
			j.Placement = rules(n, Placement{Pack: LevelZone, Of: []string{"a", "b"}})
		}},
		"one rule's tasks": {jobtext.MaxPlaced, func(j *Job, n int) {
			*j = *numbered(n)
			j.Placement = []Placement{{Pack: LevelZone}}
			for i := range j.Tasks {
				j.Placement[0].Of = append(j.Placement[0].Of, j.Tasks[i].Name)
			}
		}},
		"gang": {MaxGang, func(j *Job, n int) {
			*j = *numbered(n)
			for i := range j.Tasks {
				j.Tasks[i].Gang = "g"
			}
		}},
		"joining": {jobtext.MaxJoining, func(j *Job, n int) {
			*j = *numbered(n + 1)
			j.Tasks[0].Gang = "g"
			for i := 1; i <= n; i++ {
				j.Tasks[i].Joins, j.Tasks[i].Role = "g", "t0"
			}
		}},
		"reactions": {jobtext.MaxReactions, a(func(t *Task, n int) { t.On = make([]Reaction, n); fill(t.On) })},
		"exit codes": {jobtext.MaxReactions, a(func(t *Task, n int) {
			t.On = make([]Reaction, 1)
			fill(t.On)
			t.On[0].ExitCodes = ones(n)
		})},
		"exit code": {255, a(func(t *Task, n int) { t.On = make([]Reaction, 1); fill(t.On); t.On[0].ExitCodes = []int{n} })},
		"restarts":  {jobtext.MaxRetries, a(func(t *Task, n int) { t.On = make([]Reaction, 1); fill(t.On); t.On[0].Limit = n })},
		"port":      {maxPort, a(func(t *Task, n int) { t.Service = &Service{Of: "s", Port: n} })},
		"post": {jobtext.MaxTextBytes, a(func(t *Task, n int) {
			t.Service = serve(&Service{Readiness: Readiness{Post: x(n)}})
		})},
		"headers": {maxHeaders, a(func(t *Task, n int) {
			t.Service = serve(&Service{Readiness: Readiness{Headers: many(n, "h")}})
		})},
		"header": {jobtext.MaxNameBytes, a(func(t *Task, n int) {
			t.Service = serve(&Service{Readiness: Readiness{Headers: map[string]string{x(n): ""}}})
		})},
		"replicas": {jobtext.MaxReplicas, func(j *Job, n int) {
			*j = *numbered(n)
			for i := range j.Tasks {
				j.Tasks[i].Service = &Service{Of: "s"}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && c.most > 1e4 && name == "tasks" {
				t.Skip("takes long")
			}
			for n, want := range map[int]bool{c.most: true, c.most + 1: false} {
				j := tasksNamed("a", "b")
				c.change(j, n)
				if err := j.Validate(); (err == nil) != want {
					t.Errorf("%d of them: %v", n, err)
				}
			}
		})
	}
	if CheckSecret(x(MaxEnvBytes)) != nil || !errors.Is(CheckSecret(x(MaxEnvBytes+1)), ErrLimit) {
		t.Error("a secret cannot be as long as an environment")
	}
}

func outputs(n int) (out []Output) {
	for i := range n {
		out = append(out, Output{Name: fmt.Sprintf("o%d", i)})
	}
	return out
}

func rules(n int, p Placement) (out []Placement) {
	for range n {
		out = append(out, p)
	}
	return out
}

func fill(on []Reaction) {
	for i := range on {
		on[i] = Reaction{Event: PodFailed, Action: RestartGang}
	}
}

func ones(n int) (out []int) {
	for range n {
		out = append(out, 1)
	}
	return out
}

// TestValidateAcceptsMinimums checks the minimums. A minimum is zero if zero has a meaning, and one otherwise.
func TestValidateAcceptsMinimums(t *testing.T) {
	for name, change := range map[string]func(*Task){
		"a machine":      func(t *Task) { t.Nodes = 1 },
		"no retries":     func(t *Task) { t.Retries = 0 },
		"a moment":       func(t *Task) { t.Time.Default = 1 },
		"up to one":      func(t *Task) { t.Resources[0].CPUs = Range{0, 1} },
		"exactly one":    func(t *Task) { t.Resources[0].CPUs = Range{1, 1} },
		"half of a chip": func(t *Task) { t.Resources[0].Accelerator, t.Resources[0].AcceleratorCount = "V100", 0.5 },
		"an empty edge":  func(t *Task) { t.Outputs = []Output{{Name: "o"}} },
		"exit code 1": func(t *Task) {
			t.On = []Reaction{{Event: PodFailed, Action: Abort, ExitCodes: []int{1}}}
		},
		"port 1":       func(t *Task) { t.Service = &Service{Of: "s", Port: 1} },
		"only setup":   func(t *Task) { t.Run, t.Setup = "", "x" },
		"a stand-in":   func(t *Task) { t.Run, t.Recorded = "", 1 },
		"one secret":   func(t *Task) { t.Secrets = []string{"A"} },
		"two secrets":  func(t *Task) { t.Secrets = []string{"A", "B"} },
		"a task alone": func(t *Task) { t.Gang = "g" },
	} {
		j := tasksNamed("a", "b")
		change(&j.Tasks[0])
		if err := j.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChecksOfSingleValues(t *testing.T) {
	for check, c := range map[string]struct {
		check     func(string) error
		good, bad []string
	}{
		"a name": {
			jobtext.CheckName,
			[]string{"a", "Z", "0", "9", "a.b", "a_b", "a-b", "A0"},
			[]string{"", ".a", "_a", "-a", "a b", "a/b", "a:b", "ä", "a@"},
		},
		"a variable": {
			jobtext.CheckEnvName,
			[]string{"a", "_", "A9", "_0", "Z", "z"},
			[]string{"", "0", "9A", "A-B", "A.B", "TRADEWIND_X", "A B", "A/", "A:", "Ä"},
		},
		"a label": {
			jobtext.CheckLabel,
			[]string{"a", "9", "a.b", "a_b/c-d", "Z9"},
			[]string{"", "-a", "a-", ".", "a b", "/a", "a_", "a:b"},
		},
		"a path to ask": {
			jobtext.CheckProbePath,
			[]string{"/", "/a?b=c"},
			[]string{"", "a", "/a b", "/a#b", "/a\tb"},
		},
		"a word": {
			jobtext.CheckWord,
			[]string{"a", "~", "!", "us-east-1"},
			[]string{"", " ", "a b", "a*", "\x7f", "a\t", "a\n"},
		},
		"a header": {
			func(s string) error { return jobtext.CheckHeader(s, "v") },
			[]string{"a", "X-Y", "!#$%&'*+-.^_`|~9"},
			[]string{"", "a b", "a:", "ä", "a\n"},
		},
		"a path inside": {
			jobtext.CheckInside,
			[]string{"a", "a/../b", ".", "..a"},
			[]string{"", "..", "../a", "/a", "~", "~/a", "a/../.."},
		},
		"data": {
			jobtext.CheckPlainURI,
			[]string{"a", "/a", "s3://a", "file:///a", "gs://a/b", "s3://a/$b", "file:///$a"},
			[]string{"", "x://a", "s3://", "s3:///", "a\n", "s3://$a/b", "gs://a-${b}"},
		},
		"a repository": {
			jobtext.CheckRepositoryURL,
			[]string{"https://a/b", "git@host:a", "/a", "ssh://[::1]/a", "a/b::c"},
			[]string{"", "-a", "ext::sh", "a::b"},
		},
		"a commit": {
			jobtext.CheckRef,
			[]string{"main", "v1.2", "a/b"},
			[]string{"", "-a", "a b", "a..b", "a~1", "a^", "a:b", "a\x7f"},
		},
		"a cloud": {
			CheckCloud,
			[]string{"aws", "own-cloud"},
			[]string{"", "awss", "aws:x", "a/b", "a b"},
		},
		"a place": {
			CheckPlace,
			[]string{"aws", "aws:us-east-1", "eu"},
			[]string{"", "aws:", "aws/x", "awss", "aws:a b", "gpc:x"},
		},
		"an image": {
			jobtext.CheckImage,
			[]string{"ami-1", "docker:ubuntu:24.04", "docker:9a"},
			[]string{"", "docker:", "docker:-a", "docker:a b", "docker:a\n"},
		},
	} {
		for _, s := range c.good {
			if err := c.check(s); err != nil {
				t.Errorf("%q is not %s: %v", s, check, err)
			}
		}
		for _, s := range c.bad {
			if err := c.check(s); err == nil {
				t.Errorf("%q is %s", s, check)
			}
		}
	}
}
