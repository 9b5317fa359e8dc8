// Package remote is a cloud whose driver runs in another process: a separate function. Only that function links the
// cloud's SDK, and only it has rights in that cloud. [Client] is the driver that the broker uses. It calls [Server].
// Each call is one JSON message and one JSON answer, over any transport.
//
// The remote driver is idempotent by the cluster's name, so the broker may repeat a call whose answer was lost.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/push"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
)

// Codes of failures of the transport, not of the cloud.
const (
	codeNoAnswer   = "NoAnswer"    // the call did not return
	codeBadMessage = "BadMessage"  // the request or the answer is not a message of this package
	codeEnded      = "CallEnded"   // the caller's context ended
	codeUnknown    = "UnknownCall" // the other side is an older version
)

// call is a request.
type call struct {
	Op      string            `json:"op"`
	Spec    *cloud.LaunchSpec `json:"spec,omitempty"`
	Cluster string            `json:"cluster,omitempty"`
	// Snapshot is the catalogue's part of this cloud, from which a refresh starts. The answer has the new one.
	Snapshot []byte `json:"snapshot,omitempty"`
	// Bearer and Body are the parts of a push. Bucket and Key name a file, and Body is its content.
	Bearer string `json:"bearer,omitempty"`
	Body   []byte `json:"body,omitempty"`
	Bucket string `json:"bucket,omitempty"`
	Key    string `json:"key,omitempty"`
	// Topic and Attributes belong to a message. Body is its content.
	Topic      string            `json:"topic,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
	// Managed has the arguments of an operation of a managed service.
	Managed *serviceCall `json:"managed,omitempty"`
	// Within is the time for which the caller waits. The server stops the call after that time.
	Within time.Duration `json:"within,omitempty"`
}

// The operations.
const (
	opLaunch    = "launch"
	opTerminate = "terminate"
	opMachines  = "machines"
	opCheck     = "check"
	opRefresh   = "refresh"
	opPush      = "push"
	opRead      = "read"
	opWrite     = "write"
	opRemove    = "remove"
	opAnnounce  = "announce"
	opClean     = "clean"
)

// answer is the result of a call.
type answer struct {
	Machines []cloud.Machine `json:"machines,omitempty"`
	Report   *driver.Report  `json:"report,omitempty"`
	Cleaned  []string        `json:"cleaned,omitempty"`
	Snapshot []byte          `json:"snapshot,omitempty"`
	driver.Refreshed
	// News is the content of a push. If the push could not be read, Unread is the code of the reason, and Why its
	// text.
	push.News
	Unread string `json:"unread,omitempty"`
	Why    string `json:"why,omitempty"`
	// Packed is a file's content, gzipped, and Version the file's version.
	Packed  []byte `json:"packed,omitempty"`
	Version string `json:"version,omitempty"`
	// Managed has the results of an operation of a managed service.
	Managed *serviceAnswer `json:"managed,omitempty"`

	Failure *failure `json:"failure,omitempty"`
}

// failure is a cloud.Error as it is sent.
type failure struct {
	Kind       cloud.Kind    `json:"kind"`
	Code       string        `json:"code,omitempty"`
	Message    string        `json:"message,omitempty"`
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
	Late       int           `json:"late,omitempty"`
	Scope      cloud.Scope   `json:"scope,omitempty"`
	Class      string        `json:"class,omitempty"`
}

// error returns the failure as an error of a cloud.
func (f *failure) error(cloudName string) *cloud.Error {
	return &cloud.Error{Kind: f.Kind, Cloud: cloudName, Code: f.Code, Message: f.Message, RetryAfter: f.RetryAfter,
		Late: f.Late, Scope: f.Scope, Class: f.Class}
}

// Call sends a message to the server and returns its answer.
type Call func(ctx context.Context, message []byte) ([]byte, error)

// Client is a cloud whose driver runs on the other side. It implements cloud.Cloud, driver.Checker and
// driver.Cleaner.
type Client struct {
	name string
	call Call
}

var (
	_ cloud.Cloud    = (*Client)(nil)
	_ driver.Checker = (*Client)(nil)
	_ driver.Cleaner = (*Client)(nil)
)

// New returns the driver of the cloud with the given catalogue name.
func New(name string, call Call) *Client { return &Client{name: name, call: call} }

// Name implements cloud.Cloud.
func (c *Client) Name() string { return c.name }

// Launch implements cloud.Cloud.
func (c *Client) Launch(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	if err := driver.Check(c.name, spec); err != nil {
		return nil, err
	}
	a, err := c.roundTrip(ctx, call{Op: opLaunch, Spec: &spec})
	return a.Machines, err
}

// Terminate implements cloud.Cloud.
func (c *Client) Terminate(ctx context.Context, cluster string) error {
	_, err := c.roundTrip(ctx, call{Op: opTerminate, Cluster: cluster})
	return err
}

// Machines implements cloud.Cloud.
func (c *Client) Machines(ctx context.Context, cluster string) ([]cloud.Machine, error) {
	a, err := c.roundTrip(ctx, call{Op: opMachines, Cluster: cluster})
	return a.Machines, err
}

// Check implements driver.Checker.
func (c *Client) Check(ctx context.Context) (driver.Report, error) {
	a, err := c.roundTrip(ctx, call{Op: opCheck})
	if err != nil || a.Report == nil {
		return driver.Report{}, err
	}
	return *a.Report, nil
}

// Clean implements driver.Cleaner. A driver that creates nothing besides machines has nothing to delete.
func (c *Client) Clean(ctx context.Context, tell func(deleted string)) error {
	a, err := c.roundTrip(ctx, call{Op: opClean})
	for _, deleted := range a.Cleaned {
		tell(deleted)
	}
	return err
}

// Refresh is a driver.Refresh: it sends the snapshot, and stores the one that is returned.
func (c *Client) Refresh(ctx context.Context, s driver.Snapshots) (driver.Refreshed, error) {
	data, _, err := s.Get(ctx, "")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return driver.Refreshed{}, err
	}
	a, err := c.roundTrip(ctx, call{Op: opRefresh, Snapshot: data})
	if err != nil {
		return driver.Refreshed{}, err
	}
	if len(a.Snapshot) == 0 {
		return driver.Refreshed{}, c.fail(cloud.Invalid, codeUnknown, errNoSnapshot)
	}
	return a.Refreshed, s.Put(ctx, a.Snapshot)
}

var errNoSnapshot = errors.New("the cloud's function did not return its offers: deploy it again")

func (c *Client) roundTrip(ctx context.Context, what call) (a answer, err error) {
	if err := ctx.Err(); err != nil {
		return a, c.fail(cloud.Transient, codeEnded, err)
	}
	if until, ok := ctx.Deadline(); ok {
		what.Within = time.Until(until)
	}
	message, err := json.Marshal(what)
	if err != nil {
		return a, c.fail(cloud.Invalid, codeBadMessage, err)
	}
	back, err := c.call(ctx, message)
	if err != nil {
		return a, c.fail(cloud.Transient, codeNoAnswer, err)
	}
	if err := json.Unmarshal(back, &a); err != nil {
		return a, c.fail(cloud.Transient, codeBadMessage, err)
	}
	if f := a.Failure; f != nil {
		return answer{Managed: a.Managed}, f.error(c.name)
	}
	return a, nil
}

func (c *Client) fail(kind cloud.Kind, code string, err error) error {
	return &cloud.Error{Kind: kind, Cloud: c.name, Code: code, Message: err.Error(), Err: err}
}

// Server answers the calls of clients with a driver.
type Server struct {
	// Cloud is nil if the function serves only the managed services of the cloud Name.
	Cloud   cloud.Cloud
	Name    string         // the catalogue's name of the cloud; if empty, that of Cloud
	Checker driver.Checker // if nil, the driver itself, if it is one
	Refresh driver.Refresh // nil if the cloud's offers cannot be listed
	Pushed  push.Read      // nil if nothing is pushed
	Files   driver.Files   // nil if no bucket's files are jobs
	// Announcer is nil if the cloud has no topics.
	Announcer driver.Announcer
	// Services are the managed services of the cloud that the server buys, by their name in the catalogue.
	Services map[string]service.Service
}

func (s Server) name() string {
	if s.Name == "" {
		return s.Cloud.Name()
	}
	return s.Name
}

// Serve answers one call. It fails only if the message is not one of this package. A failure of the cloud is an
// answer.
func (s Server) Serve(ctx context.Context, message []byte) ([]byte, error) {
	var in call
	if err := json.Unmarshal(message, &in); err != nil {
		return nil, fmt.Errorf("cloud %s: call: %w", s.name(), err)
	}
	if in.Within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, in.Within)
		defer cancel()
	}
	out, err := s.do(ctx, in)
	if err != nil {
		out = answer{Failure: failed(err), Managed: out.Managed}
	}
	return json.Marshal(out)
}

func (s Server) do(ctx context.Context, in call) (out answer, err error) {
	switch in.Op {
	case opCreatePlace, opSubmitRun, opWatchRun, opReadLog, opCancelRun, opEndPlace, opPlaces:
		return s.managed(ctx, in)
	}
	if s.Cloud == nil && in.Op != opCheck {
		return out, cloud.Errorf(s.name(), cloud.Invalid, codeUnknown, "this function serves only managed services")
	}
	switch in.Op {
	case opLaunch:
		if in.Spec == nil {
			return out, cloud.Errorf(s.name(), cloud.Invalid, codeBadMessage, "a launch without a spec")
		}
		out.Machines, err = s.Cloud.Launch(ctx, *in.Spec)
	case opTerminate:
		err = s.Cloud.Terminate(ctx, in.Cluster)
	case opMachines:
		out.Machines, err = s.Cloud.Machines(ctx, in.Cluster)
	case opCheck:
		checker := s.Checker
		if checker == nil {
			checker, _ = s.Cloud.(driver.Checker)
		}
		if checker == nil {
			return out, cloud.Errorf(s.name(), cloud.Invalid, codeUnknown, "this driver cannot be checked")
		}
		var report driver.Report
		report, err = checker.Check(ctx)
		out.Report = &report
	case opClean:
		if c, ok := s.Cloud.(driver.Cleaner); ok {
			err = c.Clean(ctx, func(deleted string) { out.Cleaned = append(out.Cleaned, deleted) })
		}
	case opAnnounce:
		if s.Announcer == nil {
			return out, cloud.Errorf(s.name(), cloud.Invalid, codeUnknown, "this cloud has no topics")
		}
		err = s.Announcer.Announce(ctx, in.Topic, in.Body, in.Attributes)
	case opPush:
		return s.pushed(ctx, in)
	case opRead, opWrite, opRemove:
		return s.file(ctx, in)
	case opRefresh:
		if s.Refresh == nil {
			return out, cloud.Errorf(s.name(), cloud.Invalid, codeUnknown, "this cloud's offers cannot be listed")
		}
		kept := driver.NewMemory(in.Snapshot)
		if out.Refreshed, err = s.Refresh(ctx, kept); err == nil {
			out.Snapshot, _, err = kept.Get(ctx, "")
		}
	default:
		err = cloud.Errorf(s.name(), cloud.Invalid, codeUnknown, "unknown call %q", in.Op)
	}
	return out, err
}

// failed converts an error for sending. An error without a kind is Transient, as in cloud.KindOf.
func failed(err error) *failure {
	var e *cloud.Error
	if errors.As(err, &e) {
		return &failure{Kind: e.Kind, Code: e.Code, Message: e.Message, RetryAfter: e.RetryAfter,
			Late: e.Late, Scope: e.Scope, Class: e.Class}
	}
	return &failure{Kind: cloud.KindOf(err), Message: err.Error()}
}
