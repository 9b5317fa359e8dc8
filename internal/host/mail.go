package host

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/mailbox/desk"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Folders of a bucket that only the broker uses. Attempts cannot access them.
const (
	mailFolder   = "mail/"   // messages, in a folder for each deployment
	agentFolder  = "agent/"  // programs of agents, by digest
	mirrorFolder = "mirror/" // files of the state folder that machines read
)

// OwnObject reports whether the broker needs an object of a bucket only while machines run: a message, a program or a
// copy.
func OwnObject(bucket, uri string) bool {
	name := strings.TrimPrefix(uri, bucket+"/")
	return slices.ContainsFunc([]string{mailFolder, agentFolder, mirrorFolder}, func(folder string) bool {
		return strings.HasPrefix(name, folder)
	})
}

// mail connects bought machines with a broker that has no public URL, through a bucket.
type mail struct {
	cloud      string // that has the bucket
	bucket     string // URL: s3://NAME
	deployment string
	store      grant.Store
	state      state
	programs   cloudkit.Programs
	desk       *desk.Desk // set before anything is launched

	mu    sync.Mutex
	known map[string]bool // objects of agentFolder and mirrorFolder that are in the bucket
}

// keepIn sets the store of the bucket, if the bucket is one of this cloud.
func (m *mail) keepIn(cloud string, data grant.Store) {
	if m != nil && m.cloud == cloud {
		m.store = data
	}
}

// ready returns an error if messages are needed and their bucket cannot be used.
func (m *mail) ready() error {
	if m == nil || m.store != nil {
		return nil
	}
	return fmt.Errorf("cloud %s: %w", m.cloud, errNoMail)
}

// mailEndpoint is the base URL that calls through the bucket name. The top-level domain never exists (RFC 2606).
func mailEndpoint(deployment string) string { return "https://" + deployment + ".invalid" }

// errNoMail means that a broker has neither a public URL nor a bucket for messages.
var errNoMail = fmt.Errorf("%w: --public-url must name a tunnel, an ingress or a name of this computer, or "+
	"`tradewind cloud add CLOUD --bucket` create a bucket for messages", ErrPublicURL)

// MailStore returns the bucket through which bought machines and a broker without a public URL exchange messages: the
// first store of the clouds' settings. It returns ErrPublicURL if there is none, or if the machines of a cloud need an
// address.
func MailStore(clouds []Bought) (cloudName, bucket string, err error) {
	for _, c := range clouds {
		if c.Kit.NeedsAddress {
			return "", "", fmt.Errorf("%w: the machines of %s need --public-url", ErrPublicURL, c.Kit.Name)
		}
	}
	for _, c := range clouds {
		urls := c.Settings.StoreURLs(c.Kit.Name)
		for _, place := range slices.Sorted(maps.Keys(urls)) {
			return c.Kit.Name, urls[place], nil
		}
	}
	return "", "", errNoMail
}

// newDesk creates the desk that answers the messages with the host's API.
func (h *Host) newDesk(key []byte) {
	m := h.bought.mail
	if m == nil {
		return
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("mailboxes")) // never fails
	m.desk = desk.New(desk.Config{
		Bucket:  desk.Bucket{Store: m.store, URI: m.bucket + "/" + mailFolder + m.deployment},
		Handler: h.api, Key: mac.Sum(nil), Endpoint: mailEndpoint(m.deployment), Away: h.opt.Away,
		Open: h.openMailboxes, Log: h.log,
	})
}

// openMailboxes returns the clusters whose machines may still run.
func (h *Host) openMailboxes(ctx context.Context) (map[string]bool, error) {
	clusters, err := h.broker.Views.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	open := map[string]bool{}
	for _, cl := range clusters {
		open[cl.ID] = true // the record exists until the machines are gone
	}
	return open, h.bought.mail.forget(open)
}

// ticket is the data with which the machines of a cluster boot. It is stored, because a repeated launch must be
// identical, and two signatures of the same URL differ.
type ticket struct {
	Mailbox  string            `json:"mailbox"`
	Programs map[string]string `json:"programs"`
}

const ticketFolder = "mail"

func (m *mail) ticketFile(cluster string) string { return filepath.Join(ticketFolder, cluster+".json") }

// forget removes the tickets of clusters that have ended.
func (m *mail) forget(open map[string]bool) error {
	entries, err := os.ReadDir(m.state.path(ticketFolder))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		info, ierr := e.Info()
		if ierr != nil || open[strings.TrimSuffix(e.Name(), ".json")] || time.Since(info.ModTime()) < ticketFor {
			continue
		}
		err = errors.Join(err, os.Remove(m.state.path(ticketFolder, e.Name())))
	}
	return err
}

// ticketFor is the time for which a ticket is kept although no record shows that its cluster exists.
const ticketFor = time.Hour

// board adds to a launch the data by which the machines find their messages. Errors are *cloud.Error.
func (m *mail) board(ctx context.Context, spec *cloud.LaunchSpec) error {
	t, err := m.ticket(ctx, *spec)
	if err == nil {
		spec.Bootstrap.Mailbox, spec.Bootstrap.Programs = t.Mailbox, t.Programs
		return nil
	}
	kind := cloud.Transient
	if errors.Is(err, grant.ErrCredentials) || errors.Is(err, grant.ErrNoBucket) {
		kind = cloud.Auth
	}
	return cloud.Errorf(spec.Offer.Cloud, kind, "Mailbox", "the bucket of messages: %v", err)
}

func (m *mail) ticket(ctx context.Context, spec cloud.LaunchSpec) (t ticket, err error) {
	if found, err := m.state.readJSON(m.ticketFile(spec.Cluster), &t); found || err != nil {
		return t, err
	}
	if t.Programs, err = m.sources(ctx); err != nil {
		return t, err
	}
	address, err := m.desk.OpenMailbox(ctx, spec.Cluster, spec.Nodes)
	if err != nil {
		return t, err
	}
	t.Mailbox = address.String()
	if err := os.MkdirAll(m.state.path(ticketFolder), 0o700); err != nil {
		return t, err
	}
	return t, m.state.writeJSON(m.ticketFile(spec.Cluster), t)
}

// sources returns the URLs of the agents' programs by digest. Programs that the bucket lacks are uploaded.
func (m *mail) sources(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	mounters := slices.Collect(maps.Values(m.programs.Mounters))
	for sum := range m.programs.Files {
		if slices.Contains(mounters, sum) {
			continue
		}
		link, err := m.program(ctx, sum)
		if err != nil {
			return nil, err
		}
		out[sum] = link
	}
	return out, nil
}

// program returns a URL of a program.
func (m *mail) program(ctx context.Context, sum string) (string, error) {
	return m.link(ctx, agentFolder+sum+"/program", m.programs.Files[sum], grant.Want{Op: grant.Get, For: programFor})
}

// link returns a signed URL of a file in the bucket, after it has uploaded the file if it is missing.
func (m *mail) link(ctx context.Context, key, file string, w grant.Want) (string, error) {
	g, err := m.lend(ctx, key, file, w)
	return g.URL, err
}

// lend signs a request for a file in the bucket, after it has uploaded the file if it is missing.
func (m *mail) lend(ctx context.Context, key, file string, w grant.Want) (grant.Grant, error) {
	uri, err := grant.Below(m.bucket, key)
	if err != nil {
		return grant.Grant{}, err
	}
	if err := m.upload(ctx, uri, file); err != nil {
		return grant.Grant{}, err
	}
	w.URI = uri
	signed, err := m.store.Sign(ctx, w)
	if err != nil {
		return grant.Grant{}, err
	}
	return signed[0], nil
}

func (m *mail) upload(ctx context.Context, uri, file string) error {
	m.mu.Lock()
	known := m.known[uri]
	m.mu.Unlock()
	if known {
		return nil
	}
	page, err := m.store.List(ctx, uri[:strings.LastIndexByte(uri, '/')+1], "")
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(page.Objects, func(o grant.Listed) bool { return o.URI == uri }) {
		if err := m.put(ctx, uri, file); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[uri] = true
	return nil
}

// uploadFor is the lifetime of the signature for an upload.
const uploadFor = 6 * time.Hour

func (m *mail) put(ctx context.Context, uri, file string) error {
	f, err := os.Open(file) //nolint:gosec // a program, or a file of the state folder
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	signed, err := m.store.Sign(ctx, grant.Want{Op: grant.Put, URI: uri, Size: info.Size(), For: uploadFor})
	if err != nil {
		return err
	}
	req, err := signed[0].Request(ctx, f, info.Size())
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return grant.Redact(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode >= http.StatusMultipleChoices {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		return fmt.Errorf("upload to %s: %s %s", uri, resp.Status, text)
	}
	return nil
}

// mirrored is the store of the state folder, for a broker without an address. Machines cannot reach the folder, so
// files that they read are first copied to the bucket.
type mirrored struct {
	grant.Store
	mail *mail
}

// mirrorAtOnce is the number of files that are copied at the same time.
const mirrorAtOnce = 8

// Sign implements grant.Signer.
func (s mirrored) Sign(ctx context.Context, wants ...grant.Want) ([]grant.Grant, error) {
	grants := make([]grant.Grant, len(wants))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(mirrorAtOnce)
	for i, w := range wants {
		group.Go(func() (err error) {
			grants[i], err = s.sign(ctx, w)
			return err
		})
	}
	return grants, group.Wait()
}

func (s mirrored) sign(ctx context.Context, w grant.Want) (grant.Grant, error) {
	signed, err := s.Store.Sign(ctx, w) // which also checks that the file is below the folder
	if err != nil {
		return grant.Grant{}, err
	}
	if w.Op != grant.Get {
		return signed[0], nil
	}
	o, err := grant.ParseOf("file", w.URI)
	if err != nil {
		return grant.Grant{}, err
	}
	file := filepath.FromSlash("/" + o.Key)
	info, err := os.Stat(file)
	if err != nil {
		return signed[0], nil //nolint:nilerr // reading it answers 404
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", file, info.Size(), info.ModTime().UnixNano()))
	return s.mail.lend(ctx, mirrorFolder+hex.EncodeToString(sum[:])+"/file", file, w)
}

// serveMail answers messages until ctx ends. It returns when the messages that waited have been passed on. Otherwise
// machines whose messages waited while the broker was away would seem silent.
func (h *Host) serveMail(ctx context.Context, wg *sync.WaitGroup) {
	m := h.bought.mail
	if m == nil {
		return
	}
	wg.Go(func() { m.desk.Run(ctx) })
	select {
	case <-m.desk.Looked():
		_ = clock.Pause(ctx, mailWithin)
	case <-time.After(mailReachable):
		h.log.Warn("the bucket of messages does not answer", "bucket", m.bucket)
	case <-ctx.Done():
	}
}

// clearMail removes all messages after the machines have ended, since this host may never be started again.
func (h *Host) clearMail() {
	m := h.bought.mail
	if m == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), bucketsWithin)
	defer cancel()
	err := errors.Join(m.desk.Clear(ctx), os.RemoveAll(m.state.path(ticketFolder)))
	if err != nil {
		h.log.Warn("messages are left in the bucket", "bucket", m.bucket, "err", err)
	}
}

// Times, in wall time, at the start of a broker that reads messages.
const (
	mailWithin    = 3 * time.Second  // for the messages that were waiting
	mailReachable = 30 * time.Second // for the bucket to answer
)
