package mount_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/tradewind-broker/tradewind/internal/agent/mount"
	"github.com/tradewind-broker/tradewind/internal/agent/mount/mounttest"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/grant/azgrant"
	"github.com/tradewind-broker/tradewind/internal/grant/s3grant"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

func TestMain(m *testing.M) {
	proc.Reexec()
	os.Exit(m.Run())
}

// place is a mount point and its mount.
type place struct {
	t     *testing.T
	dir   string // a temporary directory of the test
	point string
	m     *mount.Mount
}

func open(t *testing.T, uri string, mode mount.Mode, c grant.Credentials) (*place, error) {
	t.Helper()
	environ := mounttest.Environ(t)
	dir := t.TempDir()
	p := &place{t: t, dir: dir, point: filepath.Join(dir, "a point")}
	if err := os.Mkdir(p.point, 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	p.m, err = mount.Start(t.Context(), mount.Spec{
		URI: uri, Mode: mode, Point: p.point, Dir: filepath.Join(dir, "own"), Program: mounttest.Program(t, environ),
		Environ: environ, Still: 30 * time.Second,
	}, c)
	if err == nil {
		t.Cleanup(p.m.Close)
	}
	return p, err
}

func must(t *testing.T, p *place, err error) *place {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *place) read(name string) string {
	p.t.Helper()
	body, err := os.ReadFile(filepath.Join(p.point, name))
	if err != nil {
		p.t.Error(err)
	}
	return string(body)
}

func (p *place) write(name, body string) error {
	path := filepath.Join(p.point, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(body), 0o600)
}

func (p *place) flush() {
	p.t.Helper()
	if err := p.m.Flush(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}

// folder creates a folder with a file, and returns its path and URI.
func folder(t *testing.T) (dir, uri string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "the folder")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "there"), []byte("was there"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, "file://" + strings.ReplaceAll(dir, " ", "%20")
}

func TestMountLocalFolder(t *testing.T) {
	for _, mode := range []mount.Mode{mount.Read, mount.Write, mount.Cached} {
		t.Run(string(mode), func(t *testing.T) {
			dir, uri := folder(t)
			p, err := open(t, uri, mode, grant.Credentials{})
			must(t, p, err)
			if got := p.read("there"); got != "was there" {
				t.Errorf("read %q", got)
			}
			err = p.write("deep/new", "is new")
			if mode == mount.Read {
				if err == nil {
					t.Error("a read-only mount was written")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			p.flush()
			got, err := os.ReadFile(filepath.Join(dir, "deep/new"))
			if string(got) != "is new" || err != nil {
				t.Errorf("arrived %q, %v", got, err)
			}
		})
	}
}

// account is a server with a bucket. It checks that requests use the credentials that it lent.
type account struct {
	store *s3grant.Store
	c     *s3.Client
}

func open3(t *testing.T) account {
	t.Helper()
	endpoint := servers.S3(t)
	owner := credentials.NewStaticCredentialsProvider(servers.S3AccessKey, servers.S3SecretKey, "")
	c := s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: &endpoint, UsePathStyle: true, Credentials: owner})
	if _, err := c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("bucket")}); err != nil {
		t.Fatal(err)
	}
	return account{c: c, store: s3grant.New(c, s3grant.Options{Loans: s3grant.Loans{
		STS:  sts.New(sts.Options{Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: owner}),
		Role: "arn:aws:iam::111122223333:role/mounts",
	}})}
}

func (a account) lend(t *testing.T, prefix string, write bool) grant.Credentials {
	t.Helper()
	c, err := a.store.Lend(t.Context(), grant.Loan{Prefix: prefix, Write: write, For: 15 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (a account) put(t *testing.T, key, body string) {
	t.Helper()
	if _, err := a.c.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: aws.String("bucket"), Key: &key, Body: strings.NewReader(body),
	}); err != nil {
		t.Fatal(err)
	}
}

func (a account) keys(t *testing.T) (keys []string) {
	t.Helper()
	out, err := a.c.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String("bucket")})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range out.Contents {
		keys = append(keys, *o.Key)
	}
	return keys
}

// A mount works with only lent credentials that are restricted to its prefix. They must not appear in arguments or
// environment variables.
func TestMountBucketWithLentCredentials(t *testing.T) {
	a := open3(t)
	a.put(t, "in/data/x", "of the bucket")
	lent := a.lend(t, "s3://bucket/in/", true)
	p, err := open(t, "s3://bucket/in", mount.Cached, lent)
	must(t, p, err)
	if got := p.read("data/x"); got != "of the bucket" {
		t.Errorf("read %q", got)
	}
	if err := p.write("new/y", "written"); err != nil {
		t.Fatal(err)
	}
	p.flush()
	if got := a.keys(t); !slices.Equal(got, []string{"in/data/x", "in/new/y"}) {
		t.Errorf("in the bucket: %v", got)
	}
	proc := "/proc/" + itoa(mounttest.Rclone(t, p.dir).Pid)
	for _, file := range []string{"/cmdline", "/environ"} {
		body, err := os.ReadFile(proc + file)
		if err != nil || len(body) == 0 {
			t.Error(err)
		}
		for _, secret := range []string{lent.AccessKey, lent.SecretKey, lent.SessionToken} {
			if strings.Contains(string(body), secret) {
				t.Errorf("%s tells a secret", file)
			}
		}
	}
	err = filepath.WalkDir(filepath.Join(p.dir, "own"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().IsRegular() && slices.Contains([]string{"rclone.conf", "keys.json", "aws", "log"}, d.Name()) && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// rclone must use renewed keys before the old ones expire, without a new mount.
func TestCredentialsAreRenewed(t *testing.T) {
	a := open3(t)
	a.put(t, "in/x", "one")
	good := a.lend(t, "s3://bucket/in/", false)
	short := good
	short.AccessKey, short.Expires = "AKIANOBODY", time.Now().Add(3*time.Second) // as far as rclone knows
	p, err := open(t, "s3://bucket/in/", mount.Read, short)
	must(t, p, err)
	if got, err := os.ReadFile(filepath.Join(p.point, "x")); err == nil {
		t.Fatalf("read %q without the key", got)
	}
	if err := p.m.Renew(good); err != nil {
		t.Fatal(err)
	}
	until(t, "the keys are read anew", func() bool {
		got, err := os.ReadFile(filepath.Join(p.point, "x"))
		return err == nil && string(got) == "one"
	})
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never came:", what)
		}
	}
}

// If the store refuses a file, or ctx ends, the flush must fail and name the files. If the store refused, the error
// also has the store's message.
func TestFailedFlushNamesFiles(t *testing.T) {
	a := open3(t)
	p, err := open(t, "s3://bucket/in/", mount.Cached, a.lend(t, "s3://bucket/in/", false))
	must(t, p, err)
	for _, name := range []string{"b", "deep/a"} {
		if err := p.write(name, "cannot go"); err != nil {
			t.Fatal(err)
		}
	}
	ended, end := context.WithCancelCause(t.Context())
	end(errors.New("the machine is gone"))
	err = p.m.Flush(ended)
	if !errors.Is(err, mount.ErrUnsent) || !strings.Contains(err.Error(), "b, deep/a") || !strings.Contains(err.Error(), "machine is gone") {
		t.Errorf("%v", err)
	}
	err = p.m.Flush(t.Context())
	if !errors.Is(err, mount.ErrUnsent) || !strings.Contains(err.Error(), "b, deep/a") || !strings.Contains(err.Error(), "Access") {
		t.Errorf("%v", err)
	}
}

// A flush waits for open files.
func TestFlushWaitsForOpenFiles(t *testing.T) {
	dir, uri := folder(t)
	p, err := open(t, uri, mount.Cached, grant.Credentials{})
	must(t, p, err)
	f, err := os.Create(filepath.Join(p.point, "open"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("half"); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := p.m.Flush(short); !errors.Is(err, mount.ErrUnsent) || !strings.Contains(err.Error(), "open") {
		t.Errorf("%v", err)
	}
	if err := p.m.Settle(t.Context()); err != nil { // the file was not closed before
		t.Error(err)
	}
	_, _ = f.WriteString(" and half")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	p.flush()
	if got, err := os.ReadFile(filepath.Join(dir, "open")); string(got) != "half and half" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestKilledMountIsReportedAndCleanedUp(t *testing.T) {
	_, uri := folder(t)
	p, err := open(t, uri, mount.Cached, grant.Credentials{})
	must(t, p, err)
	if err := p.write("unsent", "x"); err != nil {
		t.Fatal(err)
	}
	if err := mounttest.Rclone(t, p.dir).Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.m.Gone()
	if left := mounttest.Mounted(t, p.dir); len(left) > 0 {
		t.Errorf("still mounted: %v", left)
	}
	for _, err := range []error{p.m.Lost(), p.m.Flush(t.Context())} {
		if !errors.Is(err, mount.ErrLost) || !errors.Is(err, mount.ErrUnsent) || !strings.Contains(err.Error(), "signal 9") ||
			!strings.Contains(err.Error(), "unsent") || !strings.Contains(err.Error(), uri) {
			t.Errorf("%v", err)
		}
	}
}

func TestStartReportsMountErrors(t *testing.T) {
	dir, uri := folder(t)
	for what, c := range map[string]struct{ uri, words string }{
		"a file": {uri + "/there", "there"}, "nothing": {uri + "/none", "none"},
	} {
		if _, err := open(t, c.uri, mount.Read, grant.Credentials{}); !errors.Is(err, mount.ErrMount) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", what, err)
		}
	}
	environ := mounttest.Environ(t)
	_, err := mount.Start(t.Context(), mount.Spec{
		URI: uri, Mode: mount.Read, Point: dir, Dir: t.TempDir(), Program: mounttest.Program(t, environ),
	}, grant.Credentials{})
	if !errors.Is(err, mount.ErrMount) || !strings.Contains(err.Error(), "is not empty: it contains there") {
		t.Errorf("over a folder with a file: %v", err)
	}
}

func TestClearUnmountsRemainingMounts(t *testing.T) {
	dir, uri := folder(t)
	p, err := open(t, uri, mount.Write, grant.Credentials{})
	must(t, p, err)
	if err := mount.Clear(t.Context(), p.dir); err != nil {
		t.Fatal(err)
	}
	if left := mounttest.Mounted(t, p.dir); len(left) > 0 {
		t.Errorf("still mounted: %v", left)
	}
	if err := os.RemoveAll(p.dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "there")); err != nil {
		t.Error("the mounted files are gone: ", err)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

func readAll(t *testing.T, r io.ReadCloser) string {
	t.Helper()
	body, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// A relay adds Azure's signature to each request, so that a renewed signature counts at once. Only rclone may use the
// relay.
func TestMountAzureContainerRenewsSignature(t *testing.T) {
	endpoint := servers.Azurite(t) + "/" + servers.AzureAccount
	key, err := service.NewSharedKeyCredential(servers.AzureAccount, servers.AzureKey)
	if err != nil {
		t.Fatal(err)
	}
	account, err := service.NewClientWithSharedKeyCredential(endpoint, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := account.CreateContainer(t.Context(), "mounted", nil); err != nil {
		t.Fatal(err)
	}
	store, err := azgrant.New(endpoint, azgrant.SharedKey(key), azgrant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	good, err := store.Lend(t.Context(), grant.Loan{Prefix: "azblob://mounted", Write: true, For: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ended := good
	ended.Query = strings.Replace(good.Query, "sig=", "sig=x", 1)
	p, err := open(t, "azblob://mounted", mount.Cached, ended)
	must(t, p, err)
	if _, err := os.ReadDir(p.point); err == nil {
		t.Fatal("a request with a wrong signature succeeded")
	}
	if err := p.m.Renew(good); err != nil {
		t.Fatal(err)
	}
	if err := p.write("deep/a b", "written"); err != nil {
		t.Fatal(err)
	}
	p.flush()
	out, err := account.NewContainerClient("mounted").NewBlobClient("deep/a b").DownloadStream(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Body.Close() //nolint:errcheck // read
	if got, err := io.ReadAll(out.Body); string(got) != "written" {
		t.Errorf("arrived %q, %v", got, err)
	}
}

// rclone must send a token, and the renewed one after a renewal. The test cannot show that a wrong token is refused,
// because fake-gcs-server checks none.
func TestMountGoogleBucketRenewsToken(t *testing.T) {
	target, err := url.Parse(servers.FakeGCS(t))
	if err != nil {
		t.Fatal(err)
	}
	var tokens sync.Map
	proxy := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens.Store(r.Header.Get("Authorization"), true)
		proxy.ServeHTTP(w, r)
	}))
	defer server.Close()
	resp, err := http.Post(server.URL+"/storage/v1/b?project=p", "application/json", strings.NewReader(`{"name":"bucket"}`)) //nolint:noctx // a test's
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
	c := grant.Credentials{Token: "first", Endpoint: server.URL, Expires: time.Now().Add(20 * time.Second)}
	p, err := open(t, "gs://bucket/in", mount.Cached, c)
	must(t, p, err)
	if err := p.write("x", "written"); err != nil {
		t.Fatal(err)
	}
	p.flush()
	c.Token, c.Expires = "second", time.Now().Add(time.Hour)
	if err := p.m.Renew(c); err != nil {
		t.Fatal(err)
	}
	n := 0
	until(t, "the second token", func() bool {
		n++
		_ = p.write("y"+itoa(n), "again")
		p.flush()
		_, first := tokens.Load("Bearer first")
		_, second := tokens.Load("Bearer second")
		return first && second
	})
}
