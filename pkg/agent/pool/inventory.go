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

	"github.com/tradewind-broker/tradewind/pkg/catalog/accel"
)

// Inventory is what a computer has for tasks.
type Inventory struct {
	CPUs      float64 // that this process may use
	MemoryGiB float64
	// Accelerator is the name of its GPUs as the catalogue has it, and Accelerators how many of that name there are.
	Accelerator  string
	Accelerators int
	// Notes say what was passed over, for people.
	Notes []string
}

// Computer is where an inventory is taken. Its fields are for tests; those of ThisComputer are the real ones.
type Computer struct {
	CPUs   int            // processors that the scheduler gives this process
	Memory func() float64 // installed, GiB; 0 is not known. Nil reads /proc/meminfo of Files
	Files  fs.FS          // the root of the file system
	SMI    string         // the nvidia-smi program; empty is none
}

// smiWithin bounds a call of nvidia-smi, which may hang with its driver.
const smiWithin = 20 * time.Second

// Take counts what there is, as far as the process's control group lets it have that. It fails when a program that
// should know does not answer; a computer without GPUs has none.
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

// meminfo is the memory that Linux manages, GiB (proc_meminfo(5)).
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

// limit applies the limits of the process's control group (version 2) and of all above it.
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
				in.MemoryGiB = least(in.MemoryGiB, bytes/(1<<30))
			}
			quota, set := number(c.Files, dir+"/cpu.max", 0)
			if period, known := number(c.Files, dir+"/cpu.max", 1); set && known && period > 0 {
				in.CPUs = least(in.CPUs, quota/period)
			}
			if ok = group != "/" && group != "."; ok {
				group = path.Dir(group)
			}
		}
	}
}

// least is the smaller one of two amounts, of which 0 is not known.
func least(a, b float64) float64 {
	if a == 0 {
		return b
	}
	return math.Min(a, b)
}

// number is a field of a file; not set if there is no such file, or it says "max".
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

// gpus asks nvidia-smi. GPUs of one name count: those of which there are most.
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
	for _, n := range names { // in their order, so that equals are decided the same way each time
		if count[n] > in.Accelerators {
			in.Accelerator, in.Accelerators = n, count[n]
		}
	}
	for n, k := range count {
		if n != in.Accelerator {
			in.Notes = append(in.Notes, fmt.Sprintf("%d %s beside %d %s: a machine counts GPUs of one name", k, n,
				in.Accelerators, in.Accelerator))
		}
	}
	slices.Sort(in.Notes)
	return nil
}

// readGPUs reads names, one a line, as the catalogue has them. A GPU that it does not know keeps the name that its
// driver has for it.
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
