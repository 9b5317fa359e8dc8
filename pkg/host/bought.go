package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/atomicfile"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/api"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/pkg/cloud/push"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/identity"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Bought is a cloud that machines are bought on.
type Bought struct {
	Kit      cloudkit.Kit
	Settings cloudkit.Settings
}

// Errors of Open for clouds that are bought on.
var (
	// ErrPublicURL: machines elsewhere cannot reach the broker at the address that is named.
	ErrPublicURL = errors.New("no address at which bought machines reach this broker")
	// ErrUnended: machines that an earlier host bought may still run on a cloud that this one was not given.
	ErrUnended = errors.New("machines of an earlier start may still run")
)

// PublicURL reads the address at which bought machines reach the broker: https, or http on loopback and at a service of
// the Kubernetes cluster that both are in (a host NAME.NAMESPACE.svc, which no other network knows), with no path. It
// fails with ErrPublicURL.
func PublicURL(text string) (string, error) {
	const what = "a tunnel, an ingress or a name of this computer"
	if text == "" {
		return "", fmt.Errorf("%w: machines in a cloud dial the broker, so --public-url has to name %s", ErrPublicURL,
			what)
	}
	u, err := url.Parse(strings.TrimSuffix(text, "/"))
	switch {
	case err != nil || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return "", fmt.Errorf("%w: %q is not https://HOST or https://HOST:PORT", ErrPublicURL, text)
	case u.Scheme == "http" && !loopback(u.Hostname()) && !service(u.Hostname()):
		return "", fmt.Errorf("%w: %q is not https, so whoever is on the way could read the machines' tokens",
			ErrPublicURL,
			text)
	case u.Scheme != "https" && u.Scheme != "http":
		return "", fmt.Errorf("%w: %q is neither https nor http", ErrPublicURL, text)
	}
	return u.String(), nil
}

// service says whether a host is a service's name in a cluster: NAME.NAMESPACE.svc, or that below the cluster's domain.
func service(host string) bool {
	labels := strings.Split(strings.TrimSuffix(host, ".cluster.local"), ".")
	return len(labels) == 3 && labels[0] != "" && labels[1] != "" && labels[2] == "svc"
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// afar is a cloud whose machines reach the broker at its public address, and that tells nobody when it has taken one:
// the lists that are asked for anyway do.
type afar struct {
	cloud.Cloud
	endpoint string
	notify   func(context.Context, cloud.Notice)

	mu   sync.Mutex
	told map[string]bool // machines
	cut  bool            // a launch was broken off, of which nobody knows what it has bought
}

// Launch implements cloud.Cloud.
func (a *afar) Launch(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	spec.Bootstrap.Endpoint = a.endpoint
	machines, err := a.Cloud.Launch(ctx, spec)
	if err != nil && ctx.Err() != nil && cloud.Hidden(err) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.cut = true
	}
	return machines, err
}

// brokenOff says that a launch was broken off by the end of the host.
func (a *afar) brokenOff() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cut
}

// Machines implements cloud.Cloud. Of a machine that ended without being asked to, a notice is sent, once.
func (a *afar) Machines(ctx context.Context, cluster string) ([]cloud.Machine, error) {
	list, err := a.Cloud.Machines(ctx, cluster)
	ended := map[string]bool{}
	for _, m := range list {
		if m.State != cloud.Terminated || m.Reason == "" {
			continue
		}
		ended[m.ID] = true
		a.mu.Lock()
		known := a.told[m.ID]
		a.told[m.ID] = true
		a.mu.Unlock()
		if !known {
			a.notify(ctx, cloud.Notice{Cluster: m.Cluster, Machine: m.ID, Kind: cloud.Taken, At: time.Now()})
		}
	}
	if cluster == "" && err == nil { // what is listed no more is forgotten
		a.mu.Lock()
		maps.DeleteFunc(a.told, func(id string, _ bool) bool { return !ended[id] })
		a.mu.Unlock()
	}
	return list, err
}

// buying is what a host has of the clouds that it buys on.
type buying struct {
	clouds    map[string]cloud.Cloud
	regions   map[string][]string // by cloud; empty is any
	proofs    identity.Verifiers
	checkers  map[string]driver.Checker
	refresh   []renew.Source
	pushes    map[string]push.Read
	fresh     map[string]time.Duration // by cloud, where it is not a day
	watches   []func(context.Context, func(context.Context, cloud.Notice))
	pulls     []func(context.Context, push.Tell)
	files     map[string]driver.Files // of buckets whose files are jobs, by their URLs
	prices    []func(waiting func(context.Context) ([]string, error)) cloudkit.Prices
	data      grant.Mux // for the buckets that the settings name, by URL
	publicURL string
}

// stores are where what tasks leave is kept in the clouds that are bought on: nowhere where their settings name none.
func (h *Host) stores(moves record.Mover) record.Stores {
	s := record.Stores{URLs: map[string]string{}, Moves: moves}
	for _, c := range h.opt.Clouds {
		maps.Copy(s.URLs, c.Settings.StoreURLs(c.Kit.Name))
	}
	return s
}

// without are the machines that are not bought, though the clouds sell them.
func (h *Host) without() []string {
	settings := map[string]cloudkit.Settings{}
	for _, c := range h.opt.Clouds {
		settings[c.Kit.Name] = c.Settings
	}
	return cloudkit.Without(settings)
}

// openBought opens the clouds that are bought on.
func (h *Host) openBought(ctx context.Context, st store.Store, keep time.Duration) (*buying, error) {
	b := &buying{clouds: map[string]cloud.Cloud{}, regions: map[string][]string{}, proofs: identity.Verifiers{},
		checkers: map[string]driver.Checker{}, data: grant.Mux{}, pushes: map[string]push.Read{},
		fresh: map[string]time.Duration{}, files: map[string]driver.Files{}}
	if h.opt.Passive {
		return b, nil
	}
	deployment, err := h.claim()
	if err != nil || len(h.opt.Clouds) == 0 {
		return b, err
	}
	if b.publicURL, err = PublicURL(h.opt.PublicURL); err != nil {
		return nil, err
	}
	for _, c := range h.opt.Clouds {
		if err := c.Kit.Ready(c.Settings, os.Getenv); err != nil {
			return nil, fmt.Errorf("cloud %s: %w", c.Kit.Name, err)
		}
		o, err := c.Kit.Open(ctx, cloudkit.Request{
			Settings: c.Settings, Deployment: deployment, PublicURL: b.publicURL, Agents: h.opt.Agents,
			Lookup: os.Getenv,
			Graves: driver.StoreGraves(c.Kit.Name, st, keep, h.clock.Now), Log: h.log,
		})
		if err != nil {
			return nil, fmt.Errorf("cloud %s: %w", c.Kit.Name, err)
		}
		b.clouds[c.Kit.Name], b.regions[c.Kit.Name] = &afar{Cloud: o.Cloud,
			endpoint: b.publicURL, notify: h.noticed, told: map[string]bool{}}, o.Regions
		b.checkers[c.Kit.Name] = o.Checker
		if o.Verifier != nil {
			b.proofs[c.Kit.Name] = o.Verifier
		}
		if o.Data != nil {
			for _, url := range c.Settings.StoreURLs(c.Kit.Name) {
				b.data[url] = o.Data
			}
		}
		if o.Refresh != nil {
			b.refresh = append(b.refresh, renew.Source{Cloud: c.Kit.Name, Refresh: o.Refresh})
			b.fresh[c.Kit.Name] = cmp.Or(o.FreshFor, cloudkit.FreshFor)
		}
		if o.Watch != nil {
			b.watches = append(b.watches, o.Watch)
		}
		if o.Pull != nil {
			b.pulls = append(b.pulls, o.Pull)
		}
		if bucket, _ := c.Settings.DAGPlace(); o.Files != nil {
			b.files[bucket] = o.Files
		}
		if o.Pushed != nil {
			b.pushes[c.Kit.Name] = o.Pushed
		}
		if o.Prices != nil {
			b.prices = append(b.prices, o.Prices)
		}
	}
	return b, nil
}

// names are those of the clouds, sorted.
func (b *buying) names() []string { return slices.Sorted(maps.Keys(b.clouds)) }

// proven are the clouds whose machines have to prove which they are.
func (b *buying) proven() []string { return slices.Sorted(maps.Keys(b.proofs)) }

// hosts are the names under which machines ask for the API.
func (b *buying) hosts() []string {
	if u, err := url.Parse(b.publicURL); err == nil && u.Hostname() != "" {
		return []string{u.Hostname()}
	}
	return nil
}

// narrow leaves of a catalogue what can be bought, and what this computer plays: where nothing is bought, the clouds in
// play, or all when there are none.
func (b *buying) narrow(c *catalog.Catalog, playOthers bool, play map[string][]string) (*catalog.Catalog, error) {
	if len(b.clouds) == 0 {
		if len(play) == 0 {
			return c, nil
		}
		return cloudkit.Narrow(c, play, false)
	}
	return cloudkit.Narrow(c, b.regions, playOthers)
}

// sources are prices of several clouds, each of which may fail alone.
type sources struct {
	of  []cloudkit.Prices
	log *slog.Logger
}

// SpotPrices implements broker.Prices. Where some clouds answer, the log has why others do not.
func (s sources) SpotPrices(ctx context.Context) (all []events.PriceTick, err error) {
	var errs []error
	for _, one := range s.of {
		prices, err := one.SpotPrices(ctx)
		for _, p := range prices {
			all = append(all, events.PriceTick(p))
		}
		errs = append(errs, err)
	}
	if err = errors.Join(errs...); err != nil && len(all) > 0 {
		s.log.WarnContext(ctx, "not all clouds tell their prices; planning on those known before", "err", err)
		return all, nil
	}
	return all, err
}

// claimed is what a host notes before it buys: the clouds on which machines may run should it die.
type claimed struct {
	Deployment string   `json:"deployment"`
	Clouds     []string `json:"clouds"`
}

const claimFile = "bought.json"

// claim returns the name of the deployment, and notes what is bought on. It fails with ErrUnended where an earlier host
// may have left machines that this one would not see.
func (h *Host) claim() (string, error) {
	var last claimed
	if _, err := h.state.readJSON(claimFile, &last); err != nil {
		return "", err
	}
	name, err := DeploymentOf(string(h.state))
	if err != nil {
		return "", err
	}
	if h.opt.Deployment != "" {
		name = h.opt.Deployment
	}
	now := claimed{Deployment: name}
	for _, c := range h.opt.Clouds {
		now.Clouds = append(now.Clouds, c.Kit.Name)
	}
	for _, left := range last.Clouds {
		if !slices.Contains(now.Clouds, left) {
			return "", fmt.Errorf("%w on %s, bought by an earlier broker on this folder that did not stop by itself: "+
				"start with --clouds %s, which goes on with them or ends them", ErrUnended, left,
				strings.Join(last.Clouds, ","))
		}
	}
	if len(last.Clouds) > 0 && last.Deployment != name {
		return "", fmt.Errorf("%w under the name %s: start with --deployment %s", ErrUnended, last.Deployment,
			last.Deployment)
	}
	if len(now.Clouds) == 0 {
		return name, nil
	}
	return name, h.state.writeJSON(claimFile, now)
}

// unclaim notes that no bought machine is left.
func (h *Host) unclaim() error {
	err := os.Remove(h.state.path(claimFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Forget notes that a state folder has no machines left on a cloud: somebody has looked.
func Forget(dir, cloud string) error {
	s := state(dir)
	var last claimed
	if found, err := s.readJSON(claimFile, &last); err != nil || !found {
		return err
	}
	last.Clouds = slices.DeleteFunc(last.Clouds, func(name string) bool { return name == cloud })
	return s.writeJSON(claimFile, last)
}

// deploymentBytes make a name that no other folder's deployment in the same account has.
const deploymentBytes = 10

// DeploymentOf is the name after which what is bought for a state folder is named. It is made up once, and stays when
// the folder is moved.
func DeploymentOf(dir string) (string, error) {
	s, err := openState(dir)
	if err != nil {
		return "", err
	}
	text, err := s.secret("deployment") // it is none, but is made and kept as one
	if err != nil {
		return "", err
	}
	return "tradewind-" + string(text[:deploymentBytes]), nil
}

// programFor is how long a machine has to begin to fetch its agent.
const programFor = 10 * time.Minute

// programs serves the agents' programs to bought machines.
func (h *Host) programs() api.ProgramFunc {
	if len(h.opt.Programs.Files) == 0 {
		return nil
	}
	return h.program
}

// mounters serves rclone to bought machines that have none, where there is one for them.
func (h *Host) mounters() api.MounterFunc {
	if len(h.opt.Programs.Mounters) == 0 {
		return nil
	}
	return func(ctx context.Context, arch string) (*wire.Program, error) {
		sha256, ok := h.opt.Programs.Mounters[arch]
		if !ok {
			return nil, nil //nolint:nilnil // none is known
		}
		where, err := h.program(ctx, sha256)
		if err != nil {
			return nil, err
		}
		return &wire.Program{URL: where, SHA256: sha256}, nil
	}
}

// program puts a program among the objects when it is first asked for, by its digest, and signs for it.
func (h *Host) program(ctx context.Context, sha256 string) (string, error) {
	file, ok := h.opt.Programs.Files[sha256]
	if !ok {
		return "", fmt.Errorf("%w: no program with the digest %s", record.ErrNotFound, sha256)
	}
	key := filepath.Join("agent", sha256, "program")
	if err := place(file, h.state.path("objects", key)); err != nil {
		return "", err
	}
	store := (&url.URL{Scheme: "file", Path: h.state.path("objects")}).String()
	uri, err := grant.Below(store, filepath.ToSlash(key))
	if err != nil {
		return "", err
	}
	signed, err := h.data.Sign(ctx, grant.Want{Op: grant.Get, URI: uri, For: programFor})
	if err != nil {
		return "", err
	}
	return signed[0].URL, nil // relative: to wherever the machine reached the broker
}

// place copies a file to where it is not yet, complete or not at all.
func place(from, to string) error {
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	f, err := os.Open(from) //nolint:gosec // the program that the host was given
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return atomicfile.Fill(to, 0o600, func(w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	})
}

// spotPrices are those of all clouds that tell them.
func (h *Host) spotPrices() sources {
	all := sources{make([]cloudkit.Prices, len(h.bought.prices)), h.log}
	for i, open := range h.bought.prices {
		all.of[i] = open(func(ctx context.Context) ([]string, error) { return h.broker.Views.WaitedFor(ctx) })
	}
	return all
}
