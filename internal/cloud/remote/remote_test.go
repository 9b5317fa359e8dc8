package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/push"
	"github.com/tradewind-broker/tradewind/internal/cloud/remote"
	"github.com/tradewind-broker/tradewind/internal/identity"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// distant is a driver with preset answers. The conformance suite of this package runs in internal/cloud/aws.
type distant struct {
	machines []cloud.Machine
	err      error
	within   time.Duration // time to the deadline of the last call
	spec     cloud.LaunchSpec
	ended    string
}

func (d *distant) Name() string { return "gcp" }

func (d *distant) Launch(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	if until, ok := ctx.Deadline(); ok {
		d.within = time.Until(until)
	}
	d.spec = spec
	return d.machines, d.err
}

func (d *distant) Terminate(_ context.Context, cluster string) error {
	d.ended = cluster
	return d.err
}

func (d *distant) Machines(context.Context, string) ([]cloud.Machine, error) {
	return d.machines, d.err
}

func (d *distant) Check(context.Context) (driver.Report, error) {
	return driver.Report{Identity: "somebody", Missing: []driver.Lack{{What: "rights", Mend: "gcloud", Fatal: true}}}, d.err
}

var spec = cloud.LaunchSpec{
	Cluster: "job.0.1", Nodes: 1, MaxUSDPerHour: 0.5, DiskGiB: 40, Image: "family/x", Labels: map[string]string{"job": "j"},
	Offer:     apitypes.Offer{Cloud: "gcp", Region: "r", Zone: "z", InstanceType: "n1", Accelerator: "T4", AccelCount: 1, Spot: true, USDPerHour: 0.2},
	Bootstrap: cloud.Bootstrap{Endpoint: "https://broker", Tokens: []string{"t"}},
}

func TestClientAndServerRoundTrip(t *testing.T) {
	d := &distant{machines: []cloud.Machine{{
		ID: "1", Cluster: "job.0.1", Account: "p", State: cloud.Running, Offer: spec.Offer, Launched: time.Unix(9, 0).UTC(),
	}}}
	c := remote.New("gcp", remote.Server{Cloud: d}.Serve)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := c.Launch(ctx, spec)
	if err != nil || !reflect.DeepEqual(got, d.machines) || !reflect.DeepEqual(d.spec, spec) {
		t.Errorf("%v: %+v\nasked for %+v", err, got, d.spec)
	}
	if d.within <= 0 || d.within > time.Minute {
		t.Errorf("the other side got a deadline of %v", d.within)
	}
	if got, err := c.Machines(ctx, ""); err != nil || !reflect.DeepEqual(got, d.machines) {
		t.Errorf("%v: %+v", err, got)
	}
	if err := c.Terminate(ctx, "job.0.1"); err != nil || d.ended != "job.0.1" {
		t.Errorf("%v, ended %q", err, d.ended)
	}
	if r, err := c.Check(ctx); err != nil || r.Identity != "somebody" || len(r.Missing) != 1 || !r.Missing[0].Fatal {
		t.Errorf("%v: %+v", err, r)
	}
}

func TestRefreshExchangesSnapshots(t *testing.T) {
	server := remote.Server{Cloud: &distant{}, Refresh: func(ctx context.Context, s driver.Snapshots) (driver.Refreshed, error) {
		data, _, err := s.Get(ctx, "")
		if err != nil {
			return driver.Refreshed{}, err
		}
		return driver.Refreshed{Offers: 7, Kept: []string{"quotas: no rights"}}, s.Put(ctx, append(data, " and more"...))
	}}
	shelf := driver.NewMemory([]byte("known"))
	got, err := remote.New("gcp", server.Serve).Refresh(t.Context(), shelf)
	now, _, _ := shelf.Get(t.Context(), "")
	if err != nil || got.Offers != 7 || len(got.Kept) != 1 || string(now) != "known and more" {
		t.Errorf("%v: %+v, %q", err, got, now)
	}
	for name, s := range map[string]remote.Server{
		"a cloud that cannot list its offers": {Cloud: &distant{}},
		"a cloud that fails": {Cloud: &distant{}, Refresh: func(context.Context, driver.Snapshots) (driver.Refreshed, error) {
			return driver.Refreshed{}, errors.New("down")
		}},
	} {
		if _, err := remote.New("gcp", s.Serve).Refresh(t.Context(), shelf); err == nil {
			t.Errorf("%s: no failure", name)
		}
		if now, _, _ := shelf.Get(t.Context(), ""); string(now) != "known and more" {
			t.Errorf("%s: the snapshot is now %q", name, now)
		}
	}
	older := remote.New("gcp", func(context.Context, []byte) ([]byte, error) { return []byte(`{}`), nil })
	if _, err := older.Refresh(t.Context(), shelf); err == nil || !strings.Contains(err.Error(), "deploy it again") {
		t.Errorf("a function without refresh: %v", err)
	}
}

func TestFailuresKeepTheirKind(t *testing.T) {
	want := &cloud.Error{Kind: cloud.Capacity, Cloud: "gcp", Code: "STOCKOUT", Message: "none left", RetryAfter: time.Minute, Late: 2}
	d := &distant{err: want}
	c := remote.New("gcp", remote.Server{Cloud: d}.Serve)
	for name, call := range map[string]func() error{
		"launch":    func() error { _, err := c.Launch(t.Context(), spec); return err },
		"terminate": func() error { return c.Terminate(t.Context(), "a") },
		"machines":  func() error { _, err := c.Machines(t.Context(), "a"); return err },
		"check":     func() error { _, err := c.Check(t.Context()); return err },
	} {
		var got *cloud.Error
		if err := call(); !errors.As(err, &got) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", name, err)
		}
	}
	d.err = errors.New("no kind")
	if err := c.Terminate(t.Context(), "a"); cloud.KindOf(err) != cloud.Transient {
		t.Errorf("untyped: %v", err)
	}
}

func TestTransportFailureIsTransient(t *testing.T) {
	for name, call := range map[string]remote.Call{
		"no answer": func(context.Context, []byte) ([]byte, error) { return nil, errors.New("reset") },
		"garbled":   func(context.Context, []byte) ([]byte, error) { return []byte("<html>"), nil },
		"empty":     func(context.Context, []byte) ([]byte, error) { return nil, nil },
	} {
		if _, err := remote.New("gcp", call).Launch(t.Context(), spec); cloud.KindOf(err) != cloud.Transient {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := remote.New("gcp", func(context.Context, []byte) ([]byte, error) { t.Error("called"); return nil, nil })
	if _, err := c.Machines(ctx, ""); cloud.KindOf(err) != cloud.Transient {
		t.Errorf("a call after the context ended: %v", err)
	}
	bad := spec
	bad.Nodes = 0
	if _, err := c.Launch(t.Context(), bad); cloud.KindOf(err) != cloud.Invalid {
		t.Errorf("invalid spec: %v", err)
	}
}

func FuzzServe(f *testing.F) {
	f.Add([]byte(`{"op":"launch","spec":{"Cluster":"a"}}`))
	f.Add([]byte(`{"op":"launch"}`))
	f.Add([]byte(`{"op":"sing","within":-1}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, message []byte) {
		back, err := remote.Server{Cloud: &distant{}}.Serve(t.Context(), message)
		if (err == nil) != (len(back) > 0) {
			t.Errorf("%q, %v", back, err)
		}
	})
}

// A push is read on the side that knows the cloud's keys. The caller must get the same errors as on that side.
func TestPushedReadsOnServer(t *testing.T) {
	notice := cloud.Notice{Cluster: "job.0.1", Machine: "m", Kind: cloud.Interruption, At: time.Unix(9, 0).UTC()}
	object := push.Object{Bucket: "gs://jobs", Key: "dags/a.yaml", ETag: "md5:x", Version: "7", Size: 3}
	server := remote.Server{Cloud: &distant{}, Pushed: func(_ context.Context, bearer string, body []byte) (push.News, error) {
		switch bearer {
		case "bad":
			return push.News{}, fmt.Errorf("%w: of another", identity.ErrInvalid)
		case "odd":
			return push.News{}, fmt.Errorf("%w: no JSON", push.ErrNotice)
		case "down":
			return push.News{}, identity.ErrUnavailable
		}
		if string(body) != "ours" {
			return push.News{}, nil
		}
		return push.News{Notice: &notice, Object: &object}, nil
	}}
	c := remote.New("gcp", server.Serve)
	got, err := c.Pushed(t.Context(), "good", []byte("ours"))
	if err != nil || got.Notice == nil || *got.Notice != notice || got.Object == nil || *got.Object != object {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := c.Pushed(t.Context(), "good", []byte("theirs")); err != nil || got != (push.News{}) {
		t.Errorf("another deployment's: %v, %v", got, err)
	}
	if _, err := c.Pushed(t.Context(), "bad", nil); !errors.Is(err, identity.ErrInvalid) {
		t.Errorf("a bad token: %v", err)
	}
	if _, err := c.Pushed(t.Context(), "odd", nil); !errors.Is(err, push.ErrNotice) {
		t.Errorf("no notice: %v", err)
	}
	for _, c := range []*remote.Client{c, remote.New("gcp", remote.Server{Cloud: &distant{}}.Serve)} {
		if _, err := c.Pushed(t.Context(), "down", nil); err == nil || errors.Is(err, identity.ErrInvalid) || errors.Is(err, push.ErrNotice) {
			t.Errorf("the cloud would not push it again: %v", err)
		}
	}
}

// shelf is a bucket with one file.
type shelf struct {
	body []byte
	put  map[string]string
}

func (s shelf) Read(_ context.Context, bucket, key string) ([]byte, string, error) {
	switch {
	case key == "large":
		return nil, "", driver.ErrLarge
	case bucket != "gs://jobs" || key != "a.yaml":
		return nil, "", fs.ErrNotExist
	}
	return s.body, "7", nil
}

func (s shelf) Write(_ context.Context, bucket, key string, body []byte) error {
	if bucket != "gs://jobs" {
		return cloud.Errorf("gcp", cloud.Auth, "forbidden", "the bucket belongs to another project")
	}
	s.put[key] = string(body)
	return nil
}

func (s shelf) Remove(_ context.Context, bucket, key string) error {
	if bucket != "gs://jobs" {
		return cloud.Errorf("gcp", cloud.Auth, "forbidden", "the bucket belongs to another project")
	}
	delete(s.put, key)
	return nil
}

func TestFilesAreServedRemotely(t *testing.T) {
	s := shelf{body: []byte(strings.Repeat("run: ls\n", 1<<20)), put: map[string]string{}} // too large for a message
	c := remote.New("gcp", remote.Server{Cloud: &distant{}, Files: s}.Serve)
	if body, version, err := c.Read(t.Context(), "gs://jobs", "a.yaml"); err != nil || version != "7" || !bytes.Equal(body, s.body) {
		t.Errorf("%d bytes of version %q, %v", len(body), version, err)
	}
	if _, _, err := c.Read(t.Context(), "gs://jobs", "b.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, _, err := c.Read(t.Context(), "gs://jobs", "large"); !errors.Is(err, driver.ErrLarge) {
		t.Errorf("a large file: %v", err)
	}
	noise := make([]byte, 5<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	c = remote.New("gcp", remote.Server{Cloud: &distant{}, Files: shelf{body: noise}}.Serve)
	if _, _, err := c.Read(t.Context(), "gs://jobs", "a.yaml"); !errors.Is(err, driver.ErrLarge) || !strings.Contains(err.Error(), "submit it with") {
		t.Errorf("a file that does not fit into an answer: %v", err)
	}
	c = remote.New("gcp", remote.Server{Cloud: &distant{}, Files: s}.Serve)
	if err := c.Write(t.Context(), "gs://jobs", "a.yaml.error.txt", []byte("why")); err != nil || s.put["a.yaml.error.txt"] != "why" {
		t.Errorf("%v %v", s.put, err)
	}
	if err := c.Remove(t.Context(), "gs://jobs", "a.yaml.error.txt"); err != nil || len(s.put) > 0 {
		t.Errorf("%v %v", s.put, err)
	}
	if err := c.Remove(t.Context(), "gs://others", "a"); cloud.KindOf(err) != cloud.Auth {
		t.Errorf("remove from another bucket: %v", err)
	}
	if err := c.Write(t.Context(), "gs://others", "a", nil); cloud.KindOf(err) != cloud.Auth {
		t.Errorf("write to another bucket: %v", err)
	}
	if _, _, err := remote.New("gcp", remote.Server{Cloud: &distant{}}.Serve).Read(t.Context(), "gs://jobs", "a.yaml"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read without a bucket: %v", err)
	}
}

// announced records a published message.
type announced struct{ topic, body, id string }

func (a *announced) Announce(_ context.Context, topic string, body []byte, attributes map[string]string) error {
	a.topic, a.body, a.id = topic, string(body), attributes["ce-id"]
	return nil
}

func TestAnnounceReachesServer(t *testing.T) {
	var a announced
	c := remote.New("gcp", remote.Server{Cloud: &distant{}, Announcer: &a}.Serve)
	err := c.Announce(t.Context(), "pubsub://p/t", []byte("{}"), map[string]string{"ce-id": "e1"})
	if err != nil || a != (announced{"pubsub://p/t", "{}", "e1"}) {
		t.Errorf("%v: %+v", err, a)
	}
	c = remote.New("gcp", remote.Server{Cloud: &distant{}}.Serve)
	if err := c.Announce(t.Context(), "pubsub://p/t", nil, nil); cloud.KindOf(err) != cloud.Invalid {
		t.Errorf("a cloud without topics: %v", err)
	}
}
