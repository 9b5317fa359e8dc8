package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"

	"github.com/tradewind-broker/tradewind/internal/benchreport"
)

// windtunnel simulates the paper's load phases with every policy, on one core, and compares the policies in the third
// phase, at 95% load.
func windtunnel(ctx context.Context) ([]benchreport.Row, error) {
	const command = "GOMAXPROCS=1 bin/tradewind-lab windtunnel --policy all"
	cmd := exec.CommandContext(ctx, "bin/tradewind-lab", "windtunnel", "--policy", "all", "-o", "json")
	cmd.Env, cmd.Stderr = append(os.Environ(), "GOMAXPROCS=1"), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	type phase struct {
		Load      float64
		Delay     float64 `json:"delaySeconds"`
		Quality   float64
		Conflicts int
		Expected  float64 `json:"expectedConflicts"`
	}
	var found struct {
		Runs []struct {
			Policy string
			Phases []phase
			Speed  float64
		}
	}
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, err
	}
	const busiest = 2 // of the phases
	full := found.Runs[len(found.Runs)-1]
	var rows []benchreport.Row
	for _, r := range found.Runs {
		p, f := r.Phases[busiest], full.Phases[busiest]
		row := benchreport.Row{
			Measure: fmt.Sprintf("%s at %.0f%% load: delay, quality", r.Policy, p.Load), Command: command,
			Result: fmt.Sprintf("%.3f s, %.3f; %.0f times as fast as real time", p.Delay, p.Quality, r.Speed),
		}
		if r.Policy == "parsync" {
			row.Target = "a fifth of statesync's delay, quality within 1%, real time"
			row.Result += fmt.Sprintf("; %.3f of statesync's delay, quality %+.2f%%", p.Delay/f.Delay,
				100*(p.Quality/f.Quality-1))
		}
		rows = append(rows, row)
	}
	worst := 0.0
	for _, p := range full.Phases {
		if off := p.Expected/float64(p.Conflicts) - 1; max(off, -off) > max(worst, -worst) {
			worst = off
		}
	}
	return append(rows, benchreport.Row{
		Measure: "conflicts according to the model of " + full.Policy + ", compared with simulated ones", Target: "10%",
		Result: fmt.Sprintf("%+.1f%% in the phase with the largest error", 100*worst), Command: command,
	}), nil
}
