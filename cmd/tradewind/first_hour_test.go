package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/kits"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// rehearseFirstHour is set by make rehearse-first-hour. Like other rehearsals, this one is no part of make test.
var rehearseFirstHour = flag.Bool("first-hour", false, "rehearse a user's first hour with each cloud")

// firstHour is an account that a user has just opened in a cloud.
type firstHour struct {
	cloud string
	add   string            // flags of `cloud add`
	files map[string]string // files of the catalogue
	// running returns the IDs of the existing machines.
	running func() []string
	// interrupt takes a machine.
	interrupt func(id string)
	// dry makes the zone of the cheapest offer run out of machines, or ends that.
	dry func(is bool)
	// quota uses up the account's quota, or raises it.
	quota func(used bool)
	// left returns all resources in the account except machines.
	left func() []string
	// offer is bought by a broker that dies before it has recorded the machine.
	offer apitypes.Offer
	// strand makes the next machine that ends leave its disk. It is nil if the cloud never leaves one.
	strand func()
	// age makes the machines a week older. It is nil if the cloud reports no launch times.
	age func(by time.Duration)
	// follow runs the command that a removal has advised for a remaining resource. It returns false for other advice.
	follow func(advice string) bool
}

const hello = `apiVersion: tradewind/v1
name: hello
tasks:
  hello: {run: 'echo "hello from a machine"', time: 5m, resources: {cpus: 2+}}
`

const waits = `apiVersion: tradewind/v1
name: waits
tasks:
  wait: {run: 'touch MARK; sleep 8', time: 5m, resources: {cpus: 2+}}
`

// runFirstHour does what a user does in a cloud, in the usual order: add, check, first job, interruption, stock-out,
// quota, a killed broker, a week without a broker, and remove. When the user has also followed the printed advice,
// nothing may be left in the account.
func runFirstHour(t *testing.T, s *shell, h *firstHour) {
	before := h.left()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for name, text := range h.files {
		write("catalog/"+name, text)
	}
	mark := filepath.Join(dir, "mark")
	job := write("hello.yaml", hello)

	s.must("tradewind cloud add " + h.cloud + " " + h.add)
	h.checked(t, s)

	address := freeAddress(t)
	flags := "--clouds " + h.cloud + " --catalog " + filepath.Join(dir, "catalog") + " --agents " + buildAgent(t) +
		" --addr " + address + " --public-url http://" + address
	stop := s.up(flags)

	t.Log("first job")
	first := h.succeeds(t, s, s.submits(job, "first"))
	if log := s.must("tradewind logs " + first + " hello"); !strings.Contains(log, "hello from a machine") {
		t.Errorf("log: %q", log)
	}

	if h.interrupt != nil {
		t.Log("first interruption")
		file := write("resumed.yaml", strings.ReplaceAll(strings.Replace(resumed, "memory: 1+, arch: amd64", "market: spot", 1),
			`"$TRADEWIND_TEST_MARK$(basename "$TRADEWIND_MACHINE")"`, mark))
		id := s.submits(file, "interrupted")
		h.until(t, s, id, "it runs", func() bool { return exists(mark) && len(h.running()) == 1 })
		h.interrupt(h.running()[0])
		h.succeeds(t, s, id)
		if log := s.must("tradewind logs " + id + " count --attempt 2"); strings.Contains(log, "from 0") {
			t.Errorf("the second attempt began again: %q", log)
		}
	}

	t.Log("stock-out")
	h.dry(true)
	id := h.succeeds(t, s, s.submits(job, "dry"))
	if story := s.must("tradewind explain " + id); !strings.Contains(story, "capacity") {
		t.Errorf("the story has no stock-out:\n%s", story)
	}
	h.dry(false)

	t.Log("quota")
	h.quota(true)
	id = s.submits(job, "quota")
	h.until(t, s, id, "a launch is refused for the quota", func() bool {
		return strings.Contains(strings.ToLower(s.must("tradewind explain "+id)), "quota")
	})
	h.quota(false)
	h.checked(t, s) // the check ends the blocks of problems that are solved
	h.succeeds(t, s, id)
	stop()

	t.Log("a broker that was killed, and what it left")
	_ = os.Remove(mark)
	cmd := s.killable(flags)
	id = s.submits(write("waits.yaml", strings.Replace(waits, "MARK", mark, 1)), "killed")
	h.until(t, s, id, "it runs", func() bool { return exists(mark) })
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
	if len(h.running()) == 0 {
		t.Error("the killed broker's machine has gone by itself")
	}
	stop = s.up(flags)
	h.succeeds(t, s, id)
	stop()
	if left := h.running(); len(left) > 0 {
		t.Errorf("machines are left: %v", left)
	}

	t.Log("a week later: a machine that no broker has recorded")
	h.loses(t, s, "http://"+address)
	if len(h.running()) == 0 {
		t.Fatal("no machine runs")
	}
	if h.age != nil {
		h.age(week)
	}
	stop = s.up(flags)
	for deadline := time.Now().Add(3 * time.Minute); len(h.running()) > 0; time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			t.Fatalf("still running: %v", h.running())
		}
	}
	stop()

	// A cloud needs some time to delete a machine, and lists it until then.
	t.Log("remove")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		_, errs, code := s.run("tradewind cloud remove " + h.cloud)
		if code == 0 {
			t.Logf("remove:\n%s", errs)
			h.follows(t, errs, before)
			break
		}
		if !strings.Contains(errs, "still running") || time.Now().After(deadline) {
			t.Fatalf("remove: exit %d\n%s", code, errs)
		}
	}
	if after := h.left(); !slices.Equal(after, before) {
		t.Errorf("left in the account: %v, before: %v", after, before)
	}
}

const week = 7 * 24 * time.Hour

// loses buys a machine with the settings of the state folder, like a broker that dies before it has recorded the
// machine.
func (h *firstHour) loses(t *testing.T, s *shell, endpoint string) {
	t.Helper()
	settings, err := cloudkit.Load(s.stateFolder())
	if err != nil {
		t.Fatal(err)
	}
	deployment, err := host.DeploymentOf(s.stateFolder())
	if err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{}
	for _, kv := range s.env {
		name, value, _ := strings.Cut(kv, "=")
		if environment[name] = value; strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, value) // for the AWS SDK
		}
	}
	i := slices.IndexFunc(kits.All(), func(k cloudkit.Kit) bool { return k.Name == h.cloud })
	opened, err := kits.All()[i].Open(t.Context(), cloudkit.Request{
		Settings: settings[h.cloud], Deployment: deployment, PublicURL: endpoint, Log: slog.New(slog.DiscardHandler),
		Agents: driver.Agents{"amd64": strings.Repeat("0", 64)}, Lookup: func(name string) string { return environment[name] },
	})
	if err != nil {
		t.Fatal(err)
	}
	if h.strand != nil {
		h.strand()
	}
	if _, err := opened.Cloud.Launch(t.Context(), cloud.LaunchSpec{
		Cluster: "lost", Nodes: 1, Offer: h.offer, Bootstrap: cloud.Bootstrap{Endpoint: endpoint, Tokens: []string{"token"}},
	}); err != nil {
		t.Fatal(err)
	}
}

// follows follows the advice about each remaining resource, except those that the user had before.
func (h *firstHour) follows(t *testing.T, printed string, before []string) {
	t.Helper()
	for line := range strings.Lines(printed) {
		what, advice, stays := strings.Cut(strings.TrimSpace(line), ": stays, as ")
		if stays && !slices.Contains(before, what) && (h.follow == nil || !h.follow(advice)) {
			t.Errorf("%s stays, as %s", what, advice)
		}
	}
}

// between returns the text between two others in advice that leaves the decision to the user. It returns "" for other
// advice.
func between(advice, from, to string) string {
	text, is := strings.CutPrefix(advice, "others may use it; if none does: "+from)
	text, ends := strings.CutSuffix(text, to)
	if !is || !ends {
		return ""
	}
	return text
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// checked runs `cloud check`, which must find no problem that prevents buying.
func (h *firstHour) checked(t *testing.T, s *shell) {
	t.Helper()
	var check struct {
		Clouds []struct {
			Name    string
			Missing []struct {
				What, Mend string
				Fatal      bool
			}
		}
	}
	if err := json.Unmarshal([]byte(s.must("tradewind cloud check "+h.cloud+" -o json")), &check); err != nil {
		t.Fatal(err)
	}
	for _, c := range check.Clouds {
		for _, m := range c.Missing {
			if m.Fatal || m.Mend == "" && !strings.Contains(m.What, "unknown") { // an emulator does not have every call
				t.Errorf("%s: %s; %s", c.Name, m.What, m.Mend)
			}
		}
	}
}

// submits submits a file and returns the job.
func (s *shell) submits(file, key string) string {
	s.t.Helper()
	return strings.TrimSpace(s.must("tradewind submit " + file + " --yes --key " + key))
}

// succeeds waits for a job, which must succeed, and returns its details.
func (h *firstHour) succeeds(t *testing.T, s *shell, id string) string {
	t.Helper()
	if _, errs, code := s.run("tradewind status -w " + id); code != 0 {
		t.Fatalf("exit %d\n%s\n%s", code, errs, s.must("tradewind explain "+id))
	}
	return id
}

// until waits until is returns true, while a job runs.
func (h *firstHour) until(t *testing.T, s *shell, id, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s\n%s", what, s.must("tradewind explain "+id))
		}
	}
}

// ids returns the sorted names in a set, for comparisons.
func ids(all map[string]bool) (names []string) {
	for name, is := range all {
		if is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// table returns a file of a catalogue.
func table(lines ...string) string {
	return fmt.Sprintln("InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,Region,AvailabilityZone,Price,SpotPrice") +
		strings.Join(lines, "\n") + "\n"
}

// TestFirstHour rehearses a user's first hour with each cloud. `make rehearse-first-hour` runs it.
func TestFirstHour(t *testing.T) {
	if !*rehearseFirstHour {
		t.Skip("make rehearse-first-hour runs it")
	}
	built := build(t)
	for name, test := range map[string]func(*testing.T, *shell){
		"aws": testFirstHourAWS, "gcp": testFirstHourGoogle, "azure": testFirstHourAzure, "lambda": testFirstHourLambda,
	} {
		t.Run(name, func(t *testing.T) {
			apart := built.copy(t)
			test(t, apart.in(t))
			apart.mustBeGone(t)
		})
	}
}
