package kubernetes

import (
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/kubernetes/podtext"
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
		"completions":          count(r, 1, dag.MaxTasks, func(b *batch) *int { return &b.completions }),
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
		with(ignored[*batch](r, notActedOn, "podFailurePolicy", "managedBy", "scheduling", "maxFailedIndexes")).
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

// batchJob reads a Job of batch/v1. Each of its pods becomes a separate task, unless they can find each other by
// name: then they are the nodes of one task.
func (r *reader) batchJob(d *document) ([]*group, error) {
	b, err := r.batchSpec(d.spec, false)
	if err != nil {
		return nil, err
	}
	meet := b.indexed && b.pod.subdomain != "" && b.parallelism >= b.completions && b.completions > 1
	p := &role{
		name: d.name, called: d.name, pods: b.completions, pod: b.pod, retries: b.backoff, at: b.template, path: b.path,
	}
	if b.indexed {
		p.env = []podtext.Variable{{Name: "JOB_COMPLETION_INDEX", Value: podtext.Value{{Fact: podtext.Index}}}}
	}
	if b.parallelism > 0 && b.parallelism < b.completions {
		field, why := "completions", "pods do not run one after the other"
		if b.sideBySide {
			field, why = "parallelism", "is not acted on"
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
	one := &role{name: d.name, called: d.name, pods: 1, pod: p, at: d.spec, path: p.path}
	if p.restart == "OnFailure" {
		one.retries = backoffLimit // as often as a Job; in a cluster it has no limit
	}
	if in, err := r.inPodGroup(d, one); in || err != nil {
		return nil, err // added with the other pods of its PodGroup
	}
	return []*group{{name: d.name, roles: []*role{one}, independent: true, at: d.spec, path: p.path}}, nil
}
