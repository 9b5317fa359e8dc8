// Package notices watches whether a machine's cloud is about to take the machine. Each cloud announces this at an
// address that only the machine itself can reach:
//
//   - AWS: the instance metadata service, version 2, at spot/instance-action (two minutes ahead) and
//     events/recommendations/rebalance (earlier, and advice only), polled every five seconds as the EC2 User Guide
//     advises ("Spot Instance interruption notices"), and at events/maintenance/scheduled once a minute (stops,
//     retirements and reboots for maintenance, days ahead; "Scheduled events for your instances");
//   - Google Cloud: instance/preempted of the metadata server, which holds the request until the value changes
//     ("Preemptible VM instances": 30 seconds ahead);
//   - Azure: the Scheduled Events document ("Azure Metadata Service: Scheduled Events for Linux VMs"), in which an
//     event of type Preempt names this machine (at least 30 seconds ahead), or one of type Reboot, Redeploy or
//     Terminate (minutes ahead);
//   - Kubernetes: a pod that is evicted, drained or deleted gets SIGTERM and its grace period ("Pod Lifecycle").
//
// A watcher continues after every error, because a machine must not stop when its metadata service does not answer.
// If the broker also learns of the interruption (through EventBridge or Pub/Sub), the same notice arrives twice,
// which changes nothing.
//
// A watcher only runs if the environment selects a cloud. A user's own computer has none.
package notices

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
)

// ErrUnknown means that the cloud is unknown or that the address is invalid.
var ErrUnknown = errors.New("notices: unknown cloud or address")

// Kind is the kind of a notice: a warning or advice. The values are those of a cloud's notices to the broker.
type Kind string

// Kinds of notice.
const (
	Interruption Kind = "interruption" // the machine will be taken at At
	Rebalance    Kind = "rebalance"    // likely to be taken
)

// Notice is an announcement of a machine's cloud about the machine.
type Notice struct {
	Kind Kind
	ID   string    // identifies the notice; a repeated notice has the same ID
	At   time.Time // time at which the machine will be taken; for advice, the time at which it was given
}

// Watcher watches the notices of one cloud.
type Watcher interface {
	// Watch calls tell once for every notice, until ctx ends.
	Watch(ctx context.Context, tell func(Notice))
}

// Config configures a watcher. The zero values are useful.
type Config struct {
	URL    string        // of the metadata service; if empty, the cloud's default
	Every  time.Duration // between two polls; 5 s on AWS, 1 s elsewhere
	Grace  time.Duration // time of a pod between SIGTERM and its end; 0 means 30 s, the default of Kubernetes
	Client *http.Client
	Clock  clock.Clock
	Log    *slog.Logger
}

// linkLocal is the address of the metadata service of all these clouds.
const linkLocal = "http://169.254.169.254"

// answerTime is the timeout of one request. Azure may take two minutes to answer the first; GCP holds its answer.
const answerTime = 2 * time.Minute

// maxAnswer is the maximum size of an answer, in bytes.
const maxAnswer = 1 << 20

// New returns the watcher of a cloud: aws, gcp, azure or kubernetes. The error is ErrUnknown.
func New(cloud string, c Config) (Watcher, error) {
	if c.URL == "" {
		c.URL = linkLocal
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%w: metadata service at %q", ErrUnknown, c.URL)
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Client == nil {
		// Never use a proxy: only this machine can reach its metadata service.
		c.Client = &http.Client{
			Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	s := service{base: strings.TrimSuffix(c.URL, "/"), client: c.Client}
	p := poller{clock: c.Clock, log: c.Log, every: c.Every}
	switch cloud {
	case "aws":
		return &aws{service: s, poller: p.orEvery(5 * time.Second)}, nil
	case Google:
		return &gcp{service: s, poller: p.orEvery(time.Second)}, nil
	case "azure":
		return &azure{service: s, poller: p.orEvery(time.Second)}, nil
	}
	if cloud == Kubernetes {
		return &sigterm{grace: cmp.Or(c.Grace, podGrace), clock: c.Clock}, nil
	}
	return nil, fmt.Errorf("%w: %q is not one of aws, gcp, azure, kubernetes", ErrUnknown, cloud)
}

// Leads runs a watcher until ctx ends. The returned channel, for agent.Config.Notices, receives the time left before
// the cloud takes the machine. It is closed at the end. Notices that only advise a move are logged: the broker receives
// them too, and decides.
func Leads(ctx context.Context, w Watcher, now func() time.Time, log *slog.Logger) <-chan time.Duration {
	leads := make(chan time.Duration, 1)
	go func() {
		defer close(leads)
		w.Watch(ctx, func(n Notice) {
			log.Info("notice from the cloud", "kind", n.Kind, "at", n.At, "id", n.ID)
			if n.Kind != Interruption {
				return
			}
			select {
			case leads <- max(n.At.Sub(now()), 0):
			case <-ctx.Done():
			}
		})
	}()
	return leads
}

// poller polls repeatedly.
type poller struct {
	clock clock.Clock
	log   *slog.Logger
	every time.Duration
}

func (p poller) orEvery(d time.Duration) poller {
	if p.every <= 0 {
		p.every = d
	}
	return p
}

// maxPause is the maximum pause after failures.
const maxPause = time.Minute

// run calls ask until ctx ends, and calls tell once for each notice. After failures, the pauses grow.
func (p poller) run(ctx context.Context, tell func(Notice), ask func(context.Context) ([]Notice, error)) {
	told := make(map[string]bool)
	pause := p.every
	for ctx.Err() == nil {
		found, err := ask(ctx)
		for _, n := range found {
			if !told[n.ID] {
				told[n.ID] = true
				tell(n)
			}
		}
		switch {
		case err == nil:
			pause = p.every
		case ctx.Err() == nil:
			p.log.Debug("the metadata service does not answer", "err", err)
			pause = min(2*pause, max(maxPause, p.every))
		}
		if p.clock.After(ctx, p.clock.Now().Add(pause)) != nil {
			return
		}
	}
}

// service is a metadata service.
type service struct {
	base   string
	client *http.Client
}

// statusError is the HTTP status of an unsuccessful answer.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// ask makes one call and returns the body of an answer with status 200.
func (s service) ask(ctx context.Context, method, path string, header http.Header) (string, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.base+path, nil)
	if err != nil {
		return "", nil, err
	}
	r.Header = header
	res, err := s.client.Do(r)
	if err != nil {
		return "", nil, err
	}
	defer res.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", path, err)
	}
	if res.StatusCode != http.StatusOK {
		return "", nil, fmt.Errorf("%s: %w", path, statusError(res.StatusCode))
	}
	return string(body), res.Header, nil
}
