package lambdacloud

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// Config describes an account. The zero value has all types of Types and the key DefaultKey, and boots no machines.
type Config struct {
	Key   string // the valid API key
	Types []Type // types for sale
	// Dir is the folder of the machines' disks. If it is empty, machines are only records.
	Dir string
	// Environment has variables for a machine's boot script, in addition to PATH and HOME.
	Environment []string
	Now         func() time.Time
	// Fault receives errors about requests and answers that do not match the published description; nil panics.
	Fault func(error)
}

// DefaultKey is the key of an account whose Config has none.
const DefaultKey = "secret_emulated_0123456789abcdef"

// Type is a machine type.
type Type struct {
	Name        string
	GPU         string // Lambda's name, such as "A10 (24 GB PCIe)"; empty means N/A
	GPUs        int
	Cents       int // an hour
	VCPU        int
	MemoryGiB   int
	StorageGiB  int
	Regions     []string // regions that sell it
	Description string
}

// Types returns the default types, with Lambda's prices and sizes as of writing.
func Types() []Type {
	return []Type{
		{Name: "cpu_4x_general", Cents: 20, VCPU: 4, MemoryGiB: 16, StorageGiB: 512,
			Regions: []string{"us-east-1", "us-west-2"}, Description: "4x CPU General (16 GiB)"},
		{Name: "gpu_1x_a10", GPU: "A10 (24 GB PCIe)", GPUs: 1, Cents: 75, VCPU: 30, MemoryGiB: 200, StorageGiB: 1400,
			Regions: []string{"us-east-1", "us-west-1"}, Description: "1x A10 (24 GB PCIe)"},
		{Name: "gpu_8x_v100", GPU: "V100 (16 GB)", GPUs: 8, Cents: 440, VCPU: 92, MemoryGiB: 448, StorageGiB: 6000,
			Regions: []string{"us-east-1", "us-south-1"}, Description: "8x V100 (16 GB)"},
		{Name: "gpu_1x_gh200", GPU: "GH200 (96 GB)", GPUs: 1, Cents: 149, VCPU: 64, MemoryGiB: 432, StorageGiB: 4096,
			Regions: []string{"us-east-3"}, Description: "1x GH200 (96 GB)"},
	}
}

// Cloud is an account of Lambda's GPU cloud. It is an http.Handler; its methods are safe for concurrent use.
type Cloud struct {
	cfg Config
	api *description

	mu        sync.Mutex
	types     map[string]Type
	instances map[string]*instance
	keys      map[string]string // SSH keys: public keys by name
	bad       faults
	bills     []Bill
	calls     map[string]int
}

// instance is a machine.
type instance struct {
	id, name, host, sshKey string
	kind                   Type
	region                 string
	status                 string
	tags                   []tag
	userData               string
	launched, ended        time.Time
	hidden                 int // number of next lists that lack it
	seen                   int // number of lists with it since it ended
	machine                *emulator.Machine
}

type tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Statuses of an instance.
const (
	booting     = "booting"
	active      = "active"
	unhealthy   = "unhealthy"
	terminating = "terminating"
	terminated  = "terminated"
	preempted   = "preempted"
)

// New returns an account without machines.
func New(cfg Config) *Cloud {
	if cfg.Key == "" {
		cfg.Key = DefaultKey
	}
	if cfg.Types == nil {
		cfg.Types = Types()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Fault == nil {
		cfg.Fault = func(err error) { panic(err) }
	}
	api, err := newDescription()
	if err != nil {
		panic(err) // embedded in the binary
	}
	c := &Cloud{cfg: cfg, api: api, types: map[string]Type{}, instances: map[string]*instance{},
		keys: map[string]string{}, calls: map[string]int{}}
	for _, t := range cfg.Types {
		c.types[t.Name] = t
	}
	return c
}

// living reports whether a machine is billed.
func (i *instance) living() bool {
	return i.status == booting || i.status == active || i.status == unhealthy
}

// LiveMachines returns the IDs of the machines that are billed, even if lists lack them.
func (c *Cloud) LiveMachines() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(c.instances)) {
		if c.instances[id].living() {
			ids = append(ids, id)
		}
	}
	return ids
}

// SSHKeys returns the names of the account's SSH keys.
func (c *Cloud) SSHKeys() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.keys))
}

// RemoveSSHKeys removes all SSH keys.
func (c *Cloud) RemoveSSHKeys() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.keys)
}

// UserData returns a machine's user data.
func (c *Cloud) UserData(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.instances[id]; i != nil {
		return i.userData
	}
	return ""
}

// Calls returns how often an operation, such as "launchInstance", was called.
func (c *Cloud) Calls(operation string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[operation]
}

// Bill is the cost of a machine.
type Bill struct {
	ID, Name, Type, Region string
	From, To               time.Time
	USD                    float64 // billed by the started minute, like Lambda
}

// Bills returns the bills of all machines, for living ones up to now.
func (c *Cloud) Bills() []Bill {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.bills)
	for _, id := range slices.Sorted(maps.Keys(c.instances)) {
		if i := c.instances[id]; i.living() {
			all = append(all, i.bill(c.cfg.Now()))
		}
	}
	return all
}

func (i *instance) bill(now time.Time) Bill {
	minutes := (now.Sub(i.launched) + time.Minute - 1) / time.Minute
	return Bill{ID: i.id, Name: i.name, Type: i.kind.Name, Region: i.region, From: i.launched, To: now,
		USD: float64(minutes) * float64(i.kind.Cents) / 100 / 60}
}

// boot starts a machine's process. Callers hold the lock.
func (c *Cloud) boot(i *instance) {
	if c.cfg.Dir == "" {
		i.status = active
		return
	}
	m, err := emulator.BootMachine(emulator.MachineConfig{
		Dir: filepath.Join(c.cfg.Dir, i.id), UserData: []byte(i.userData),
		Environment: func(string) []string {
			return append([]string{"TRADEWIND_ADDRESS=127.0.0.1"},
				c.cfg.Environment...)
		},
	})
	if err != nil {
		c.cfg.Fault(fmt.Errorf("machine %s: %w", i.id, err))
		i.status = unhealthy
		return
	}
	i.status, i.machine = active, m
	go func() {
		<-m.Exited()
		c.mu.Lock()
		defer c.mu.Unlock()
		if i.living() { // a machine that shuts itself down is still billed
			i.status = unhealthy
		}
	}()
}

// end ends a machine. Callers hold the lock.
func (c *Cloud) end(i *instance, status string) {
	if i.living() {
		i.ended = c.cfg.Now()
		c.bills = append(c.bills, i.bill(i.ended))
	}
	i.status = status
	if i.machine != nil {
		i.machine.Kill()
	}
}

// Close ends all machines and waits for their processes.
func (c *Cloud) Close() {
	c.mu.Lock()
	var machines []*emulator.Machine
	for _, i := range c.instances {
		if i.living() {
			c.end(i, terminated)
		}
		if i.machine != nil {
			machines = append(machines, i.machine)
		}
	}
	c.mu.Unlock()
	for _, m := range machines {
		<-m.Exited()
	}
}

// Console returns the path of a machine's console output; without Config.Dir the file does not exist.
func (c *Cloud) Console(id string) string { return filepath.Join(c.cfg.Dir, id, "console.log") }

func newID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

var errNotFound = errors.New("no such machine")

// Preempt ends a living machine like the cloud: at once, without notice.
func (c *Cloud) Preempt(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.instances[id]
	if i == nil || !i.living() {
		return fmt.Errorf("%w: %s", errNotFound, id)
	}
	c.end(i, preempted)
	return nil
}

var _ http.Handler = (*Cloud)(nil)
