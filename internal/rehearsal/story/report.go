package story

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/rehearsal/account"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/sandbox"
)

// Report has the counts of a rehearsal: the basis for the cost of the control plane.
type Report struct {
	Tasks     int                       `json:"tasks"`
	Requests  []account.Call            `json:"requests"`
	Functions map[string]FunctionReport `json:"functions"`
	// Compared compares the requests of one DAG without failures, of PlainTasks tasks, with the prediction of package
	// cost.
	PlainTasks int        `json:"plainTasks"`
	Compared   []Compared `json:"compared"`
	// Between is the data that moved between regions for the job with a task in another one.
	Between []Between `json:"betweenRegions"`
}

// FunctionReport is the report of one function.
type FunctionReport struct {
	sandbox.Usage
	MemoryMiB int     `json:"memoryMiB"`
	GBSeconds float64 `json:"gbSeconds"`
}

// Report returns the counts so far.
func (s *Story) Report() Report {
	w := s.World
	r := Report{Tasks: storyTasks, Requests: w.Count.Calls(), Functions: map[string]FunctionReport{},
		PlainTasks: plainTasks, Compared: s.compared, Between: s.between}
	for name, f := range w.Functions {
		u := f.Usage()
		r.Functions[name[len(w.Stack.Name)+1:]] = FunctionReport{Usage: u, MemoryMiB: f.Memory,
			GBSeconds: u.GBSeconds(f.Memory)}
	}
	return r
}

// storyTasks is the number of tasks in the story's jobs.
const storyTasks = 5 + 1 + 1 + plainTasks

// Page returns the rehearsal's section of bench/RESULTS.md.
func (s *Story) Page(took time.Duration) string {
	w := s.World
	var b strings.Builder
	machines := w.Hypervisor.Count()
	invocations, errs := 0, 0
	for _, u := range w.Usage() {
		invocations, errs = invocations+u.Invocations, errs+u.Errors
	}
	_, _ = fmt.Fprintf(&b, "`make rehearse RESULTS=bench/RESULTS.md`: the template, the Lambda binaries and the "+
		"agents on emulators, %d steps in %.0f s, the deployment\n"+
		"included; %d machines, %d invocations of %d functions, %d of which failed, %d requests.\n\n",
		len(s.steps()), took.Seconds(), machines, invocations, len(w.Functions), errs, w.Count.Total())
	_, _ = fmt.Fprintf(&b, "AWS requests of a DAG of %d tasks without failures, and the prediction of `tradewind "+
		"cost` for its file. Tasks that end together\n"+
		"are handled in one batch; on two processors they end one after the other. Transactions that "+
		"conflicted are left out: the emulator is slow and serialises them, so it has more.\n\n| | counted | "+
		"predicted |\n"+
		"| --- | ---: | ---: |\n", plainTasks)
	for _, c := range s.compared {
		_, _ = fmt.Fprintf(&b, "| %s, %s | %.0f | %.0f |\n", c.Service, c.Unit, c.Counted, c.Predicted)
	}
	b.WriteString("\nFor a DAG with a task in another region:\n\n")
	for _, x := range s.between {
		_, _ = fmt.Fprintf(&b, "- %s\n", x)
	}
	return b.String()
}

// Summary prints requests by service, and functions.
func (s *Story) Summary(out io.Writer) {
	w := s.World
	services := map[string]int{}
	units := 0.0
	for _, c := range w.Count.Calls() {
		services[c.Service] += c.Count
		units += c.Units
	}
	_, _ = fmt.Fprintf(out, "requests:")
	for _, name := range slices.Sorted(maps.Keys(services)) {
		_, _ = fmt.Fprintf(out, " %s %d", name, services[name])
	}
	launches, injected := w.Proxy.Refused()
	_, _ = fmt.Fprintf(out, "; %.0f table units; %d launches refused, %d calls made to fail, %d functions killed\n",
		units, launches, injected, w.Kills())
	usage := w.Usage()
	for _, name := range slices.Sorted(maps.Keys(usage)) {
		u := usage[name]
		if u.Invocations > 0 {
			_, _ = fmt.Fprintf(out, "  %-22s %4d invocations, %3d errors, %2d starts, %6.2f GB-s, slowest %5.0f ms, "+
				"start %3.0f ms, %3d MiB\n",
				name, u.Invocations, u.Errors, u.Starts, u.GBSeconds(w.Functions[name].Memory),
				float64(u.Slowest)/float64(time.Millisecond),
				float64(u.ColdStart)/float64(time.Millisecond), u.PeakBytes>>20)
		}
	}
}
