package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/agent/peercache"
	"github.com/tradewind-broker/tradewind/internal/agent/stage"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// stageIn stages the data that the task needs to start: its work directory, its inputs, its parents' outputs, and the
// checkpoint from which it resumes.
func (t *attempt) stageIn(ctx context.Context) error {
	defer t.joinExchange(ctx)()
	if t.work.Workdir != "" {
		if err := t.fetch(ctx, t.work.Workdir, t.dirs.work, "."); err != nil {
			return fmt.Errorf("workdir: %w", err)
		}
	}
	for _, in := range t.work.Inputs {
		if err := t.stageInput(ctx, in); err != nil {
			return fmt.Errorf("input: %w", err)
		}
	}
	if err := t.mountAll(ctx); err != nil {
		return fmt.Errorf("input: %w", err)
	}
	if err := t.stageParents(ctx); err != nil {
		return fmt.Errorf("parents' outputs: %w", err)
	}
	return t.restore(ctx)
}

// joinExchange lets the nodes of the attempt pass staged files on to each other. The returned function ends that. If
// this node cannot listen, it reads everything from the store.
func (t *attempt) joinExchange(ctx context.Context) (end func()) {
	resumes := t.work.Checkpoint != nil && t.work.Checkpoint.Restore != ""
	if len(t.work.Nodes) < 2 || len(t.work.Exchange) == 0 || !resumes && len(t.work.Inputs)+len(t.work.Parents) == 0 {
		return func() {}
	}
	e, err := peercache.Join(ctx, peercache.Config{Nodes: t.work.Nodes, Rank: t.claims.Rank, Key: t.work.Exchange})
	if err != nil {
		t.log.Info("reading everything from the store", "attempt", t.work.Attempt, "because", err)
		return func() {}
	}
	t.peers = e
	return func() {
		t.peers = nil
		t.wg.Go(func() { e.Leave(t.unlessOrdered) }) // other nodes may still read while the task begins
	}
}

// transfer returns a Transfer that moves files with the attempt's grants.
func (t *attempt) transfer() stage.Transfer {
	tr := t.cfg.Transfer
	tr.Grants, tr.Store, tr.Batch, tr.Peers = grants{t}, t.work.Store, wire.MaxWants, t.peers
	tr.Moved = t.reports.stores.add
	return tr
}

// inStore returns the URI of a prefix in the attempt's store, with elem appended. If where is already a URI, it is in
// another store and is used as it is.
func (t *attempt) inStore(where string, elem ...string) (string, error) {
	key := path.Join(append([]string{where}, elem...)...) + "/"
	if !strings.Contains(where, "://") {
		return grant.Below(t.work.Store, key)
	}
	if len(elem) == 0 {
		return where, nil // already ends in a slash
	}
	return grant.Below(where, path.Join(elem...)+"/")
}

func (t *attempt) stageInput(ctx context.Context, in wire.Input) error {
	if in.Source != "" {
		if err := t.uploadSource(ctx, in); err != nil {
			return fmt.Errorf("upload to %s: %w", in.URI, err)
		}
	}
	if in.Mount != "" { // mounted later by mountAll, after all copies, so that no copy goes into a mount
		return nil
	}
	dir, dst, err := t.inputPlace(ctx, in)
	if err != nil {
		return err
	}
	return t.fetch(ctx, in.URI, dir, dst)
}

// fetch copies the object or prefix at a URI to dst below dir.
func (t *attempt) fetch(ctx context.Context, uri, dir, dst string) error {
	if pack.IsURI(uri) {
		return t.fetchPack(ctx, uri, dir, dst)
	}
	return t.transfer().Fetch(ctx, uri, dir, dst, t.out.note)
}

// inputPlace returns the directory that an input must stay in, and the input's path in it. That is below the task's
// directory, or below $TRADEWIND_INPUTS under the input's own name if it has no path. On a machine that only this
// task uses, and in the task's container, an input may be anywhere.
func (t *attempt) inputPlace(ctx context.Context, in wire.Input) (dir, dst string, err error) {
	p := in.Path
	if p == "" {
		name := in.URI
		if u, err := url.Parse(in.URI); err == nil && u.Scheme != "" {
			name = u.Path
			if name == "" || name == "/" {
				name = u.Host
			}
		}
		return t.dirs.inputs, path.Base(name), nil
	}
	if t.boxed != nil && (path.IsAbs(p) || strings.HasPrefix(p, "~/")) &&
		!strings.HasPrefix(p, filepath.ToSlash(t.dirs.top)+"/") {
		return t.mountPlace(ctx, p)
	}
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		if t.ownHome() {
			return t.dirs.home, rest, nil
		}
		home := lookup(t.cfg.Environ, "HOME")
		if !t.cfg.Sole || home == "" {
			return "", "", fmt.Errorf("path %q %w", p, stage.ErrLeaves)
		}
		p = home + "/" + rest
	}
	if !path.IsAbs(p) {
		return t.dirs.work, p, nil
	}
	if rest, ok := strings.CutPrefix(p, filepath.ToSlash(t.dirs.work)+"/"); ok {
		return t.dirs.work, rest, nil
	}
	if t.cfg.Sole {
		return "/", strings.TrimPrefix(p, "/"), nil
	}
	return "", "", fmt.Errorf("path %q %w; on a shared machine it must be relative", p, stage.ErrLeaves)
}

func lookup(environ []string, name string) string {
	for _, entry := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// stageParents stages the parents' outputs: to <inputs>/<name>, or to <inputs>/<name>/<rank> for a parent with
// several nodes. It first reads all manifests together, and then the files.
func (t *attempt) stageParents(ctx context.Context) error {
	for _, name := range t.work.EmptyParents {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("path %q %w", name, stage.ErrLeaves)
		}
		if err := os.MkdirAll(filepath.Join(t.dirs.inputs, name), 0o755); err != nil { //nolint:gosec // as a user's own
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.work.ListedParents)) {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("path %q %w", name, stage.ErrLeaves)
		}
		from, err := grant.Below(t.work.ListedParents[name], "0/")
		if err == nil {
			err = t.fetch(ctx, from, t.dirs.inputs, name)
		}
		if err != nil {
			return err
		}
	}
	var trees, more []stage.Tree
	for _, name := range slices.Sorted(maps.Keys(t.work.Parents)) {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("path %q %w", name, stage.ErrLeaves)
		}
		first, err := t.inStore(t.work.Parents[name], "0")
		if err != nil {
			return err
		}
		trees = append(trees, stage.Tree{
			Prefix: first, Dir: filepath.Join(t.dirs.inputs, name), Only: t.work.PartialParents[name],
		})
	}
	if err := t.readManifests(ctx, trees); err != nil {
		return err
	}
	for i, tree := range trees {
		for rank := 1; rank < min(tree.Manifest.Nodes, stage.MaxFiles); rank++ {
			r := strconv.Itoa(rank)
			more = append(more, stage.Tree{
				Prefix: strings.TrimSuffix(tree.Prefix, "0/") + r + "/", Dir: filepath.Join(tree.Dir, r),
				Only: tree.Only,
			})
		}
		if tree.Manifest.Nodes > 1 {
			trees[i].Dir = filepath.Join(tree.Dir, "0")
		}
	}
	if err := t.readManifests(ctx, more); err != nil {
		return err
	}
	for some := range slices.Chunk(append(trees, more...), treesAtOnce) {
		if err := t.transfer().Fill(ctx, some...); err != nil {
			return err
		}
	}
	return nil
}

// treesAtOnce is the maximum number of directories that are open at the same time.
const treesAtOnce = 200

func (t *attempt) readManifests(ctx context.Context, trees []stage.Tree) error {
	prefixes := make([]string, len(trees))
	for i := range trees {
		prefixes[i] = trees[i].Prefix
	}
	manifests, err := t.transfer().ReadManifests(ctx, prefixes...)
	for i := range manifests {
		trees[i].Manifest = manifests[i]
	}
	return err
}

// checkpointDir returns the directory that checkpoints save.
func (t *attempt) checkpointDir() string {
	p := t.work.Checkpoint.Path
	if path.Clean(p) == "." {
		p = "checkpoint"
	}
	return filepath.Join(t.dirs.work, filepath.FromSlash(p))
}

// restore creates the checkpoint directory, and fills it if the assignment names a checkpoint.
func (t *attempt) restore(ctx context.Context) error {
	c := t.work.Checkpoint
	if c == nil {
		return nil
	}
	if c.Path != "" && !filepath.IsLocal(filepath.FromSlash(c.Path)) {
		return fmt.Errorf("checkpoint path %q %w", c.Path, stage.ErrLeaves)
	}
	root, err := os.OpenRoot(t.dirs.work)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // only read
	rel, err := filepath.Rel(t.dirs.work, t.checkpointDir())
	if err != nil {
		return err
	}
	if err := root.MkdirAll(rel, 0o755); err != nil {
		return fmt.Errorf("checkpoint path: %w", err)
	}
	if c.Restore == "" {
		return nil
	}
	from, err := t.inStore(c.Restore)
	if err == nil {
		_, err = t.transfer().Download(ctx, from, t.checkpointDir())
	}
	if err != nil {
		return fmt.Errorf("restore checkpoint: %w", err)
	}
	return nil
}

// stageOut uploads $TRADEWIND_OUTPUT, below the attempt's prefix and rank: the paths that the task's outputs name, or
// everything. It also copies outputs to their own URIs. If there is only one node and it has no outputs, it uploads
// nothing and returns empty.
func (t *attempt) stageOut(ctx context.Context) (empty bool, err error) {
	if t.work.FirstHasOutputs && t.claims.Rank > 0 {
		return false, nil
	}
	if err := t.requireOutputs(); err != nil {
		return false, err
	}
	for _, out := range t.work.Outputs {
		if out.URI == "" {
			continue
		}
		if err := t.putOutput(ctx, out); err != nil {
			return false, fmt.Errorf("output %s to %s: %w", out.Name, out.URI, err)
		}
	}
	scan := stage.Scan{Ignore: t.unwanted()}
	if len(t.work.Nodes) <= 1 {
		if empty, err = scan.Empty(ctx, t.dirs.output); err != nil || empty {
			return empty, err
		}
	}
	return false, t.keep(ctx, t.dirs.output, scan)
}

// keep uploads dir as this node's outputs.
func (t *attempt) keep(ctx context.Context, dir string, scan stage.Scan) error {
	if t.work.Store == "" {
		return nil
	}
	prefix, err := t.inStore(wire.OutputPrefix(t.work.Prefix, t.work.Attempt), strconv.Itoa(t.claims.Rank))
	if err != nil {
		return err
	}
	_, err = t.transfer().Upload(ctx, prefix, dir, scan, stage.Manifest{
		Attempt: t.work.Attempt, Rank: t.claims.Rank, Nodes: t.nodesWithOutputs(),
	})
	return err
}

// nodesWithOutputs returns the number of nodes whose outputs are kept.
func (t *attempt) nodesWithOutputs() int {
	if t.work.FirstHasOutputs {
		return 1
	}
	return max(len(t.work.Nodes), 1)
}

// requireOutputs returns an error if a declared output is missing. If there are several nodes, the first must have
// all of them.
func (t *attempt) requireOutputs() error {
	for _, out := range t.work.Outputs {
		if out.Path == "" {
			continue
		}
		if !filepath.IsLocal(filepath.FromSlash(out.Path)) {
			return fmt.Errorf("output %s: path %q %w", out.Name, out.Path, stage.ErrLeaves)
		}
		if err := t.findOutput(out); errors.Is(err, fs.ErrNotExist) && t.claims.Rank == 0 {
			return fmt.Errorf("output %s: the task wrote no %s in $TRADEWIND_OUTPUT", out.Name, out.Path)
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("output %s: %w", out.Name, err)
		}
	}
	return nil
}

// findOutput returns an error if an output is missing (fs.ErrNotExist) or cannot be uploaded.
func (t *attempt) findOutput(out wire.Output) error {
	root, err := os.OpenRoot(t.dirs.output)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // only read
	info, err := root.Stat(path.Clean(out.Path))
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is neither a file nor a directory: %s", out.Path, info.Mode())
	}
	return err
}

// putOutput copies one output to its URI. If there are several nodes, each copies its output to a subdirectory named
// by its rank.
func (t *attempt) putOutput(ctx context.Context, out wire.Output) error {
	if err := t.findOutput(out); errors.Is(err, fs.ErrNotExist) {
		return nil // another node has it
	}
	uri := out.URI
	if t.nodesWithOutputs() > 1 {
		joined, err := url.JoinPath(uri, strconv.Itoa(t.claims.Rank), "/")
		if err != nil {
			return err
		}
		uri = joined
	}
	return t.transfer().Put(ctx, t.dirs.output, path.Clean(out.Path), uri)
}

// putOnFailure copies the outputs of a failed command that are wanted even after a failure. It only logs errors,
// because the command's own failure is what the agent reports.
func (t *attempt) putOnFailure(ctx context.Context) {
	for _, out := range t.work.Outputs {
		if !out.OnFailure || out.URI == "" {
			continue
		}
		if err := t.putOutput(ctx, out); err != nil {
			t.out.note(fmt.Sprintf("output %s to %s: %s", out.Name, out.URI, err))
		}
	}
}

// unwanted returns a function that selects the files in the output directory that are not uploaded. It is nil if no
// output names a path or one output wants everything.
func (t *attempt) unwanted() func(string) bool {
	var wanted []string
	for _, out := range t.work.Outputs {
		p := path.Clean(out.Path)
		if p == "." {
			return nil
		}
		wanted = append(wanted, p)
	}
	if len(wanted) == 0 {
		return nil
	}
	wanted = append(wanted, t.linked(wanted)...)
	return func(p string) bool {
		return !slices.ContainsFunc(wanted, func(w string) bool {
			return p == w || strings.HasPrefix(p, w+"/") || strings.HasPrefix(w, p+"/")
		})
	}
}

// linked returns the targets of links that are wanted or lie in wanted directories. Without these the links would be
// broken.
func (t *attempt) linked(wanted []string) (more []string) {
	top, err := filepath.EvalSymlinks(t.dirs.output)
	if err != nil {
		return nil
	}
	for left := slices.Clone(wanted); len(left) > 0; {
		from := left[0]
		left = left[1:]
		_ = filepath.WalkDir(filepath.Join(t.dirs.output, from), func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.Type()&fs.ModeSymlink == 0 {
				return nil //nolint:nilerr // the scan that lists the file reports the error
			}
			real, err := filepath.EvalSymlinks(p)
			if err != nil {
				return nil //nolint:nilerr // the link is broken
			}
			rel, err := filepath.Rel(top, real)
			if err != nil || !filepath.IsLocal(rel) || rel == "." {
				return nil //nolint:nilerr // the link leaves the folder, so the upload of the outputs will fail
			}
			in := func(w string) bool { return rel == w || strings.HasPrefix(rel, w+"/") }
			if !slices.ContainsFunc(wanted, in) && !slices.ContainsFunc(more, in) {
				more, left = append(more, rel), append(left, rel)
			}
			return nil
		})
	}
	return more
}
