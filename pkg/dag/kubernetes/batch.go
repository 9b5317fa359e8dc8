package kubernetes

import (
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/podtext"
)

// backoffLimit is the default number of retries of a Job.
const backoffLimit = 6

// batch is the spec of a Job of batch/v1.
type batch struct {
	parallelism, completions, backoff, perIndex int
	indexed                                     bool
	sideBySide                                  bool // parallelism is set
	template                                    *yaml.Node
	pod                                         *pod
	path                                        string
	timeout                                     time.Duration // 0 is none
	on                                          []dag.Reaction
}

// batchSpec reads the spec of a Job. indexed is the default completion mode.
func (r *reader) batchSpec(n *yaml.Node, indexed bool) (*batch, error) {
	b := &batch{parallelism: 1, completions: -1, backoff: backoffLimit, perIndex: -1, indexed: indexed, path: r.where()}
	number := func(to func(*batch) *int) func(*batch, *yaml.Node) error { return count(r, 0, 1<<30, to) }
	known := fields[*batch]{
		"parallelism": count(r, 1, maxPods, func(b *batch) *int {
			b.sideBySide = true
			return &b.parallelism
		}),
		"completions":          count(r, 1, jobtext.MaxTasks, func(b *batch) *int { return &b.completions }),
		"backoffLimit":         number(func(b *batch) *int { return &b.backoff }),
		"backoffLimitPerIndex": number(func(b *batch) *int { return &b.perIndex }),
		"completionMode": func(b *batch, n *yaml.Node) error {
			s, err := r.Text(n)
			b.indexed = s == "Indexed"
			if err == nil {
				err = fault.CheckWord("completion mode", s, "NonIndexed", "Indexed")
			}
			return err
		},
		"suspend": suspended[*batch](r),
		"activeDeadlineSeconds": func(b *batch, n *yaml.Node) (err error) {
			b.timeout, err = r.seconds(n)
			return err
		},
		"template": func(b *batch, n *yaml.Node) (err error) {
			b.template = n
			b.pod, err = r.template(n)
			return err
		},
	}
	known.with(silentlyIgnored[*batch]("ttlSecondsAfterFinished", "selector", "manualSelector",
		"podReplacementPolicy")).
		with(fields[*batch]{"podFailurePolicy": r.podFailurePolicy}).
		with(ignored[*batch](r, notActedOn, "managedBy", "scheduling", "maxFailedIndexes")).
		with(unsupported[*batch](r, "ends the job when some of its indexes have ended, which is not supported",
			"leave it out: the job ends with all of them", "successPolicy"))
	if err := readInto(r, n, known, b); err != nil {
		return nil, err
	}
	if b.template == nil {
		return nil, r.missing(n, "template", "add the template of its pods")
	}
	b.pod.limit(b.timeout)
	if b.perIndex >= 0 {
		b.backoff = b.perIndex
	}
	if b.completions < 0 {
		b.completions = b.parallelism
	}
	return b, nil
}

// podFailurePolicy reads the rules that choose the reaction to a failure by its exit code.
func (r *reader) podFailurePolicy(b *batch, n *yaml.Node) error {
	return readInto(r, n, fields[*batch]{
		"rules": func(b *batch, n *yaml.Node) error {
			return r.list(n, func(_ int, n *yaml.Node) error { return r.failureRule(b, n) })
		},
	}, b)
}

// failureRule reads one rule. Interruptions of machines are never counted here, so a rule that ignores them has no
// effect.
func (r *reader) failureRule(b *batch, n *yaml.Node) error {
	action, operator, conditions := "", "", false
	x := dag.Reaction{Event: dag.PodFailed}
	err := readInto(r, n, fields[*batch]{
		"action": func(_ *batch, n *yaml.Node) (err error) {
			if action, err = r.Text(n); err == nil {
				err = fault.CheckWord("action", action, "FailJob", "FailIndex", "Ignore", "Count")
			}
			return err
		},
		"onExitCodes": func(b *batch, n *yaml.Node) error {
			return readInto(r, n, fields[*batch]{
				"operator": func(_ *batch, n *yaml.Node) (err error) { operator, err = r.Text(n); return err },
				"values": func(b *batch, n *yaml.Node) error {
					return r.list(n, func(_ int, n *yaml.Node) error {
						code := 0
						err := count(r, 1, 255, func(*batch) *int { return &code })(b, n)
						x.ExitCodes = append(x.ExitCodes, code)
						return err
					})
				},
			}.with(silentlyIgnored[*batch]("containerName")), b)
		},
		"onPodConditions": func(*batch, *yaml.Node) error { conditions = true; return nil },
	}, b)
	switch {
	case err != nil:
		return err
	case conditions && (action == "Ignore" || action == "Count"):
		return nil
	case conditions || action == "FailIndex":
		return r.Fault(n, action+" by conditions of pods, or of one index, is not supported",
			"a rule may have onExitCodes with FailJob, Ignore or Count")
	case operator != "In":
		return r.Fault(n, "only the operator In is supported", "name the exit codes")
	case action == "FailJob":
		x.Action = dag.Abort
	case action == "Ignore": // tried again, but not counted
		x.Action, x.Limit = dag.RestartGang, jobtext.MaxRetries
	default:
		x.Action = dag.RestartGang
	}
	b.on = append(b.on, x)
	return nil
}

// batchJob reads a Job of batch/v1. Each of its pods becomes a separate task, unless they can find each other by
// name: then they are the nodes of one task.
func (r *reader) batchJob(d *document) ([]*group, error) {
	b, err := r.batchSpec(d.spec, false)
	if err != nil {
		return nil, err
	}
	meet := b.indexed && b.pod.subdomain != "" && b.parallelism >= b.completions && b.completions > 1
	p := &role{
		name: d.name, called: d.name, pods: b.completions, pod: b.pod, retries: b.backoff, on: b.on, at: b.template,
		path: b.path,
	}
	if b.indexed {
		p.env = []podtext.Variable{{Name: "JOB_COMPLETION_INDEX", Value: podtext.Value{{Fact: podtext.Index}}}}
	}
	if b.parallelism > 0 && b.parallelism < b.completions {
		field, why := "completions", "pods do not run one after the other"
		if b.sideBySide {
			field, why = "parallelism", "is ignored"
		}
		r.job.Warn(yamlfile.PositionOf(d.spec), fault.Join(r.where(), field),
			why+": as many pods run at a time as there is room for")
	}
	if b.completions == 0 {
		r.job.Warn(yamlfile.PositionOf(d.spec), r.where(), "has no pods")
		p.pods = 0
	}
	g := &group{
		name: d.name, roles: []*role{p}, independent: !meet, domain: b.pod.subdomain, at: d.spec, path: r.where(),
	}
	return []*group{g}, nil
}

// lonePod reads a Pod.
func (r *reader) lonePod(d *document) ([]*group, error) {
	p := &pod{at: d.spec, path: r.where(), meta: d.meta}
	if err := r.podSpec(p, d.spec); err != nil {
		return nil, err
	}
	if p.restart == "" || p.restart == "Always" {
		r.job.Warn(yamlfile.PositionOf(d.spec), fault.Join(r.where(), "restartPolicy"),
			"is Always: the pod ends when its command ends")
	}
	p.limit(r.asks.limit)
	one := &role{name: d.name, called: d.name, pods: 1, pod: p, at: d.spec, path: p.path}
	if p.restart == "OnFailure" {
		one.retries = backoffLimit // as often as a Job; in a cluster it has no limit
	}
	if in, err := r.inPodGroup(d, one); in || err != nil {
		return nil, err // added with the other pods of its PodGroup
	}
	return []*group{{name: d.name, roles: []*role{one}, independent: true, at: d.spec, path: p.path}}, nil
}
