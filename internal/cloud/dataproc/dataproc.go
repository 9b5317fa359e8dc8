// Package dataproc runs Spark applications on Google Cloud's Dataproc and on Dataproc Serverless. On Dataproc, a
// place is a cluster, and a run is one of its jobs. On Dataproc Serverless, a place is a label of batches, and a run
// is a batch. Their names are unique in a project and region, so a repeated call finds the resources of the first
// call.
package dataproc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/api/dataproc/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"

	"github.com/tradewind-broker/tradewind/internal/base/lazyregexp"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
)

// The catalogue's names of the services.
const (
	Name           = "dataproc"
	ServerlessName = "dataproc-serverless"
)

const scheme = "gs"

// Config is the configuration of both drivers. Deployment, Project and Regions are required; the zero values of the
// other fields are defaults.
type Config struct {
	// Deployment is the name in the label of all resources that the driver makes. A driver uses only resources with
	// its own label.
	Deployment string
	Project    string
	Regions    []string // in which places may be
	// ServiceAccount is the email address of the account of machines and batches: it reads code and inputs, and writes
	// outputs and logs. If empty, the default account of Compute Engine.
	ServiceAccount string
	// Subnetwork is a name, or a path if it belongs to another project; if empty, the default network.
	Subnetwork string
	Labels     map[string]string
	// Graves remember ended places; if nil, in this process's memory.
	Graves driver.Graves
	// Endpoint replaces https://SERVICE.googleapis.com for all services: a proxy, or an emulator.
	Endpoint string
	// Client are more options of Google's clients: credentials, or an HTTP client.
	Client []option.ClientOption
}

// base is the common part of both drivers.
type base struct {
	cfg    Config
	google *gcp.Cloud
	graves driver.Graves
	locks  driver.Locks

	mu      sync.Mutex
	service *dataproc.Service
	objects *storage.Service
}

func newBase(cfg Config) *base {
	b := &base{cfg: cfg, graves: cfg.Graves, google: gcp.New(gcp.Config{
		Deployment: cfg.Deployment, Project: cfg.Project, Endpoint: cfg.Endpoint, Client: cfg.Client,
	})}
	if b.graves == nil {
		b.graves = &driver.MemoryGraves{}
	}
	return b
}

// api returns the client, made at first use, because finding credentials may take calls.
func (b *base) api(ctx context.Context) (*dataproc.Service, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.service != nil {
		return b.service, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := dataproc.NewService(context.WithoutCancel(ctx), b.google.Options("/")...)
	if err != nil {
		return nil, noCredentials(err)
	}
	b.service = s
	return s, nil
}

func (b *base) storage(ctx context.Context) (*storage.Service, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.objects != nil {
		return b.objects, nil
	}
	s, err := storage.NewService(context.WithoutCancel(ctx), b.google.Options("/storage/v1/")...)
	if err != nil {
		return nil, noCredentials(err)
	}
	b.objects = s
	return s, nil
}

func noCredentials(err error) error {
	e := cloud.Errorf(gcp.Name, cloud.Auth, cloud.CodeNoCredentials, "%v", err)
	e.Err = err
	return e
}

// full is the cloud's name of a place.
func (b *base) full(place string) string { return service.Prefix(b.cfg.Deployment) + place }

func (b *base) notEnded(ctx context.Context, place string) error {
	buried, err := b.graves.Buried(ctx, b.full(place))
	if err == nil && buried {
		err = service.ErrorEnded(gcp.Name, place)
	}
	return err
}

func (b *base) check(spec service.Spec) error {
	if err := spec.Check(gcp.Name, scheme); err != nil {
		return err
	}
	if !slices.Contains(b.cfg.Regions, spec.Region) {
		return cloud.OfRegion(cloud.Errorf(gcp.Name, cloud.Quota, "RegionNotEnabled",
			"region %q is not among the regions of this deployment: %v", spec.Region, b.cfg.Regions))
	}
	return nil
}

// labels returns the labels of a place or run.
func (b *base) labels(place, run string, more map[string]string) map[string]string {
	all := map[string]string{}
	for k, v := range b.cfg.Labels {
		all[gcp.LabelText(k)] = gcp.LabelText(v)
	}
	for k, v := range more {
		all[gcp.LabelText("tradewind-"+k)] = gcp.LabelText(v)
	}
	all[labelDeployment], all[labelPlace] = strings.Trim(service.Prefix(b.cfg.Deployment), "-"), place
	if run != "" {
		all[labelRun] = run
	}
	return all
}

// The labels by which batches are found.
const (
	labelDeployment = "tradewind-deployment"
	labelPlace      = "tradewind-place"
	labelRun        = "tradewind-run"
)

// id returns a digest of names in 16 characters, and requestID a UUID of them. Google answers a repeated request with
// the same ID like the first one.
func (b *base) id(names ...string) string {
	sum := sha256.Sum256([]byte(b.cfg.Deployment + "\x00" + strings.Join(names, "\x00")))
	return hex.EncodeToString(sum[:8])
}

func (b *base) requestID(names ...string) string {
	sum := sha256.Sum256([]byte(b.cfg.Deployment + "\x00" + strings.Join(names, "\x00")))
	sum[6], sum[8] = sum[6]&0x0f|0x50, sum[8]&0x3f|0x80 // the format of a name-based UUID (RFC 9562)
	h := hex.EncodeToString(sum[:16])
	return fmt.Sprintf("%s-%s-%s-%s-%s", h[:8], h[8:12], h[12:16], h[16:20], h[20:])
}

// bucket returns the bucket of a prefix gs://bucket/prefix/: Dataproc chooses the names of logs in it.
func bucket(prefix string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(prefix, scheme+"://"), "/")
	return name
}

// log reads the output of a driver: the objects with this prefix, in their order (Dataproc documentation, "Dataproc job
// output and logs"). Both streams are mixed in it.
func (b *base) log(ctx context.Context, uri string) (service.Log, error) {
	in, prefix, ok := strings.Cut(strings.TrimPrefix(uri, scheme+"://"), "/")
	if !ok {
		return service.Log{}, nil
	}
	s, err := b.storage(ctx)
	if err != nil {
		return service.Log{}, err
	}
	var names []string
	list := s.Objects.List(in).Prefix(prefix).Fields("items/name", "nextPageToken")
	err = list.Pages(ctx, func(o *storage.Objects) error {
		for _, x := range o.Items {
			names = append(names, x.Name)
		}
		return nil
	})
	if err != nil {
		return service.Log{}, err
	}
	slices.Sort(names)
	var text bytes.Buffer
	for _, name := range names {
		answer, err := s.Objects.Get(in, name).Context(ctx).Download()
		if isStatus(err, http.StatusNotFound) {
			continue
		}
		if err != nil {
			return service.Log{}, err
		}
		_, err = io.Copy(&text, io.LimitReader(answer.Body, int64(service.MaxLog-text.Len())))
		_ = answer.Body.Close()
		if err != nil {
			return service.Log{}, err
		}
	}
	return service.Log{Stdout: text.Bytes()}, nil
}

func isStatus(err error, code int) bool {
	var answer *googleapi.Error
	return errors.As(err, &answer) && answer.Code == code
}

// insufficientQuota is a part of Dataproc's messages about quotas. Their code is that of an invalid request:
// "Insufficient 'CPUS' quota. Requested 12.0, available 8.0."
//
// Source: Dataproc documentation, "Cloud Quotas" and "Troubleshoot cluster creation issues".
var insufficientQuota = lazyregexp.New(`Insufficient '[A-Z0-9_]+' quota`)

// typed converts an error of Dataproc to a *cloud.Error.
func typed(err error) error {
	var e *cloud.Error
	if err = gcp.Typed(err); errors.As(err, &e) && e.Kind == cloud.Invalid && insufficientQuota.MatchString(e.Message) {
		again := *e
		again.Kind, again.Err = cloud.Quota, err
		return &again
	}
	return err
}

// files are the files of an application, as jobs and batches name them.
type files struct {
	python                  bool
	main, class             string
	args, pyFiles, jarFiles []string
	properties              map[string]string
}

func filesOf(app service.App) files {
	f := files{python: strings.HasSuffix(app.Main, ".py"), main: app.Main, class: app.Class, args: app.Args,
		pyFiles: app.PyFiles, jarFiles: app.Jars, properties: app.Properties()}
	if len(app.Packages) > 0 {
		f.properties["spark.jars.packages"] = strings.Join(app.Packages, ",")
	}
	if !f.python { // the class is in the first jar
		f.jarFiles = append([]string{app.Main}, app.Jars...)
	}
	return f
}

// seconds returns a duration as Google writes it, within limits.
func seconds(d, least, most time.Duration) string {
	return fmt.Sprintf("%ds", int64(min(max(d, least), most)/time.Second))
}

// parsed reads a time; the zero time if there is none.
func parsed(text string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, text)
	return t
}
