package slurm

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/fault"

	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// warning is the signal that a script gets before its time limit. An empty name means no signal.
type warning struct {
	name   string // USR1, or a number
	before time.Duration
	batch  bool // the script itself gets it, not its steps
}

// signalName is the name of a signal, as sbatch knows it, or the number of any.
var signalName = regexp.MustCompile(`^(HUP|INT|QUIT|ABRT|KILL|ALRM|TERM|USR1|USR2|URG|CONT|STOP|TSTP|TTIN|TTOU|XCPU|` +
	`[1-9]|[1-5][0-9]|6[0-4])$`)

// readSignal reads [{R|B}:]SIGNAL[@SECONDS].
func readSignal(r *reader, s string) error {
	w := warning{before: time.Minute}
	flags, name, flagged := strings.Cut(s, ":")
	if !flagged {
		flags, name = "", s
	}
	name, seconds, timed := strings.Cut(name, "@")
	if timed {
		n, err := jobtext.ParseInt(seconds, 0, 65535)
		if err != nil {
			return err
		}
		w.before = time.Duration(n) * time.Second
	}
	w.name = strings.TrimPrefix(strings.ToUpper(name), "SIG")
	w.batch = strings.ContainsAny(flags, "Bb")
	if !signalName.MatchString(w.name) || strings.Trim(flags, "RBrb") != "" {
		return fault.New(fault.Quote(s)+" is not a signal", "as in B:USR1@120")
	}
	r.requirements.signal, r.requirements.signalAt = w, r.pos
	return nil
}

// warnOfSignal warns if the signal will not be sent.
func (r *reader) warnOfSignal(script string) {
	a := &r.requirements
	switch w := a.signal; {
	case w.name == "":
	case a.time == 0:
		r.job.Warn(a.signalAt, "--signal", "without a time limit (-t) the signal is never sent")
	case !w.batch && !maySrun.MatchString(script) && !mayRead.MatchString(script):
		r.job.Warn(a.signalAt, "--signal", fmt.Sprintf("only programs that srun starts get the signal, and this "+
			"script calls no srun; write B:%s@%.0f, and the script itself gets it", w.name, w.before.Seconds()))
	}
}

// shell returns the shell code that sends the signal before the time limit, to the script or, by srun, to the
// programs of its steps. The process that sends it is not a child of the script's shell, so the script never waits
// for it.
func (w warning) shell(limit time.Duration) string {
	wait := max(limit-w.before, 0).Seconds()
	switch {
	case w.name == "" || limit == 0:
		return ""
	case w.batch:
		return fmt.Sprintf("( { sleep %.0f; kill -s %s $$; } </dev/null >/dev/null 2>&1 & )\n", wait, w.name)
	default:
		return fmt.Sprintf("export _SLURM_SIGNAL=%s _SLURM_SIGNAL_AT=$(( $(date +%%s) + %.0f ))\n", w.name, wait)
	}
}
