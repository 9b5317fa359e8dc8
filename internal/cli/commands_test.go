package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// TestCommands runs the command lines of testdata/commands and compares what they print and how they exit.
//
//	up [scale=X] [clouds=A] [price=N] [machines=M]
//	                               start a broker on the state folder, which buys on a cloud, at most M machines at the
//	                               same time, and whose plans cost N USD a task; below 0 it has none
//	person [ANSWER...]             a person is at the terminal and answers; "-" is an empty line. Without answers, no one is
//	settings own|beside            write the settings below
//	outcome STATE [plan=N] [short] set how submitted jobs end
//	simulated [scale=X]            submitted and added jobs run on simulated machines; X 0 ends that
//	job ID STATE                   add a job
//	broken ID                      add a job whose first task failed on rank 2 of 4
//	suspended QUEUE                Ada suspends a queue
//	letter ID QUEUE REASON         add a dead letter
//	tradewind                      run the command line below
//	tradewind-lab                  run the command line below in the research program
func TestCommands(t *testing.T) {
	datadriven.Walk(t, "testdata/commands", func(t *testing.T, path string) {
		p := newProgram(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "up":
				scale := 1.0
				d.MaybeScanArgs(t, "scale", &scale)
				d.MaybeScanArgs(t, "price", &p.hosts.price)
				p.hosts.up(scale)
				d.MaybeScanArgs(t, "clouds", &p.hosts.running.Clouds)
				d.MaybeScanArgs(t, "machines", &p.hosts.running.Limit.Machines)
			case "person":
				p.answers = nil
				for _, a := range d.CmdArgs {
					p.answers = append(p.answers, strings.Trim(a.Key, "-"))
				}
			case "settings":
				p.settings(t, d.CmdArgs[0].Key, d.Input)
			case "outcome":
				p.hosts.broker.outcome, p.hosts.broker.plan = apitypes.JobState(d.CmdArgs[0].Key), 1
				d.MaybeScanArgs(t, "plan", &p.hosts.broker.plan)
				p.hosts.broker.short = d.HasArg("short")
			case "simulated":
				p.hosts.broker.simulated = 1
				d.MaybeScanArgs(t, "scale", &p.hosts.broker.simulated)
			case "job":
				b := p.hosts.broker
				job := detail(d.CmdArgs[0].Key, apitypes.JobState(d.CmdArgs[1].Key), 1)
				job.Simulated, job.TimeScale = b.simulated > 0, b.simulated
				b.jobs = append(b.jobs, job)
			case "broken":
				b := p.hosts.broker
				broken := detail(d.CmdArgs[0].Key, apitypes.JobFailed, 1)
				broken.TaskList[0].Nodes, broken.TaskList[0].State = 4, "failed"
				broken.Attempts = []apitypes.Attempt{{Task: 0, Number: 1, Nodes: 4, Outcome: apitypes.OutcomeFailed,
					OfferID: broken.TaskList[0].Offer, Reason: "MemoryError", Failure: apitypes.Failure{Rank: 2, ExitCode: 7}}}
				b.jobs = append(b.jobs, broken)
			case "suspended":
				b := p.hosts.broker
				i := slices.IndexFunc(b.queues, func(q apitypes.Queue) bool { return q.Name == d.CmdArgs[0].Key })
				b.queues[i].Closed, b.queues[i].Suspended = true, apitypes.Suspension{By: "Ada", Since: at(30)}
			case "log":
				log := api.Log{Job: d.CmdArgs[0].Key, Attempt: record.ClusterID(d.CmdArgs[0].Key, 0, 1)}
				d.MaybeScanArgs(t, "rank", &log.Rank)
				if err := p.hosts.logs.Append(context.Background(), log, 0, []byte(d.Input+"\n")); err != nil {
					t.Fatal(err)
				}
			case "letter":
				addLetter(p, d.CmdArgs[0].Key, strings.Trim(d.CmdArgs[1].Key, "-"), d.Input)
			case "stdin":
				p.in = d.Input
			case "tradewind":
				return p.normalise(p.run(strings.Fields(strings.ReplaceAll(d.Input, "STATE", p.state))...))
			case "tradewind-lab":
				return p.normalise(p.lab(strings.Fields(d.Input)...))
			default:
				t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
			}
			return ""
		})
	})
}

// settings writes a file of settings: the user's own, or the one next to a job in the folder jobs.
func (p *program) settings(t *testing.T, which, body string) {
	t.Helper()
	if len(p.environ) == 0 {
		p.environ = []string{"XDG_CONFIG_HOME=" + filepath.Join(p.state, "config")}
	}
	path := filepath.Join(p.state, "config", "tradewind", "config.yaml")
	if which == "beside" {
		path = filepath.Join(p.state, "jobs", ".tradewind.yaml")
		if err := os.CopyFS(filepath.Dir(path), os.DirFS("testdata/jobs")); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, path, body)
}

var (
	loopbackURL = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	took        = regexp.MustCompile(`in [0-9.]+(ms|s)\)`)
	millis      = regexp.MustCompile(`"millis": ?[0-9.]+`)
	blanks      = regexp.MustCompile(`(?m)[ \t]+$`)
)

// normalise removes everything that differs between runs.
func (p *program) normalise(r result) string {
	var b strings.Builder
	if r.out != "" {
		b.WriteString(r.out)
	}
	if r.err != "" {
		b.WriteString("--- stderr\n" + r.err)
	}
	s := b.String()
	here, err := os.Getwd()
	if err != nil {
		here = p.state
	}
	for old, with := range map[string]string{p.state: "STATE", testToken: "TOKEN", here: "HERE"} {
		s = strings.ReplaceAll(s, old, with)
	}
	s = loopbackURL.ReplaceAllString(s, "127.0.0.1:PORT")
	s = took.ReplaceAllString(s, "in 1ms)")
	s = millis.ReplaceAllString(s, `"millis": 1`)
	s = blanks.ReplaceAllString(s, "")
	return s + "--- exit " + string(rune('0'+r.code%10)) + "\n"
}
