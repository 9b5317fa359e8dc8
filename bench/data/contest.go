package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// contest is one row: several programs that do the same work.
type contest struct {
	what       string
	work       workload
	contenders []contender
}

// contender does the work once. check compares every byte; clean removes the result. Neither is measured.
type contender struct {
	name         string
	run          func(context.Context) (usage, error)
	check, clean func(context.Context) error
	reads        string // folder of the server with the data to read; "" if unknown
}

// result is the usage of a contender in each round.
type result struct {
	contender
	took []usage
}

// run runs the contenders in turns, so that temporary load on the machine affects all of them. Slow work needs fewer
// rounds: no new round begins after the previous ones have taken enough time. Before the first round, one contender
// does the work once unmeasured: the first use of memory and disk blocks takes twice as long.
func (c contest) run(ctx context.Context, s settings) ([]*result, error) {
	results := make([]*result, len(c.contenders))
	for i, one := range c.contenders {
		results[i] = &result{contender: one}
	}
	if _, err := c.turn(ctx, s.dir, c.contenders[0]); err != nil {
		return nil, err
	}
	var took time.Duration
	for n := 0; n < s.repeat && (n == 0 || took < s.enough); n++ {
		for i := range results {
			if n%2 == 1 { // reverse the order, so that no contender always follows the same one
				i = len(results) - 1 - i
			}
			r := results[(i+n)%len(results)]
			u, err := c.turn(ctx, s.dir, r.contender)
			if err != nil {
				return nil, err
			}
			s.tell("%s: %s: %.2f s, processor %.2f s, %d MB", c.what, r.name, wall(u), cpu(u), u.peak>>20)
			r.took = append(r.took, u)
			took += u.wall
		}
	}
	return results, nil
}

// turn runs one contender and checks its result.
func (c contest) turn(ctx context.Context, dir string, one contender) (u usage, err error) {
	if err = one.clean(ctx); err == nil {
		err = fragmentFree(dir, c.work.bytes())
	}
	if err == nil {
		syscall.Sync() // flush the previous contender's writes, so that they are not counted here
		err = read(one.reads)
	}
	if err == nil {
		u, err = one.run(ctx)
	}
	if err == nil {
		err = one.check(ctx)
	}
	if err == nil {
		err = one.clean(ctx)
	}
	if err != nil {
		return u, fmt.Errorf("%s, %s: %w", c.what, one.name, err)
	}
	return u, nil
}

// fragmentFree writes a file and removes it, so that every contender starts from the same state: writes of the previous
// one fragment free memory, which can make the next one up to three times slower.
func fragmentFree(dir string, bytes int64) (err error) {
	f, err := os.Create(filepath.Join(dir, "before")) //nolint:gosec // of the folder for all files
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	for some := make([]byte, 1<<20); bytes > 0 && err == nil; bytes -= int64(len(some)) {
		_, err = f.Write(some[:min(int64(len(some)), bytes)])
	}
	return err
}

// read loads the data that a server will serve into the page cache: with few contenders it had been evicted.
func read(dir string) error {
	if dir == "" {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		f, err := os.Open(path) //nolint:gosec // of the server that the benchmark has started
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, f)
		return errors.Join(err, f.Close())
	})
}

// peer reports whether the result is of another program that ours is compared with.
func (r *result) peer() bool { return !strings.HasPrefix(r.name, "tradewind") }

// median returns the median of a contender's rounds.
func (r *result) median(of func(usage) float64) float64 {
	values := make([]float64, len(r.took))
	for i, u := range r.took {
		values[i] = of(u)
	}
	return median(values)
}

// median returns the median of the values, and sorts them.
func median(values []float64) float64 {
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

func wall(u usage) float64 { return u.wall.Seconds() }
func cpu(u usage) float64  { return u.cpu.Seconds() }
func peak(u usage) float64 { return float64(u.peak >> 20) }

// ratio is the faster peer's time divided by r's: above one, r is faster. For each peer it is the median over rounds,
// because temporary load affects a whole round. The faster peer is the one with the smallest ratio.
func (r *result) ratio(all []*result) float64 {
	least := math.Inf(1)
	for _, p := range all {
		if !p.peer() {
			continue
		}
		ratios := make([]float64, len(r.took))
		for n, own := range r.took {
			ratios[n] = wall(p.took[n]) / wall(own)
		}
		least = min(least, median(ratios))
	}
	return least
}

// line formats the results of a row.
func (c contest) line(results []*result) string {
	var b strings.Builder
	for _, r := range results {
		pace := fmt.Sprintf("%.0f MB/s", float64(c.work.bytes())/1e6/r.median(wall))
		if c.work.size < 1<<16 {
			pace = fmt.Sprintf("%.0f files/s", float64(c.work.files)/r.median(wall))
		}
		ratio := ""
		if strings.HasPrefix(r.name, "tradewind") && slices.ContainsFunc(results, (*result).peer) {
			ratio = fmt.Sprintf("%.2f", r.ratio(results))
		}
		fmt.Fprintf(&b, "| %s | %s | %.2f | %s | %.2f | %.0f | %s |\n", c.what, r.name, r.median(wall), pace,
			r.median(cpu), r.median(peak), ratio)
	}
	return b.String()
}

const head = "| work | by | wall, s | pace | processor, s | memory, MB | faster peer's time to ours |\n" +
	"| --- | --- | --- | --- | --- | --- | --- |\n"

// fresh empties a folder.
func fresh(dir string) func(context.Context) error {
	return func(context.Context) error {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		return os.MkdirAll(dir, 0o750)
	}
}

// bench is the state that all rows share.
type bench struct {
	dir   string // for all files
	peers []program
	mine  []program
}

// programs are all programs that can access the places.
func (b *bench) programs(places ...*place) (list []program) {
	list = append(list, b.mine...)
	for _, p := range b.peers {
		if _, s3only := p.(s5cmd); s3only && slices.ContainsFunc(places, func(p *place) bool { return p.s3 == "" }) {
			continue
		}
		list = append(list, p)
	}
	return list
}

func (b *bench) source(w workload) string { return filepath.Join(b.dir, "from", w.name) }

// uploads is the row that uploads a workload to a place.
func (b *bench) uploads(at *place, what string, w workload) contest {
	c := contest{what: what + " up", work: w}
	back := filepath.Join(b.dir, "back")
	for i, p := range b.programs(at) {
		prefix := fmt.Sprintf("up/%s-%d", w.name, i)
		c.contenders = append(c.contenders, contender{
			name:  p.name(),
			run:   func(ctx context.Context) (usage, error) { return p.upload(ctx, b.source(w), at, prefix) },
			clean: func(ctx context.Context) error { return at.empty(ctx, prefix) },
			check: func(ctx context.Context) error { return b.arrived(ctx, p, at, prefix, w, back) },
		})
	}
	return c
}

// arrived compares an upload of a program with the source.
func (b *bench) arrived(ctx context.Context, p program, at *place, prefix string, w workload, back string) error {
	reader, mine := p.(ours)
	if !mine {
		reader = ours{plain: true}
	}
	reader.profile = ""
	if err := fresh(back)(ctx); err != nil {
		return err
	}
	defer os.RemoveAll(back) //nolint:errcheck // emptied before use
	if _, err := reader.download(ctx, at, prefix, back); err != nil {
		return err
	}
	return w.same(b.source(w), back)
}

// downloads is the row that downloads a workload from a place. Peers, and ours with plain objects, read the same
// objects.
func (b *bench) downloads(ctx context.Context, at *place, what string, w workload, list []program) (contest, error) {
	c := contest{what: what + " down", work: w}
	prefixes := map[bool]string{true: "down/" + w.name + "-plain", false: "down/" + w.name}
	for plain, prefix := range prefixes {
		if _, err := (ours{plain: plain}).upload(ctx, b.source(w), at, prefix); err != nil {
			return c, err
		}
	}
	for _, p := range list {
		me, mine := p.(ours)
		prefix, dir := prefixes[!mine || me.plain], filepath.Join(b.dir, "to")
		c.contenders = append(c.contenders, contender{
			name:  p.name(),
			run:   func(ctx context.Context) (usage, error) { return p.download(ctx, at, prefix, dir) },
			clean: fresh(dir),
			check: func(context.Context) error { return w.same(b.source(w), dir) },
			reads: at.below(prefix),
		})
	}
	return c, nil
}

// across is the row that copies a workload from one store to the machine and from there to another store.
func (b *bench) across(ctx context.Context, from, to *place, what string, w workload) (contest, error) {
	list, back := b.programs(from, to), filepath.Join(b.dir, "back")
	c, err := b.downloads(ctx, from, what, w, list)
	if err != nil {
		return c, err
	}
	c.what = what
	for i, p := range list {
		one, prefix, dir := &c.contenders[i], fmt.Sprintf("across/%s-%d", w.name, i), filepath.Join(b.dir, "to")
		down := one.run
		one.run = func(ctx context.Context) (usage, error) {
			u, err := down(ctx)
			if err != nil {
				return u, err
			}
			up, err := p.upload(ctx, dir, to, prefix)
			return u.add(up), err
		}
		empty := one.clean
		one.clean = func(ctx context.Context) error {
			if err := to.empty(ctx, prefix); err != nil {
				return err
			}
			return empty(ctx)
		}
		one.check = func(ctx context.Context) error { return b.arrived(ctx, p, to, prefix, w, back) }
	}
	return c, nil
}
