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

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// TestStories runs the files of testdata/stories. Each is a world in which nothing fails except what its commands
// order, and everything takes a medium time. The commands:
//
//	submit                       accept the job below
//	queue NAME [running=N] [vcpu=N]
//	cloud [NAME] [region= zone= type= market=] (capacity=none | launch=unseen|hang|transient|throttled|auth|quota [late=D]) [for=D] [times=N]
//	interrupt task=T [notice=cloud|machine|both|none]
//	silence task=T [node=N]      stop its agents, or that of one node; their machines run on
//	cut task=T [for=D]           disconnect its machines
//	stall FUNCTION [for=D]       the function handles no messages
//	lose task=T                  end its machines without notice
//	fail task=T [times=N]        its next runs end with an exit code
//	slow task=T by=F             it takes F times as long as its author said
//	kill-broker [for=D]
//	cancel
//	brief                        print no more lines about single machines
//	run [for=D]                  advance the clock; without a time, until every job has finished
//	explain                      print the broker's explanation of the job
//	bill                         print the cost of the machines, and the ledger
//	price [NAME] [region= zone= type=] usd=X
//	past low=X high=Y every=D    for some days, all spot prices have alternated between these multiples of the catalogue's; now they are high
//	rest                         let the world come to rest, and check that nothing is left over
//
// A violation of an invariant is printed where it happens.
func TestStories(t *testing.T) {
	datadriven.Walk(t, filepath.Join("testdata", "stories"), func(t *testing.T, path string) {
		if raceDetector && filepath.Base(path) == "thousand.txt" {
			t.Skip("takes minutes with the race detector")
		}
		s := newStory()
		t.Cleanup(s.w.end)
		datadriven.RunTest(t, path, s.command)
	})
}

// story is a world that is controlled by commands.
type story struct {
	w   *world
	job *userJob
	out strings.Builder

	brief bool // print no lines about single machines
}

func newStory() *story {
	w := newWorld(1, Options{Keep: 1, steady: true}, weather.Faults{})
	s := &story{w: w}
	w.History.OnEntry = s.tell
	w.engine.begin()
	w.check.Look()
	return s
}

// told reports whether a story prints an entry of the history.
func told(what string) bool {
	return slices.ContainsFunc([]string{
		"is ", "task is", "attempt ends", "launches", "refuses", "ends", "will take", "agent obeys", "agent exits", "agent dies",
		"crashes", "restarts", "dead letter", "replica",
	}, func(s string) bool { return strings.HasPrefix(what, s) })
}

func (s *story) tell(e timeline.Entry) {
	if s.brief && (strings.HasPrefix(e.What, "agent") || strings.HasPrefix(e.What, "ends")) {
		return
	}
	if told(e.What) || e.Who == "INVARIANT" {
		s.printf("%s  %s %s %s", clockTime(e.At), e.Who, e.What, e.Detail)
	}
}

// clockTime formats a time since the start like a clock.
func clockTime(d time.Duration) string {
	d = d.Round(time.Second)
	return fmt.Sprintf("%02d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

// printf adds a line to the output. It replaces the IDs of jobs by their names.
func (s *story) printf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	for j := range s.w.check.All() {
		line = strings.ReplaceAll(line, j.ID, j.Name)
	}
	s.out.WriteString(strings.TrimRight(line, " ") + "\n")
}

func (s *story) command(t *testing.T, d *datadriven.TestData) string {
	s.out.Reset()
	commands := map[string]func(*testing.T, *datadriven.TestData){
		"submit": s.submit, "queue": s.queue, "cloud": s.cloud, "interrupt": s.interrupt, "silence": s.silence, "lose": s.lose, "cut": s.cut, "stall": s.stall,
		"fail": s.fail, "slow": s.slow, "kill-broker": s.kill, "cancel": s.cancel, "run": s.run, "explain": s.explain, "bill": s.bill, "price": s.price, "past": s.past, "rest": s.rest,
		"brief": func(*testing.T, *datadriven.TestData) { s.brief = true },
	}
	f, ok := commands[d.Cmd]
	if !ok {
		d.Fatalf(t, "unknown command %s", d.Cmd)
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
	r := &weather.Rule{Until: s.w.Now.Add(durationArg(t, d, "for", "1000h")), Times: int(numberArg(t, d, "times", "-1"))}
	if len(d.CmdArgs) > 0 && len(d.CmdArgs[0].Vals) == 0 {
		r.Match.Cloud = d.CmdArgs[0].Key
	}
	r.Match.Region, r.Match.Zone = arg(t, d, "region", ""), arg(t, d, "zone", "")
	r.Match.InstanceType = arg(t, d, "type", "")
	market := arg(t, d, "market", "")
	r.Any, r.Match.Spot = market == "", market == "spot"
	r.What, r.Late = arg(t, d, "launch", ""), durationArg(t, d, "late", "0s")
	if arg(t, d, "capacity", "") == "none" {
		r.What = string(cloud.Capacity)
	}
	s.w.sky.Rules = append(s.w.sky.Rules, r)
}

func (s *story) price(t *testing.T, d *datadriven.TestData) {
	for _, l := range weather.Catalogue() {
		if (len(d.CmdArgs[0].Vals) > 0 || d.CmdArgs[0].Key == l.Cloud) && strings.HasPrefix(l.Region, arg(t, d, "region", "")) &&
			strings.HasPrefix(l.Zone, arg(t, d, "zone", "")) && strings.HasPrefix(l.InstanceType, arg(t, d, "type", "")) {
			s.w.sky.Quote(l.ID(), numberArg(t, d, "usd", "0"))
		}
	}
}

func (s *story) past(t *testing.T, d *datadriven.TestData) {
	times := [2]float64{numberArg(t, d, "low", "1"), numberArg(t, d, "high", "2")}
	learned := make([]market.Online, len(weather.Catalogue()))
	now := s.w.Now.Add(-weather.Watched)
	for n := 0; !now.After(s.w.Now); n++ {
		for i, l := range weather.Catalogue() {
			usd := l.SpotUSD * times[n%2]
			learned[i].Observe(now, usd)
			s.w.sky.Paths[l.ID()] = weather.Course{{At: now, USD: usd}}
		}
		now = now.Add(durationArg(t, d, "every", "1h"))
	}
	for i, l := range weather.Catalogue() {
		usd := l.SpotUSD * times[1]
		learned[i].Observe(s.w.Now, usd)
		s.w.sky.Paths[l.ID()] = weather.Course{{At: s.w.Now, USD: usd}}
	}
	s.w.know(s.w.sky.Records(learned))
}

// machines returns the machines that run a task now.
func (s *story) machines(t *testing.T, d *datadriven.TestData) []*machine {
	t.Helper()
	task, ok := s.job.ByTask[arg(t, d, "task", "")]
	j := s.w.check.Named(s.job.Spec.Name)
	if !ok || j == nil {
		d.Fatalf(t, "no such task")
	}
	cluster := record.ClusterID(j.ID, task, j.Tasks[task].Attempt)
	var found []*machine
	for _, c := range s.w.clouds {
		if f := c.find(cluster); f != nil {
			for _, m := range f.machines {
				if m.Alive() {
					found = append(found, m)
				}
			}
		}
	}
	if len(found) == 0 {
		d.Fatalf(t, "no machine runs %s", arg(t, d, "task", ""))
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
	s.w.After(cloudTells, func() { s.w.faults.NoticeLost = 0 })
}

// cloudTells is the time after which the cloud has certainly sent the notice of a machine that it takes.
const cloudTells = 3 * time.Minute

func (s *story) silence(t *testing.T, d *datadriven.TestData) {
	node := int(numberArg(t, d, "node", "-1"))
	for _, m := range s.machines(t, d) {
		if node >= 0 && m.Rank != node {
			continue
		}
		s.printf("%s  %s falls silent", clockTime(s.w.Since()), m.ID)
		m.agent.stop()
	}
}

func (s *story) cut(t *testing.T, d *datadriven.TestData) {
	for _, m := range s.machines(t, d) {
		s.w.sky.Until[m.ID] = s.w.Now.Add(durationArg(t, d, "for", "10m"))
	}
}

func (s *story) stall(t *testing.T, d *datadriven.TestData) {
	s.w.sky.Until[d.CmdArgs[0].Key] = s.w.Now.Add(durationArg(t, d, "for", "10m"))
}

func (s *story) lose(t *testing.T, d *datadriven.TestData) {
	for _, m := range s.machines(t, d) {
		m.end("hardware failure")
	}
}

func (s *story) fail(t *testing.T, d *datadriven.TestData) {
	s.job.toFail[s.job.ByTask[arg(t, d, "task", "")]] = int(numberArg(t, d, "times", "1"))
}

func (s *story) slow(t *testing.T, d *datadriven.TestData) {
	s.job.Factor[s.job.ByTask[arg(t, d, "task", "")]] = numberArg(t, d, "by", "2")
}

func (s *story) kill(t *testing.T, d *datadriven.TestData) {
	for _, h := range s.w.hosts {
		h.crashFor(nil, durationArg(t, d, "for", "1m"))
	}
}

func (s *story) cancel(*testing.T, *datadriven.TestData) {
	s.w.users.cancel(s.job, "cancelled by the user")
}

func (s *story) run(t *testing.T, d *datadriven.TestData) {
	if d.HasArg("for") {
		s.w.Until(s.w.Now.Add(durationArg(t, d, "for", "")), nil)
		return
	}
	s.w.Until(s.w.Now.Add(48*time.Hour), s.w.check.AllOver)
}

func (s *story) explain(t *testing.T, d *datadriven.TestData) {
	id := s.w.check.IDOf(s.job.Spec.Name)
	told, err := s.w.hosts[0].broker.Views.Explain(context.Background(), id)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	for _, e := range told.Entries {
		s.printf("%s  %-9s %-6s %s", clockTime(e.At.Sub(timeline.Beginning())), e.Kind, e.Task, e.Text)
	}
}

func (s *story) bill(*testing.T, *datadriven.TestData) {
	for j := range s.w.check.All() {
		s.printf("%s: machines cost %.4f USD, booked are %.4f, set aside %.4f of a budget of %.2f", j.ID, s.w.check.Bill(j), j.Ledger.SpentUSD, j.Ledger.ReservedUSD, j.Record.BudgetUSD)
	}
}

func (s *story) rest(*testing.T, *datadriven.TestData) {
	s.w.Until(s.w.Now.Add(calm), s.w.check.AtRest)
	if s.w.Violation == nil {
		s.w.check.Final()
	}
	for j := range s.w.check.All() {
		s.printf("%s %s", j.ID, j.Record.State)
	}
}

// stringArg returns an argument, or an empty string.
func stringArg(d *datadriven.TestData, key string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) > 0 {
			return a.Vals[0]
		}
	}
	return ""
}
