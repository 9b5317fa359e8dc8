package attempt

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Scope returns which of the named objects a node of an attempt may access. The node may read its task's inputs and
// work directory, its parents' outputs, and the checkpoint from which it resumes. It may write its own outputs and
// checkpoints, and the other destinations of its task's outputs. Scope loads only the parents whose outputs are
// named, because a task may have ten thousand parents.
func Scope(u recordcache.Reader, cfg config.Config, job record.Job, cl record.Cluster, rank int,
	named []string) (s grant.Scope, err error) {
	spec, err := SpecOf(u, job, cl)
	if err != nil {
		return s, err
	}
	t := &spec.Tasks[cl.Task]
	in := func(store, prefix string) string { // prefixes in records begin with the job's ID
		uri, _ := grant.Below(store, prefix) // these names have been checked
		return uri
	}
	stores := cfg.StoreURLs()
	for _, prefix := range cfg.Private {
		for _, store := range stores {
			s.Never = append(s.Never, in(store, prefix))
		}
	}
	inStore := func(prefix string) string { return cfg.At(cl.Keeps(prefix)) }
	packs := in(cfg.StoreURL, pack.Prefix)
	mine := taskPrefix(job.ID, t.Name)
	s.Write = append(s.Write, inStore(path.Join(wire.OutputPrefix(mine, cl.ID), strconv.Itoa(rank))+"/"))
	if t.Checkpoint != nil && rank == 0 {
		for _, prefix := range ownCheckpoints(mine, cl.ID, inStore(mine+"/ckpt/"), named) {
			s.Write = append(s.Write, inStore(prefix))
		}
	}
	if t.StandIn() {
		return s, nil // its files are only sizes
	}
	brought := append([]string{t.Workdir}, uris(t.Inputs)...)
	s.Write = append(s.Write, writableInputs(t.Inputs, packs)...)
	s.Read = append(s.Read, brought...)
	if slices.ContainsFunc(brought, pack.IsURI) {
		s.Read = append(s.Read, namedPieces(packs, named)...)
	}
	for _, out := range t.Outputs {
		switch below, err := grant.Below(out.URI, strconv.Itoa(rank)+"/"); {
		case err != nil: // no URI, or a path on the machine
		case strings.HasPrefix(below, packs): // uploads of other users
		case len(cl.Nodes) > 1:
			s.Write = append(s.Write, below)
		default:
			s.Write = append(s.Write, out.URI)
		}
	}
	parents, err := namedParents(u, job, spec, cl.Task, stores, named)
	for _, parent := range parents {
		if parent.Output != "" {
			s.Read = append(s.Read, cfg.At(parent.Output))
		}
	}
	if err != nil || !t.Resumes() {
		return s, err
	}
	made, _, err := recordcache.Get[apitypes.Attempt](u, record.AttemptKey(cl.Job, cl.Task, cl.Attempt))
	from := cfg.At(made.ResumedFrom)
	saved := func(store string) bool { return strings.HasPrefix(from, in(store, mine+"/ckpt/")) }
	if slices.ContainsFunc(stores, saved) {
		s.Read = append(s.Read, from) // checked here, because an agent reported this location
	}
	return s, err
}

func uris(inputs []dag.Input) []string {
	out := make([]string, 0, len(inputs))
	for _, in := range inputs {
		if out = append(out, in.URI); in.Source != "" {
			out = append(out, in.Source)
		}
	}
	return out
}

// writableInputs returns the inputs to which a task writes, except inputs in the store of packs.
func writableInputs(inputs []dag.Input, packs string) (out []string) {
	for _, in := range inputs {
		if (in.Mount.Writes() || in.Source != "") && !overlap(in.URI, packs) {
			out = append(out, in.URI)
		}
	}
	return out
}

// overlap reports whether two URIs are equal, or one is below the other.
func overlap(a, b string) bool {
	a, errA := grant.AsPrefix(a)
	b, errB := grant.AsPrefix(b)
	return errA == nil && errB == nil && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a))
}

// CheckLoan fails with grant.ErrOutside unless the task mounts the loan's prefix. If the loan is for writing, the
// task must mount it for writing.
func CheckLoan(t *dag.Task, l grant.Loan) error {
	asked, _ := grant.AsPrefix(l.Prefix) // "" if it is not a prefix
	for _, in := range t.Inputs {
		prefix, err := grant.AsPrefix(in.URI)
		if in.Mount != dag.Copied && err == nil && prefix == asked && (!l.Write || in.Mount.Writes()) && !t.StandIn() {
			return nil
		}
	}
	return fmt.Errorf("%w: the task does not mount %s like this", grant.ErrOutside, l.Prefix)
}

// namedPieces returns those of the named objects that are lists and pieces of packs. Only a list shows which pieces
// belong to a pack, so all pieces are allowed. This is safe: digests cannot be listed, and only a user with the
// content, or with a list that names it, knows its digest.
func namedPieces(packs string, named []string) (out []string) {
	for _, uri := range named {
		if rest, ok := strings.CutPrefix(uri, packs); ok && pack.Digest(rest).Sum() != nil {
			out = append(out, uri)
		}
	}
	return out
}

// ownCheckpoints returns the prefixes of an attempt's checkpoints that are named. The names contain the checkpoints'
// numbers.
func ownCheckpoints(task, attempt, below string, named []string) (prefixes []string) {
	known := map[string]bool{}
	for _, uri := range named {
		rest, ok := strings.CutPrefix(uri, below)
		name, _, _ := strings.Cut(rest, "/")
		number, _, _ := strings.Cut(name, "-")
		seq, err := strconv.Atoi(number)
		if !ok || err != nil || seq < 1 || known[name] {
			continue
		}
		known[name] = true
		prefixes = append(prefixes, wire.CheckpointPrefix(task, attempt, seq))
	}
	return prefixes
}

// namedParents loads the parents whose outputs are named, if the task reads outputs of its parents.
func namedParents(u recordcache.Reader, job record.Job, spec *dag.Job, task int, stores,
	named []string) ([]record.Task, error) {
	byName := map[string]int32{}
	for _, k := range spec.EdgesTo(task) {
		if e := &spec.Edges[k]; e.Outputs == nil || len(e.Outputs) > 0 {
			byName[folderOf(spec.Tasks[e.From].Name)] = int32(e.From) //nolint:gosec // a task of the job
		}
	}
	var wanted []int32
	jobs := append([]string{job.ID}, job.From...)
	for _, uri := range named {
		for _, store := range stores {
			rest, ok := strings.CutPrefix(uri, strings.TrimSuffix(store, "/")+"/")
			id, rest, _ := strings.Cut(rest, "/")
			name, _, _ := strings.Cut(rest, "/")
			if p, parent := byName[name]; ok && parent && slices.Contains(jobs, id) {
				delete(byName, name) // once
				wanted = append(wanted, p)
			}
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	return LoadTasks(u, job, wanted)
}

// Checkpoints returns the prefixes of the checkpoints of a cluster's task: those that it saves, and the one from
// which it has resumed.
func Checkpoints(u recordcache.Reader, cfg config.Config, job record.Job, cl record.Cluster, resumed string) ([]string,
	error) {
	spec, err := SpecOf(u, job, cl)
	if err != nil {
		return nil, err
	}
	dir := taskPrefix(job.ID, spec.Tasks[cl.Task].Name) + "/ckpt/"
	below := []string{cfg.At(cl.Keeps(dir))}
	from := cfg.At(resumed)
	for _, store := range cfg.StoreURLs() {
		before, err := grant.Below(store, dir)
		if err != nil {
			return nil, err
		}
		if resumed != "" && before != below[0] && strings.HasPrefix(from, before) {
			below = append(below, before)
		}
	}
	return below, nil
}
