package local

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/files"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// record is a cluster on disk. It is written before the first of its machines is started, and removed after the last
// has ended.
type record struct {
	Cluster  string            `json:"cluster"`
	Offer    apitypes.Offer    `json:"offer"`
	Labels   map[string]string `json:"labels,omitempty"`
	Launched time.Time         `json:"launched"` // virtual time
	Machines []machineRecord   `json:"machines"` // by rank
}

type machineRecord struct {
	ID      string        `json:"id"`
	Address string        `json:"address"`
	TakenAt time.Time     `json:"takenAt,omitzero"` // virtual time when it will be, or was, interrupted
	Notice  time.Duration `json:"notice,omitempty"`
	Taken   bool          `json:"taken,omitempty"`
}

const recordName = "cluster.json"

// maxName is the maximum length of a cluster's name.
const maxName = 200

// validName reports whether a cluster can have that name.
func validName(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, func(r rune) bool {
		return r < ' ' || r == 0x7f
	})
}

// dirName returns a unique file name for the cluster: the cluster's name if file systems allow it.
func (k clusterKey) dirName() string {
	plain := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' }
	safe := strings.Map(func(r rune) rune {
		if plain(r) {
			return r
		}
		return '_'
	}, k.Cloud+"-"+k.Cluster)
	if safe == k.Cloud+"-"+k.Cluster && !strings.Contains(k.Cloud, "-") && len(safe) <= maxName {
		return safe
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(k.Cloud + "\x00" + k.Cluster))
	return fmt.Sprintf("%.100s.%016x", safe, h.Sum64())
}

// readClusters reads every record. It ignores a directory without a record: it is from a launch that had not started
// a machine, or from a termination that had almost finished, so no process belongs to it.
func (h *Host) readClusters() error {
	entries, err := os.ReadDir(h.clustersDir())
	if err != nil {
		return fmt.Errorf("local: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(h.clustersDir(), e.Name())
		b, err := os.ReadFile(filepath.Join(dir, recordName)) //nolint:gosec // our own directory
		if errors.Is(err, fs.ErrNotExist) {
			_ = removeDir(dir)
			continue
		}
		if err != nil {
			return fmt.Errorf("local: %w", err)
		}
		var r record
		if err := json.Unmarshal(b, &r); err != nil {
			if err := h.discard(dir, err); err != nil {
				return err
			}
			continue
		}
		key := clusterKey{r.Offer.Cloud, r.Cluster}
		h.clusters[key] = h.newCluster(key, &r)
		for _, m := range h.clusters[key].machines {
			m.learn()
		}
	}
	return nil
}

// discard removes a cluster whose record cannot be read. This happens after a power failure, which has also ended all
// processes. If a machine is alive nevertheless, it returns an error for the user.
func (h *Host) discard(dir string, why error) error {
	locks, err := filepath.Glob(filepath.Join(dir, "*", lockName))
	if err != nil {
		return fmt.Errorf("local: %w", err)
	}
	for _, lock := range locks {
		if (&machine{dir: filepath.Dir(lock)}).held() {
			return fmt.Errorf("local: %s cannot be read, but its machines run: %w", filepath.Join(dir, recordName), why)
		}
	}
	h.log.Warn("removing a cluster without machines, whose record cannot be read", "dir", dir, "err", why)
	return removeDir(dir)
}

// maxGraves is the maximum number of names of terminated clusters that are kept, the newest, when a host opens.
const maxGraves = 100_000

func (h *Host) gravesPath() string { return filepath.Join(h.cfg.Dir, "terminated") }

// openGraves reads the names of terminated clusters, one JSON array per line, and opens the file for appending.
func (h *Host) openGraves() error {
	keys, err := readGraves(h.gravesPath())
	if err != nil {
		return err
	}
	if len(keys) > maxGraves {
		keys = keys[len(keys)-maxGraves:]
		var lines []byte
		for _, k := range keys {
			lines = append(lines, graveLine(k)...)
		}
		if err := replaceFile(h.gravesPath(), lines); err != nil {
			return err
		}
	}
	for _, k := range keys {
		h.terminated[k] = true
	}
	h.graves, err = os.OpenFile(h.gravesPath(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("local: %w", err)
	}
	return nil
}

func readGraves(path string) ([]clusterKey, error) {
	f, err := os.Open(path) //nolint:gosec // our own directory
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	var keys []clusterKey
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var k [2]string
		if json.Unmarshal(lines.Bytes(), &k) == nil { // an incomplete last line is from a call that did not return
			keys = append(keys, clusterKey{k[0], k[1]})
		}
	}
	return keys, lines.Err()
}

// graveLine begins with a line feed, so that a line that a crash has cut off does not damage the next one.
func graveLine(k clusterKey) []byte {
	b, err := json.Marshal([2]string{k.Cloud, k.Cluster})
	if err != nil { // impossible for strings
		return nil
	}
	return slices.Concat([]byte("\n"), b, []byte("\n"))
}

// bury makes sure that a cluster is never launched again. The caller holds h.mu.
func (h *Host) bury(k clusterKey) error {
	if h.terminated[k] {
		return nil
	}
	if _, err := h.graves.Write(graveLine(k)); err != nil {
		return fmt.Errorf("local: %w", err)
	}
	h.terminated[k] = true
	return nil
}

func writeJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("local: %w", err)
	}
	return replaceFile(path, b)
}

// replaceFile makes path contain b. After a crash, the file has either all of b or its old content. When replaceFile
// returns, b is on disk.
func replaceFile(path string, b []byte) error {
	if err := files.Write(path, 0o600, b); err != nil {
		return fmt.Errorf("local: %w", err)
	}
	return nil
}

// tryLock takes the lock on f if it is free.
func tryLock(f *os.File, mode files.Mode) bool {
	taken, err := files.Try(f, mode)
	return taken && err == nil
}
