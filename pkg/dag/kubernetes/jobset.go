package kubernetes

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/podtext"
)

// jobSet is the spec of a JobSet (jobset.x-k8s.io): jobs that start together or one after the other.
type jobSet struct {
	name      string
	roles     []*setRole
	subdomain string
	hostnames bool
	ordered   *yaml.Node // roles start one after another
	targets   []string   // the JobSet succeeds when these have succeeded; nil is all
	any       bool       // one of them is enough
	success   *yaml.Node
	restarts  int
	fails     bool // a failed job fails the set, which is not restarted
}

// setRole is a replicated job.
type setRole struct {
	role
	replicas int
	batch    *batch
	done     []string // replicated jobs that must have ended first
	ready    []string // replicated jobs that must have started first
	at       *yaml.Node
}

func (r *reader) jobSet(d *document) ([]*group, error) {
	s, err := r.jobSetSpec(d.spec, d.name)
	if err != nil {
		return nil, err
	}
	return r.setGroups(s, d.spec)
}

func (r *reader) jobSetSpec(n *yaml.Node, name string) (*jobSet, error) {
	s := &jobSet{name: name, hostnames: true, subdomain: name}
	known := fields[*jobSet]{
		"replicatedJobs": func(s *jobSet, n *yaml.Node) error {
			return r.list(n, func(_ int, n *yaml.Node) error {
				p, err := r.replicatedJob(n)
				s.roles = append(s.roles, p)
				return err
			})
		},
		"network": func(s *jobSet, n *yaml.Node) error {
			return readInto(r, n, fields[*jobSet]{
				"enableDNSHostnames": truth(r, func(s *jobSet) *bool { return &s.hostnames }),
				"subdomain":          text(r, func(s *jobSet) *string { return &s.subdomain }),
			}.with(silentlyIgnored[*jobSet]("publishNotReadyAddresses")), s)
		},
		"startupPolicy": func(s *jobSet, n *yaml.Node) error {
			return readInto(r, n, fields[*jobSet]{
				"startupPolicyOrder": func(s *jobSet, n *yaml.Node) error {
					order, err := r.Text(n)
					if order == "InOrder" {
						s.ordered = n
						r.warn(n, "is ignored: jobs that do not wait for the end of another start together")
					}
					if err == nil {
						err = fault.CheckWord("order", order, "AnyOrder", "InOrder")
					}
					return err
				},
			}, s)
		},
		"successPolicy": func(s *jobSet, n *yaml.Node) error {
			s.success = n
			return readInto(r, n, fields[*jobSet]{
				"operator": func(s *jobSet, n *yaml.Node) error {
					op, err := r.Text(n)
					s.any = op == "Any"
					if err == nil {
						err = fault.CheckWord("operator", op, "All", "Any")
					}
					return err
				},
				"targetReplicatedJobs": func(s *jobSet, n *yaml.Node) (err error) {
					s.targets, err = r.words(n)
					return err
				},
			}, s)
		},
		"failurePolicy": func(s *jobSet, n *yaml.Node) error {
			return readInto(r, n, fields[*jobSet]{
				"maxRestarts": count(r, 0, 1<<30, func(s *jobSet) *int { return &s.restarts }),
				"rules": func(s *jobSet, n *yaml.Node) error {
					return r.list(n, func(_ int, n *yaml.Node) error { return r.setRule(s, n) })
				},
			}.with(silentlyIgnored[*jobSet]("restartStrategy")), s)
		},
		"suspend": suspended[*jobSet](r),
	}
	known.with(silentlyIgnored[*jobSet]("ttlSecondsAfterFinished", "coordinator")).
		with(ignored[*jobSet](r, notActedOn, "managedBy", "workloadAwareScheduling", "scheduling")).
		with(unsupported[*jobSet](r, "makes volume claims, which exist only in a cluster",
			"keep the data in a bucket, and name it as inputs of the converted job", "volumeClaimPolicies"))
	if err := readInto(r, n, known, s); err != nil {
		return nil, err
	}
	if len(s.roles) == 0 {
		return nil, r.missing(n, "replicatedJobs", "add its jobs")
	}
	return s, nil
}

// setRule reads the reaction to the failure of a job of a JobSet. By default the whole set restarts.
func (r *reader) setRule(s *jobSet, n *yaml.Node) error {
	action, limited := "", false
	limits := func(*jobSet, *yaml.Node) error { limited = true; return nil }
	err := readInto(r, n, fields[*jobSet]{
		"action": func(_ *jobSet, n *yaml.Node) (err error) {
			if action, err = r.Text(n); err == nil {
				err = fault.CheckWord("action", action, "FailJobSet", "RestartJobSet",
					"RestartJobSetAndIgnoreMaxRestarts", "RestartJob", "RestartJobAndIgnoreMaxRestarts")
			}
			return err
		},
		"targetReplicatedJobs": limits, "onJobFailureReasons": limits, "onJobFailureMessagePatterns": limits,
	}.with(silentlyIgnored[*jobSet]("name")), s)
	switch {
	case err != nil:
	case action == "FailJobSet" && limited:
		return r.Fault(n, "FailJobSet for some jobs or reasons only is not supported",
			"use podFailurePolicy of the job, with exit codes")
	case action == "FailJobSet":
		s.fails = true
	case action != "RestartJobSet":
		r.warn(n, notActedOn)
	}
	return err
}

func (r *reader) replicatedJob(n *yaml.Node) (*setRole, error) {
	p := &setRole{replicas: 1, at: n}
	known := fields[*setRole]{
		"name":     text(r, func(p *setRole) *string { return &p.name }),
		"replicas": count(r, 1, maxPods, func(p *setRole) *int { return &p.replicas }),
		"dependsOn": func(p *setRole, n *yaml.Node) error {
			return r.list(n, func(_ int, n *yaml.Node) error {
				name, status := "", "Complete"
				err := readInto(r, n, fields[*setRole]{
					"name":   func(_ *setRole, n *yaml.Node) (err error) { name, err = r.Text(n); return err },
					"status": func(_ *setRole, n *yaml.Node) (err error) { status, err = r.Text(n); return err },
				}, p)
				switch {
				case err != nil:
					return err
				case status == "Complete":
					p.done = append(p.done, name)
				case status == "Ready":
					p.ready = append(p.ready, name)
					r.warn(n, "is ignored: both start together")
				default:
					return fault.CheckWord("status", status, "Complete", "Ready")
				}
				return nil
			})
		},
		"template": func(p *setRole, n *yaml.Node) error {
			return readInto(r, n, fields[*setRole]{
				"metadata": func(_ *setRole, n *yaml.Node) error { return r.metadata(&metadata{}, n) },
				"spec": func(p *setRole, n *yaml.Node) (err error) {
					p.batch, err = r.batchSpec(n, true)
					return err
				},
			}, p)
		},
	}
	if err := readInto(r, n, known.with(silentlyIgnored[*setRole]("groupName")), p); err != nil {
		return nil, err
	}
	switch {
	case p.name == "":
		return nil, r.missing(n, "name", "add the name of the replicated job")
	case p.batch == nil:
		return nil, r.missing(n, "template", "add the template of its jobs")
	}
	return p, nil
}

// setGroups puts replicated jobs that start together into groups, in an order in which groups wait only for earlier
// ones.
func (r *reader) setGroups(s *jobSet, n *yaml.Node) ([]*group, error) { //nolint:gocyclo // a line for each field
	index := map[string]int{}
	for i, p := range s.roles {
		if _, twice := index[p.name]; twice {
			return nil, fault.Within("replicatedJobs"+fault.Index(i),
				r.Fault(p.at, "there are two replicated jobs "+fault.Quote(p.name), "rename one"))
		}
		index[p.name] = i
	}
	together := make([]int, len(s.roles)) // by role: the first role of its group
	for i, p := range s.roles {
		together[i] = i
		for _, name := range slices.Concat(p.done, p.ready) {
			if k, ok := index[name]; !ok || k >= i {
				return nil, fault.Within("replicatedJobs"+fault.Index(i), fault.Within(
					"dependsOn",
					r.Fault(
						p.at,
						"there is no replicated job "+fault.Quote(name)+" before this one",
						"name one above",
					),
				))
			}
		}
	}
	first := func(i int) int {
		for together[i] != i {
			together[i] = together[together[i]] // shortens the way for the next call
			i = together[i]
		}
		return i
	}
	join := func(a, b int) {
		a, b = first(a), first(b)
		together[max(a, b)] = min(a, b)
	}
	alike := map[string]int{} // by the condition for which it waits: a role that waits for the end of others only
	for i, p := range s.roles {
		for _, name := range p.ready {
			join(i, index[name])
		}
		if len(p.ready) > 0 {
			continue
		}
		waits := strings.Join(sorted(p.done), "\n")
		if k, ok := alike[waits]; ok {
			join(i, k)
		} else {
			alike[waits] = i
		}
	}
	groups := map[int]*group{}
	waiting := map[[2]*group]bool{}
	var out []*group
	for i, p := range s.roles {
		g := groups[first(i)]
		if g == nil {
			g = &group{name: s.name, jobsInName: true, domain: s.subdomain, at: n, path: r.where()}
			if !s.hostnames {
				g.domain = "-"
			}
			groups[first(i)] = g
			out = append(out, g)
		}
		for _, name := range p.done {
			before := groups[first(index[name])]
			if before == g {
				return nil, fault.Within("replicatedJobs"+fault.Index(i), fault.Within("dependsOn",
					r.Fault(p.at, "waits for the end of "+fault.Quote(name)+", but starts together with it", "")))
			}
			if wait := [2]*group{g, before}; !waiting[wait] {
				waiting[wait] = true
				g.after = append(g.after, before)
			}
		}
		g.roles = append(g.roles, r.setPods(s, p))
	}
	for _, g := range out {
		if len(g.roles) == 1 {
			g.name = g.roles[0].name
		}
		if len(out) == 1 {
			g.name = s.name
		}
	}
	ends, err := r.success(s)
	if len(out) == 1 {
		out[0].ends = ends
	} else if err == nil && len(ends) > 0 {
		err = r.endsEarly(s)
	}
	return out, err
}

func sorted(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// setPods returns the role of a replicated job.
func (r *reader) setPods(s *jobSet, p *setRole) *role {
	b := p.batch
	p.pods, p.perJob, p.pod = p.replicas*b.completions, max(b.completions, 1), b.pod
	restarts := s.restarts
	if s.fails {
		restarts = 0
	}
	p.on = append(p.on, b.on...)
	p.retries = max(b.backoff, restarts)
	if b.backoff == backoffLimit && restarts > 0 {
		p.retries = restarts
	}
	p.called, p.role.at, p.path = s.name+"-"+p.name, b.template, b.path
	p.env = append(p.env, podtext.Variable{Name: "JOB_COMPLETION_INDEX", Value: podtext.Value{{Fact: podtext.Index}}})
	if b.parallelism < b.completions {
		r.job.Warn(
			yamlfile.PositionOf(p.at),
			fault.Join(b.path, "parallelism"),
			"is ignored: all pods start together",
		)
	}
	return &p.role
}

// success returns the replicated jobs whose end ends the JobSet while other jobs run; none if it ends when all have
// ended. It rejects what a gang cannot do: end with several jobs, or with one of several replicas.
func (r *reader) success(s *jobSet) (ends []string, err error) {
	if s.success == nil {
		return nil, nil
	}
	for _, p := range s.roles {
		if s.targets == nil || slices.Contains(s.targets, p.name) {
			ends = append(ends, p.name)
		}
	}
	switch {
	case len(ends) == len(s.roles) && !s.any:
		return nil, nil
	case !s.any && len(ends) > 1:
		return nil, r.endsEarly(s)
	}
	for _, p := range s.roles {
		if s.any && slices.Contains(ends, p.name) && p.replicas > 1 {
			return nil, r.endsEarly(s)
		}
	}
	return ends, nil
}

func (r *reader) endsEarly(s *jobSet) error {
	return fault.Within(
		"successPolicy",
		r.Fault(
			s.success,
			"ends the JobSet when several of its jobs, or one of several replicas, have ended while others "+
				"run, which is not supported",
			"name one replicated job with one replica as its target",
		),
	)
}
