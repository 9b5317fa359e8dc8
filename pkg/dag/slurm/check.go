package slurm

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
)

// A script is checked before it runs. So the checks can only search its text for commands that would have another
// result here. They also find text that only looks like such a command, for example in a here-document. The user can
// then rename it.

var (
	comment  = regexp.MustCompile(`(?m)^[ \t]*#.*$`)
	step     = regexp.MustCompile(`(?m)` + begin + `srun\b([^\n;&|]*)`)
	modules  = regexp.MustCompile(`(?m)` + begin + `(module|ml)[ \t]+[-+a-zA-Z]`)
	late     = regexp.MustCompile(`(?m)^#SBATCH[ \t]+-`)
	anyOwn   = regexp.MustCompile(`\bSLURM[A-Z]*_[A-Z0-9_]+\b`)
	assigned = regexp.MustCompile(`\b(SLURM[A-Z]*_[A-Z0-9_]+)=`)
)

// programs are Slurm's programs that need its cluster. Of these, the prelude provides only scontrol show hostnames.
var programs = []string{"sbatch", "salloc", "squeue", "sacct", "sacctmgr", "scancel", "sinfo", "sbcast", "sattach",
	"sstat", "sprio", "sshare", "sreport", "strigger", "sgather", "scontrol"}

// command matches one of the programs at the beginning of a command.
var command = regexp.MustCompile(`(?m)` + begin + `(` + strings.Join(programs, "|") +
	`)(?:[ \t]+([^\n;&|]*))?(?:[\n;&|)]|$)`)

// begin matches what comes before a command.
const begin = `(?:^|[;&|({!\x60]|\b(?:then|do|else|elif|if|while|until|time|exec))[ \t]*`

// withoutComments replaces comments with spaces, so that positions stay.
func withoutComments(script string) string {
	return comment.ReplaceAllStringFunc(script, func(s string) string { return strings.Repeat(" ", len(s)) })
}

// checkSteps refuses the uses of srun that are not supported, and warns about options that have no effect.
func (r *reader) checkSteps(script string) error {
	var all fault.Faults
	a := r.requirements
	nodes, err := a.spread()
	if err != nil {
		return nil //nolint:nilerr // build returns it
	}
	joined := strings.ReplaceAll(withoutComments(script), "\\\n", "  ") // of the same length, which keeps positions
	for _, m := range step.FindAllStringSubmatchIndex(joined, -1) {
		words := shellWords(joined[m[2]:m[3]])
		at := fault.PositionIn([]byte(script), m[2])
		for _, arg := range stepArguments(words) {
			all.Add(fault.At(at, fault.Within("srun", arg.refusal(a.devices(nodes), nodes))))
			if name := "srun --" + arg.option.name; arg.option.effect != "" && !r.warned[name] {
				r.warned[name] = true
				r.job.Warn(at, name, "is ignored: "+arg.option.effect)
			}
		}
		if slices.Contains(words, ":") {
			all.Add(fault.At(at, fault.Within("srun", fault.New("has several parts, with :, which start together",
				"write a gang of roles, one for each part"))))
		}
	}
	return all.Err()
}

// warnPrograms warns about each program of Slurm's cluster that the script runs, once.
func (r *reader) warnPrograms(script, text string) {
	if !slices.ContainsFunc(programs, func(name string) bool { return strings.Contains(text, name) }) {
		return // which saves most of the time for a long script
	}
	for _, m := range command.FindAllStringSubmatchIndex(text, -1) {
		name, args := text[m[2]:m[3]], ""
		if m[4] >= 0 {
			args = strings.Join(strings.Fields(text[m[4]:m[5]]), " ")
		}
		if r.warned[name] || name == "scontrol" && strings.HasPrefix(args, "show host") {
			continue
		}
		r.warned[name] = true
		why := "is a program of Slurm's cluster, which does not exist where the script runs"
		if name == "scontrol" {
			why = "has only show hostnames where the script runs"
		}
		r.job.Warn(fault.PositionIn([]byte(script), m[2]), name, why)
	}
}

// warnMissing warns about things that the script uses but that do not exist here: modules, and variables that only
// Slurm sets.
func (r *reader) warnMissing(script string, nodes int) {
	text := withoutComments(script)
	if m := modules.FindStringSubmatchIndex(text); m != nil {
		r.job.Warn(fault.PositionIn([]byte(script), m[2]), "module",
			"loads modules of a cluster, which are not on a machine: install them in the image, or name one with "+
				"--container-image")
	}
	r.warnPrograms(script, text)
	if lines := strings.SplitAfter(script, "\n"); len(lines) > int(r.pos.Line) {
		after := len(strings.Join(lines[:r.pos.Line], ""))
		if m := late.FindStringIndex(script[after:]); m != nil {
			r.job.Warn(fault.PositionIn([]byte(script), after+m[0]), "",
				"is ignored, as in Slurm: options must be before the first command")
		}
	}
	set := prelude(&r.requirements, "job", nodes, "")
	known := map[string]bool{}
	for _, m := range anyOwn.FindAllString(set, -1) {
		known[m] = true
	}
	for _, m := range assigned.FindAllStringSubmatch(text, -1) {
		known[m[1]] = true
	}
	for name := range r.requirements.env {
		known[name] = true
	}
	if r.requirements.array != nil {
		for _, name := range []string{"ID", "COUNT", "MIN", "MAX", "STEP"} {
			known["SLURM_ARRAY_TASK_"+name] = true
		}
	}
	for _, m := range anyOwn.FindAllStringIndex(text, -1) {
		name := text[m[0]:m[1]]
		if known[name] || strings.HasSuffix(name, "_") {
			continue
		}
		known[name] = true
		r.job.Warn(fault.PositionIn([]byte(script), m[0]), name,
			"is used by the script, but Tradewind does not set it")
	}
}
