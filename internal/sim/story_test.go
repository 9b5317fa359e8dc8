package sim

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// TestStories plays the files of testdata/stories, each a world in which nothing goes wrong but what its
// commands order, and in which everything takes the middle of the time it might. The commands:
//
//	submit                       accept the job below
//	queue NAME [running=N] [vcpu=N]
//	cloud [NAME] [region= zone= type= market=] (capacity=none | launch=unseen|hang|transient|throttled|auth|quota [late=D]) [for=D] [times=N]
//	interrupt task=T [notice=cloud|machine|both|none]
//	silence task=T [node=N]      its agents stop, or that of one node; their machines run on
//	cut task=T [for=D]           its machines have no connection
//	stall FUNCTION [for=D]       its messages are not taken
//	lose task=T                  its machines end without a word
//	fail task=T [times=N]        its next runs end with an exit code
//	slow task=T by=F             it takes F times as long as its author said
//	kill-broker [for=D]
//	cancel
//	run [for=D]                  let time pass; without a time, until every job is over
//	explain                      what the broker says of the job
//	bill                         what the machines cost, beside the ledger
//	price [NAME] [region= zone= type=] usd=X
//	past low=X high=Y every=D    all spot prices have been so many times the catalogue's in turn for some days, and are high from now on
//	rest                         let the world come to rest, and check that nothing is left over
//
// A violation of an invariant is printed where it happens.
func TestStories(t *testing.T) {
	datadriven.Walk(t, filepath.Join("testdata", "stories"), func(t *testing.T, path string) {
		s := newStory()
		t.Cleanup(s.w.end)
		datadriven.RunTest(t, path, s.command)
	})
}

// story is a world that is told what happens.
type story struct {
	w   *world
	job *userJob
	out strings.Builder
}

func newStory() *story {
	w := newWorld(1, Options{Keep: 1, steady: true}, Faults{})
	s := &story{w: w}
	w.history.told = s.tell
	w.engine.begin()
	w.check.look()
	return s
}

// told is what of a history makes a story.
func told(what string) bool {
	return slices.ContainsFunc([]string{
		"is ", "task is", "attempt ends", "launches", "refuses", "ends", "will take", "agent obeys", "agent exits", "agent dies",
		"crashes", "restarts", "dead letter",
	}, func(s string) bool { return strings.HasPrefix(what, s) })
}

func (s *story) tell(e entry) {
	if told(e.what) || e.who == "INVARIANT" {
		s.printf("%s  %s %s %s", clockTime(e.at), e.who, e.what, e.detail)
	}
}

// clockTime writes a time since the beginning as a clock would.
func clockTime(d time.Duration) string {
	d = d.Round(time.Second)
	return fmt.Sprintf("%02d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

// printf adds a line, with jobs by the names their authors gave them.
func (s *story) printf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	for _, j := range s.w.check.order {
		line = strings.ReplaceAll(line, j.id, j.name)
	}
	s.out.WriteString(strings.TrimRight(line, " ") + "\n")
}

func (s *story) command(t *testing.T, d *datadriven.TestData) string {
	s.out.Reset()
	commands := map[string]func(*testing.T, *datadriven.TestData){
		"submit": s.submit, "queue": s.queue, "cloud": s.cloud, "interrupt": s.interrupt, "silence": s.silence, "lose": s.lose, "cut": s.cut, "stall": s.stall,
		"fail": s.fail, "slow": s.slow, "kill-broker": s.kill, "cancel": s.cancel, "run": s.run, "explain": s.explain, "bill": s.bill, "price": s.price, "past": s.past, "rest": s.rest,
	}
	f, ok := commands[d.Cmd]
	if !ok {
		d.Fatalf(t, "no command %s", d.Cmd)
	}
	f(t, d)
	return s.out.String()
}

// arg returns an argument of a command, or a default.
func arg(t *testing.T, d *datadriven.TestData, key, otherwise string) string {
	t.Helper()
	value := otherwise
	if d.HasArg(key) {
		d.ScanArgs(t, key, &value)
	}
	return value
}

func durationArg(t *testing.T, d *datadriven.TestData, key, otherwise string) time.Duration {
	t.Helper()
	span, err := time.ParseDuration(arg(t, d, key, otherwise))
	if err != nil {
		d.Fatalf(t, "%s: %v", key, err)
	}
	return span
}

func numberArg(t *testing.T, d *datadriven.TestData, key, otherwise string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(arg(t, d, key, otherwise), 64)
	if err != nil {
		d.Fatalf(t, "%s: %v", key, err)
	}
	return n
}

func (s *story) submit(t *testing.T, d *datadriven.TestData) {
	spec, err := read.Job("story.yaml", strings.NewReader(d.Input))
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	s.job = s.w.users.plan(spec)
	s.w.users.submit(s.job)
}

func (s *story) queue(t *testing.T, d *datadriven.TestData) {
	s.w.users.setQueue(d.CmdArgs[0].Key, record.QueueSettings{
		MaxRunning: int(numberArg(t, d, "running", "0")), MaxVCPU: numberArg(t, d, "vcpu", "0"), Parent: stringArg(d, "parent"),
		DeservedVCPU: numberArg(t, d, "deserved", "0"), Preempt: stringArg(d, "preempt") != "",
	})
}

func (s *story) cloud(t *testing.T, d *datadriven.TestData) {
	r := &rule{until: s.w.now.Add(durationArg(t, d, "for", "1000h")), times: int(numberArg(t, d, "times", "-1"))}
	if len(d.CmdArgs) > 0 && len(d.CmdArgs[0].Vals) == 0 {
		r.match.Cloud = d.CmdArgs[0].Key
	}
	r.match.Region, r.match.Zone = arg(t, d, "region", ""), arg(t, d, "zone", "")
	r.match.InstanceType = arg(t, d, "type", "")
	market := arg(t, d, "market", "")
	r.any, r.match.Spot = market == "", market == "spot"
	r.what, r.late = arg(t, d, "launch", ""), durationArg(t, d, "late", "0s")
	if arg(t, d, "capacity", "") == "none" {
		r.what = string(cloud.Capacity)
	}
	s.w.sky.rules = append(s.w.sky.rules, r)
}

func (s *story) price(t *testing.T, d *datadriven.TestData) {
	for _, l := range catalogue() {
		if (len(d.CmdArgs[0].Vals) > 0 || d.CmdArgs[0].Key == l.cloud) && strings.HasPrefix(l.region, arg(t, d, "region", "")) &&
			strings.HasPrefix(l.zone, arg(t, d, "zone", "")) && strings.HasPrefix(l.instanceType, arg(t, d, "type", "")) {
			s.w.sky.quote(l.id(), numberArg(t, d, "usd", "0"))
		}
	}
}

func (s *story) past(t *testing.T, d *datadriven.TestData) {
	times := [2]float64{numberArg(t, d, "low", "1"), numberArg(t, d, "high", "2")}
	learned := make([]market.Online, len(catalogue()))
	now := s.w.now.Add(-watched)
	for n := 0; !now.After(s.w.now); n++ {
		for i, l := range catalogue() {
			usd := l.spotUSD * times[n%2]
			learned[i].Observe(now, usd)
			s.w.sky.paths[l.id()] = course{{now, usd}}
		}
		now = now.Add(durationArg(t, d, "every", "1h"))
	}
	for i, l := range catalogue() {
		usd := l.spotUSD * times[1]
		learned[i].Observe(s.w.now, usd)
		s.w.sky.paths[l.id()] = course{{s.w.now, usd}}
	}
	s.w.sky.know(learned)
}

// machines returns those that run a task now.
func (s *story) machines(t *testing.T, d *datadriven.TestData) []*machine {
	t.Helper()
	task, ok := s.job.byTask[arg(t, d, "task", "")]
	j := s.w.check.byName[s.job.spec.Name]
	if !ok || j == nil {
		d.Fatalf(t, "no such task")
	}
	cluster := record.ClusterID(j.id, task, j.tasks[task].Attempt)
	var found []*machine
	for _, m := range j.machines {
		if m.alive() && m.fleet.name == cluster {
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		d.Fatalf(t, "nothing runs %s", arg(t, d, "task", ""))
	}
	return found
}

func (s *story) interrupt(t *testing.T, d *datadriven.TestData) {
	notice := arg(t, d, "notice", "both")
	if notice == "machine" || notice == "none" {
		s.w.faults.NoticeLost = 1
	}
	for _, m := range s.machines(t, d) {
		m.takeWith(notice == "machine" || notice == "both")
	}
	s.w.after(cloudTells, func() { s.w.faults.NoticeLost = 0 })
}

// cloudTells is when the last notice of a machine that is taken has been decided on.
const cloudTells = 3 * time.Minute

func (s *story) silence(t *testing.T, d *datadriven.TestData) {
	node := int(numberArg(t, d, "node", "-1"))
	for _, m := range s.machines(t, d) {
		if node >= 0 && m.rank != node {
			continue
		}
		s.printf("%s  %s falls silent", clockTime(s.w.since()), m.id)
		m.agent.stop()
	}
}

func (s *story) cut(t *testing.T, d *datadriven.TestData) {
	for _, m := range s.machines(t, d) {
		s.w.sky.until[m.id] = s.w.now.Add(durationArg(t, d, "for", "10m"))
	}
}

func (s *story) stall(t *testing.T, d *datadriven.TestData) {
	s.w.sky.until[d.CmdArgs[0].Key] = s.w.now.Add(durationArg(t, d, "for", "10m"))
}

func (s *story) lose(t *testing.T, d *datadriven.TestData) {
	for _, m := range s.machines(t, d) {
		m.end("hardware failure")
	}
}

func (s *story) fail(t *testing.T, d *datadriven.TestData) {
	s.job.toFail[s.job.byTask[arg(t, d, "task", "")]] = int(numberArg(t, d, "times", "1"))
}

func (s *story) slow(t *testing.T, d *datadriven.TestData) {
	s.job.factor[s.job.byTask[arg(t, d, "task", "")]] = numberArg(t, d, "by", "2")
}

func (s *story) kill(t *testing.T, d *datadriven.TestData) {
	for _, h := range s.w.hosts {
		h.crashFor(nil, durationArg(t, d, "for", "1m"))
	}
}

func (s *story) cancel(*testing.T, *datadriven.TestData) { s.w.users.cancel(s.job, "the user said so") }

func (s *story) run(t *testing.T, d *datadriven.TestData) {
	if d.HasArg("for") {
		s.w.until(s.w.now.Add(durationArg(t, d, "for", "")), nil)
		return
	}
	s.w.until(s.w.now.Add(48*time.Hour), s.w.check.allOver)
}

func (s *story) explain(t *testing.T, d *datadriven.TestData) {
	id := s.w.check.idOf(s.job.spec.Name)
	told, err := s.w.hosts[0].broker.Explain(context.Background(), id)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	for _, e := range told.Entries {
		s.printf("%s  %-9s %-6s %s", clockTime(e.At.Sub(beginning())), e.Kind, e.Task, e.Text)
	}
}

func (s *story) bill(*testing.T, *datadriven.TestData) {
	for _, j := range s.w.check.order {
		s.printf("%s: machines cost %.4f USD, booked are %.4f, set aside %.4f of a budget of %.2f", j.id, j.bill(), j.ledger.SpentUSD, j.ledger.ReservedUSD, j.job.BudgetUSD)
	}
}

func (s *story) rest(*testing.T, *datadriven.TestData) {
	s.w.until(s.w.now.Add(calm), s.w.check.atRest)
	if s.w.violation == nil {
		s.w.check.final()
	}
	for _, j := range s.w.check.order {
		s.printf("%s %s", j.id, j.job.State)
	}
}

// stringArg is an argument's text, empty without it.
func stringArg(d *datadriven.TestData, key string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) > 0 {
			return a.Vals[0]
		}
	}
	return ""
}
