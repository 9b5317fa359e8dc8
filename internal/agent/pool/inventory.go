package pool

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
)

// Inventory is a computer's capacity for tasks.
type Inventory struct {
	CPUs      float64 // processors that this process may use
	MemoryGiB float64
	// Accelerator is the catalogue's name of the machine's GPUs, and Accelerators the number of GPUs with that name.
	Accelerator  string
	Accelerators int
	// Notes list, for users, the parts of the machine that were left out.
	Notes []string
}

// Computer is the computer of an inventory. Tests set its fields; ThisComputer returns the real one.
type Computer struct {
	CPUs   int            // processors that the scheduler gives this process
	Memory func() float64 // installed, GiB; 0 is unknown. If nil, /proc/meminfo of Files is read
	Files  fs.FS          // the root of the file system
	SMI    string         // path of nvidia-smi; empty if there is none
}

// smiWithin is the timeout of nvidia-smi, which may hang with its driver.
const smiWithin = 20 * time.Second

// Take returns the computer's capacity within the limits of the process's control group. It returns an error if
// nvidia-smi exists but fails. A computer without nvidia-smi has no GPUs.
func (c Computer) Take(ctx context.Context) (Inventory, error) {
	in := Inventory{CPUs: float64(c.CPUs)}
	if c.Memory != nil {
		in.MemoryGiB = c.Memory()
	} else {
		in.MemoryGiB = c.meminfo()
	}
	c.limit(&in)
	if c.SMI == "" {
		return in, nil
	}
	return in, c.gpus(ctx, &in)
}

// meminfo returns the memory that Linux manages, in GiB (proc_meminfo(5)).
func (c Computer) meminfo() float64 {
	b, err := fs.ReadFile(c.Files, "proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			return kib / (1 << 20)
		}
	}
	return 0
}

// limit applies the limits of the process's control group (version 2) and of all its parents.
func (c Computer) limit(in *Inventory) {
	own, err := fs.ReadFile(c.Files, "proc/self/cgroup")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(own)) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		for ok {
			dir := path.Join("sys/fs/cgroup", group)
			if bytes, set := number(c.Files, dir+"/memory.max", 0); set {
				in.MemoryGiB = minKnown(in.MemoryGiB, bytes/(1<<30))
			}
			quota, set := number(c.Files, dir+"/cpu.max", 0)
			if period, known := number(c.Files, dir+"/cpu.max", 1); set && known && period > 0 {
				in.CPUs = minKnown(in.CPUs, quota/period)
			}
			if ok = group != "/" && group != "."; ok {
				group = path.Dir(group)
			}
		}
	}
}

// minKnown returns the smaller of two amounts, of which 0 means unknown.
func minKnown(a, b float64) float64 {
	if a == 0 {
		return b
	}
	return math.Min(a, b)
}

// number returns a field of a file. It is not set if the file is missing or the field is "max".
func number(files fs.FS, name string, field int) (float64, bool) {
	b, err := fs.ReadFile(files, name)
	if err != nil {
		return 0, false
	}
	fields := strings.Fields(string(b))
	if field >= len(fields) {
		return 0, false
	}
	v, err := strconv.ParseFloat(fields[field], 64)
	return v, err == nil
}

// gpus returns the GPUs that nvidia-smi lists. If they have different names, only the most frequent name counts.
func (c Computer) gpus(ctx context.Context, in *Inventory) error {
	ctx, cancel := context.WithTimeout(ctx, smiWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.SMI, "--query-gpu=name", "--format=csv,noheader") //nolint:gosec // found in PATH
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("pool: %s: %w: %.200s", c.SMI, err, bytes.TrimSpace(slices.Concat(out.Bytes(), errs.Bytes())))
	}
	names, err := readGPUs(&out)
	if err != nil {
		return fmt.Errorf("pool: %s: %w", c.SMI, err)
	}
	count := map[string]int{}
	for _, n := range names {
		count[n]++
	}
	for _, n := range names { // in their order, so that a tie always has the same result
		if count[n] > in.Accelerators {
			in.Accelerator, in.Accelerators = n, count[n]
		}
	}
	for n, k := range count {
		if n != in.Accelerator {
			in.Notes = append(in.Notes, fmt.Sprintf("%d %s besides %d %s: only GPUs with the same name count", k, n,
				in.Accelerators, in.Accelerator))
		}
	}
	slices.Sort(in.Notes)
	return nil
}

// readGPUs reads GPU names, one per line, and returns the catalogue's names. A GPU that the catalogue does not know
// keeps its driver's name.
func readGPUs(r io.Reader) ([]string, error) {
	lines := bufio.NewScanner(r)
	var names []string
	for lines.Scan() {
		name := strings.TrimSpace(lines.Text())
		if name == "" {
			continue
		}
		known, err := accel.Normalize(name)
		if err != nil {
			known = strings.ReplaceAll(name, " ", "-")
		}
		names = append(names, known)
	}
	return names, lines.Err()
}
