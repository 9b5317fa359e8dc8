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
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/base/files"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/internal/cloud/push"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/identity"
	"github.com/tradewind-broker/tradewind/internal/notify"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	spark "github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Bought is a cloud on which machines are bought.
type Bought struct {
	Kit      cloudkit.Kit
	Settings cloudkit.Settings
}

// Errors of Open for clouds on which machines are bought.
var (
	// ErrPublicURL means that there is no public URL, or bought machines cannot use it.
	ErrPublicURL = errors.New("no address at which bought machines reach this broker")
	// ErrUnended means that an earlier host may have left machines running on a cloud that this host was not told to
	// use, or under another deployment name. This host would not end them.
	ErrUnended = errors.New("machines of an earlier start may still run")
)

// PublicURL checks the URL at which bought machines reach the broker: https without a path, or http for loopback and
// for a service of the Kubernetes cluster in which both run (host NAME.NAMESPACE.svc, unknown in other networks). It
// returns ErrPublicURL for any other.
func PublicURL(text string) (string, error) {
	const what = "a tunnel, an ingress or a name of this computer"
	if text == "" {
		return "", fmt.Errorf("%w: machines in a cloud dial the broker, so --public-url must name %s", ErrPublicURL,
			what)
	}
	u, err := url.Parse(strings.TrimSuffix(text, "/"))
	switch {
	case err != nil || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return "", fmt.Errorf("%w: %q is not https://HOST or https://HOST:PORT", ErrPublicURL, text)
	case u.Scheme == "http" && !loopback(u.Hostname()) && !service(u.Hostname()):
		return "", fmt.Errorf("%w: %q is not https, so others on the network could read the machines' tokens",
			ErrPublicURL,
			text)
	case u.Scheme != "https" && u.Scheme != "http":
		return "", fmt.Errorf("%w: %q is neither https nor http", ErrPublicURL, text)
	}
	return u.String(), nil
}

// service reports whether a host is the name of a service in a Kubernetes cluster: NAME.NAMESPACE.svc, optionally
// followed by the domain.
func service(host string) bool {
	labels := strings.Split(strings.TrimSuffix(host, ".cluster.local"), ".")
	return len(labels) == 3 && labels[0] != "" && labels[1] != "" && labels[2] == "svc"
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// remoteCloud wraps a cloud whose machines reach the broker at its public URL. The cloud does not report
// interruptions. They are found in lists of machines.
type remoteCloud struct {
	cloud.Cloud
	endpoint string
	mail     *mail // nil if machines reach the broker at its public URL
	notify   func(context.Context, cloud.Notice)

	mu   sync.Mutex
	told map[string]bool // machines whose end was reported
	cut  bool            // a launch was cancelled, and may have bought machines
}

// Launch implements cloud.Cloud.
func (a *remoteCloud) Launch(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	spec.Bootstrap.Endpoint = a.endpoint
	if a.mail != nil {
		if err := a.mail.board(ctx, &spec); err != nil {
			return nil, err
		}
	}
	machines, err := a.Cloud.Launch(ctx, spec)
	if err != nil && ctx.Err() != nil && cloud.MayHaveMachines(err) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.cut = true
	}
	return machines, err
}

// brokenOff reports whether a launch was cancelled because the host stopped.
func (a *remoteCloud) brokenOff() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cut
}

// Machines implements cloud.Cloud. It sends one notice for each machine that ended unexpectedly.
func (a *remoteCloud) Machines(ctx context.Context, cluster string) ([]cloud.Machine, error) {
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
	if cluster == "" && err == nil { // forget machines that are no longer listed
		a.mu.Lock()
		maps.DeleteFunc(a.told, func(id string, _ bool) bool { return !ended[id] })
		a.mu.Unlock()
	}
	return list, err
}

// boughtClouds is the state of the clouds on which a host buys.
type boughtClouds struct {
	clouds    map[string]cloud.Cloud
	regions   map[string][]string // by cloud; empty means all
	proofs    identity.Verifiers
	checkers  map[string]driver.Checker
	refresh   []renew.Source
	pushes    map[string]push.Read
	fresh     map[string]time.Duration // how long offers are current, by cloud
	watches   []func(context.Context, func(context.Context, cloud.Notice))
	pulls     []func(context.Context, push.Deliver)
	files     map[string]driver.Files  // of buckets for DAG files, by URL
	announcer driver.Announcer         // publishes on topics of users; nil if no cloud has topics
	mailer    notify.Mailer            // nil if no cloud sends e-mail
	services  map[string]spark.Service // that run Spark tasks, by catalogue name
	prices    []func(waiting func(context.Context) ([]string, error)) cloudkit.Prices
	data      grant.Mux // for the buckets in the settings, by URL
	publicURL string
	endpoint  string // that agents call: publicURL, or the name of the broker in messages
	mail      *mail  // nil with a public URL
}

// stores returns the place of outputs in each cloud, from the settings. Clouds without a setting have none.
func (h *Host) stores(moves config.Mover) config.Stores {
	s := config.Stores{URLs: map[string]string{}, Moves: moves}
	for _, c := range h.opt.Clouds {
		maps.Copy(s.URLs, c.Settings.StoreURLs(c.Kit.Name))
	}
	maps.Copy(s.URLs, h.opt.ServiceStores)
	return s
}

// without returns the machines that the clouds sell and the settings exclude.
func (h *Host) without() []string {
	settings := map[string]cloudkit.Settings{}
	for _, c := range h.opt.Clouds {
		settings[c.Kit.Name] = c.Settings
	}
	return cloudkit.NotBought(settings)
}

// archs returns the architectures for which there is an agent, for each cloud on which machines are bought.
func (h *Host) archs() map[string][]string {
	names := make([]string, len(h.opt.Clouds))
	for i, c := range h.opt.Clouds {
		names[i] = c.Kit.Name
	}
	return h.opt.Agents.ArchsOn(names)
}

// openBought opens the clouds on which machines are bought.
func (h *Host) openBought(ctx context.Context, st store.Store, keep time.Duration) (*boughtClouds, error) {
	b := &boughtClouds{clouds: map[string]cloud.Cloud{}, regions: map[string][]string{}, proofs: identity.Verifiers{},
		checkers: map[string]driver.Checker{}, data: grant.Mux{}, pushes: map[string]push.Read{},
		fresh: map[string]time.Duration{}, files: map[string]driver.Files{}, services: map[string]spark.Service{}}
	maps.Copy(b.services, h.opt.Services)
	if h.opt.Passive {
		return b, nil
	}
	deployment, err := h.claim()
	if err != nil || len(h.opt.Clouds) == 0 {
		return b, err
	}
	if err := h.chooseCarrier(b, deployment); err != nil {
		return nil, err
	}
	for _, c := range h.opt.Clouds {
		if err := c.Kit.Ready(c.Settings, os.Getenv); err != nil {
			return nil, fmt.Errorf("cloud %s: %w", c.Kit.Name, err)
		}
		request := cloudkit.Request{
			Settings: c.Settings, Deployment: deployment, PublicURL: b.endpoint, Agents: h.opt.Agents,
			Lookup: os.Getenv,
			Graves: driver.StoreGraves(c.Kit.Name, st, keep, h.clock.Now), Log: h.log,
		}
		o, err := b.open(ctx, c.Kit, request)
		if err != nil {
			return nil, fmt.Errorf("cloud %s: %w", c.Kit.Name, err)
		}
		b.clouds[c.Kit.Name], b.regions[c.Kit.Name] = &remoteCloud{Cloud: o.Cloud,
			endpoint: b.endpoint, mail: b.mail, notify: h.emitNotice, told: map[string]bool{}}, o.Regions
		b.checkers[c.Kit.Name] = o.Checker
		if o.Verifier != nil {
			b.proofs[c.Kit.Name] = o.Verifier
		}
		if o.Data != nil {
			for _, url := range c.Settings.StoreURLs(c.Kit.Name) {
				b.data[url] = o.Data
			}
		}
		b.mail.keepIn(c.Kit.Name, o.Data)
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
		if o.Announcer != nil {
			b.announcer = o.Announcer
		}
		if o.Mail != nil {
			b.mailer = o.Mail
		}
		if o.Pushed != nil {
			b.pushes[c.Kit.Name] = o.Pushed
		}
		if o.Prices != nil {
			b.prices = append(b.prices, o.Prices)
		}
	}
	return b, b.mail.ready()
}

// open opens a cloud and the services that its settings name.
func (b *boughtClouds) open(ctx context.Context, k cloudkit.Kit, r cloudkit.Request) (*cloudkit.Opened, error) {
	services, err := k.OpenServices(ctx, r)
	if err != nil {
		return nil, err
	}
	maps.Copy(b.services, services.Of)
	return k.Open(ctx, r)
}

// chooseCarrier sets how machines call this host: at its public URL, or through a bucket.
func (h *Host) chooseCarrier(b *boughtClouds, deployment string) (err error) {
	if h.opt.PublicURL != "" {
		b.publicURL, err = PublicURL(h.opt.PublicURL)
		b.endpoint = b.publicURL
		return err
	}
	b.mail = &mail{deployment: deployment, state: h.state, programs: h.opt.Programs, known: map[string]bool{}}
	b.endpoint = mailEndpoint(deployment)
	b.mail.cloud, b.mail.bucket, err = MailStore(h.opt.Clouds)
	return err
}

// handling is the extra time that plans count for each task on a shared machine.
func (b *boughtClouds) handling() time.Duration {
	if b.mail != nil {
		return config.MailHandling
	}
	return config.Default().Handling
}

// names returns the names of the clouds, sorted.
func (b *boughtClouds) names() []string { return slices.Sorted(maps.Keys(b.clouds)) }

// proven returns the clouds whose machines must prove their identity, sorted.
func (b *boughtClouds) proven() []string { return slices.Sorted(maps.Keys(b.proofs)) }

// hosts returns the host names that machines use for the API.
func (b *boughtClouds) hosts() []string {
	if u, err := url.Parse(b.endpoint); err == nil && u.Hostname() != "" {
		return []string{u.Hostname()}
	}
	return nil
}

// narrow restricts a catalogue to the bought and the simulated clouds of this host. If nothing is bought, these are
// the clouds of Options.Play, or all clouds if that is empty.
func (b *boughtClouds) narrow(c *catalog.Catalog, playOthers bool, play map[string][]string) (*catalog.Catalog, error) {
	if len(b.clouds) == 0 {
		if len(play) == 0 {
			return c, nil
		}
		return cloudkit.Narrow(c, play, false)
	}
	return cloudkit.Narrow(c, b.regions, playOthers)
}

// sources is a price feed of several clouds, each of which may fail independently.
type sources struct {
	of  []cloudkit.Prices
	log *slog.Logger
}

// SpotPrices implements broker.Prices. If only some clouds fail, it logs their errors and returns the other prices.
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
		s.log.WarnContext(ctx, "some clouds do not report prices; planning with the last known ones", "err", err)
		return all, nil
	}
	return all, err
}

// claimRecord is the record that a host writes before it buys: the clouds on which its machines may run if it dies.
type claimRecord struct {
	Deployment string   `json:"deployment"`
	Clouds     []string `json:"clouds"`
}

const claimFile = "bought.json"

// claim returns the name of the deployment, and records the clouds in use. It returns ErrUnended if an earlier host may
// have left machines on a cloud that this host does not use.
func (h *Host) claim() (string, error) {
	var last claimRecord
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
	now := claimRecord{Deployment: name}
	for _, c := range h.opt.Clouds {
		now.Clouds = append(now.Clouds, c.Kit.Name)
	}
	for _, left := range last.Clouds {
		if !slices.Contains(now.Clouds, left) {
			return "", fmt.Errorf("%w on %s, bought by an earlier broker on this folder that did not stop properly: "+
				"start with --clouds %s, which continues with them or ends them", ErrUnended, left,
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

// unclaim records that no bought machines are left.
func (h *Host) unclaim() error {
	err := os.Remove(h.state.path(claimFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Forget records that a state folder has no machines left on a cloud, after the caller has checked that.
func Forget(dir, cloud string) error {
	s := state(dir)
	var last claimRecord
	if found, err := s.readJSON(claimFile, &last); err != nil || !found {
		return err
	}
	last.Clouds = slices.DeleteFunc(last.Clouds, func(name string) bool { return name == cloud })
	return s.writeJSON(claimFile, last)
}

// deploymentBytes is enough for a name that is unique in an account.
const deploymentBytes = 10

// DeploymentOf returns the deployment name of a state folder, which is part of the name of everything bought for it. It
// is generated once, and stays if the folder is moved.
func DeploymentOf(dir string) (string, error) {
	s, err := openState(dir)
	if err != nil {
		return "", err
	}
	text, err := s.secret("deployment") // not secret, but made and stored in the same way
	if err != nil {
		return "", err
	}
	return "tradewind-" + string(text[:deploymentBytes]), nil
}

// programFor is the time that a machine has to start the download of its agent.
const programFor = 10 * time.Minute

// programs serves the agents' programs to bought machines.
func (h *Host) programs() api.ProgramFunc {
	if len(h.opt.Programs.Files) == 0 {
		return nil
	}
	return h.program
}

// mounters serves rclone to bought machines that lack it, if there is a build for them.
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

// program copies a program to the objects at the first request for its digest, and returns a signed URL.
func (h *Host) program(ctx context.Context, sha256 string) (string, error) {
	file, ok := h.opt.Programs.Files[sha256]
	if !ok {
		return "", fmt.Errorf("%w: no program with the digest %s", record.ErrNotFound, sha256)
	}
	if h.bought.mail != nil {
		return h.bought.mail.program(ctx, sha256)
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
	return signed[0].URL, nil // relative to the URL at which the machine reached the broker
}

// place copies a file atomically, unless the target exists.
func place(from, to string) error {
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	f, err := os.Open(from) //nolint:gosec // a program from the host's options
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return files.Fill(to, 0o600, func(w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	})
}

// spotPrices returns the price feeds of all clouds that have one.
func (h *Host) spotPrices() sources {
	all := sources{make([]cloudkit.Prices, len(h.bought.prices)), h.log}
	for i, open := range h.bought.prices {
		all.of[i] = open(func(ctx context.Context) ([]string, error) { return h.broker.Views.WaitedFor(ctx) })
	}
	return all
}
