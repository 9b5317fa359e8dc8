package rehearsal

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/rehearsal/sandbox"
)

// Report is what a rehearsal counted: the basis of what the control plane costs.
type Report struct {
	Tasks     int                       `json:"tasks"`
	Requests  []Call                    `json:"requests"`
	Functions map[string]FunctionReport `json:"functions"`
}

// FunctionReport is one function's share.
type FunctionReport struct {
	sandbox.Usage
	MemoryMiB int     `json:"memoryMiB"`
	GBSeconds float64 `json:"gbSeconds"`
}

// Report returns what was counted so far.
func (w *World) Report() Report {
	r := Report{Tasks: storyTasks, Requests: w.Count.Calls(), Functions: map[string]FunctionReport{}}
	for name, f := range w.functions {
		u := f.Usage()
		r.Functions[name[len(w.Stack.Name)+1:]] = FunctionReport{Usage: u, MemoryMiB: f.Memory, GBSeconds: u.GBSeconds(f.Memory)}
	}
	return r
}

// storyTasks are the tasks of the story's two jobs.
const storyTasks = 5

// Summary prints requests by service, and functions.
func (w *World) Summary(out io.Writer) {
	services := map[string]int{}
	units := 0.0
	for _, c := range w.Count.Calls() {
		services[c.Service] += c.Count
		units += c.Units
	}
	_, _ = fmt.Fprintf(out, "requests:")
	for _, s := range slices.Sorted(maps.Keys(services)) {
		_, _ = fmt.Fprintf(out, " %s %d", s, services[s])
	}
	launches, injected := w.Proxy.Refused()
	_, _ = fmt.Fprintf(out, "; %.0f table units; %d launches refused, %d calls made to fail, %d functions killed\n", units, launches, injected, w.Kills())
	usage := w.Usage()
	for _, name := range slices.Sorted(maps.Keys(usage)) {
		u := usage[name]
		if u.Invocations > 0 {
			_, _ = fmt.Fprintf(out, "  %-22s %4d invocations, %3d errors, %2d starts, %6.2f GB-s, slowest %5.0f ms, start %3.0f ms, %3d MiB\n",
				name, u.Invocations, u.Errors, u.Starts, u.GBSeconds(w.functions[name].Memory), float64(u.Slowest)/float64(time.Millisecond),
				float64(u.ColdStart)/float64(time.Millisecond), u.PeakBytes>>20)
		}
	}
}

// Aftermath prints what is needed to find out what went wrong.
func (w *World) Aftermath(out io.Writer) {
	paths, _ := filepath.Glob(filepath.Join(w.Dir, "logs", "*.log"))
	for _, p := range paths {
		raw, err := os.ReadFile(p) //nolint:gosec // in the rehearsal's own folder
		if err == nil && len(raw) > 0 {
			_, _ = fmt.Fprintf(out, "--- %s\n%s\n", filepath.Base(p), raw[max(0, len(raw)-1500):])
		}
	}
	_, _ = io.WriteString(out, w.hypervisor.consoles())
}
