// Package kubeapitest starts a real API server for tests: etcd and kube-apiserver, as scripts/kube.sh builds them.
// There are no controllers and no nodes: what is asked of the API server alone can be tested, which is most of it.
package kubeapitest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/kubeapi"
	"github.com/tradewind-broker/tradewind/pkg/clock"
)

const (
	version     = "v1.36.3"
	adminToken  = "admin-token"
	readyWithin = 2 * time.Minute
)

// Server is an API server.
type Server struct {
	// URL is where it listens, with a certificate of its own making.
	URL string
	// Token is that of a user who may do everything.
	Token string
}

// Start starts an API server that lasts as long as the test, which is skipped where none is built.
func Start(t testing.TB) *Server {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	programs := filepath.Join(filepath.Dir(here), "..", "..", "..", ".tools", "kube", version)
	for _, p := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(programs, p)); err != nil {
			emulator.Missing(t, "no API server of Kubernetes is here: scripts/kube.sh builds one (%v)", err)
		}
	}
	dir := t.TempDir()
	clients, peers, secure := port(t), port(t), port(t)
	etcd := "http://127.0.0.1:" + clients
	run(t, dir, filepath.Join(programs, "etcd"), "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", "http://127.0.0.1:"+peers, "--initial-advertise-peer-urls", "http://127.0.0.1:"+peers,
		"--initial-cluster", "default=http://127.0.0.1:"+peers)
	key := filepath.Join(dir, "key.pem")
	write(t, key, signingKey(t))
	tokens := filepath.Join(dir, "tokens.csv")
	write(t, tokens, []byte(adminToken+`,admin,admin,"system:masters"`+"\n"))
	run(
		t,
		dir,
		filepath.Join(programs, "kube-apiserver"),
		"--etcd-servers",
		etcd,
		"--cert-dir",
		filepath.Join(dir, "certs"),
		"--bind-address",
		"127.0.0.1",
		"--secure-port",
		secure,
		"--token-auth-file",
		tokens,
		"--authorization-mode",
		"RBAC",
		"--service-cluster-ip-range",
		"10.0.0.0/24",
		"--service-account-issuer",
		"https://kubernetes.default.svc",
		"--service-account-key-file",
		key,
		"--service-account-signing-key-file",
		key,
	)
	s := &Server{URL: "https://127.0.0.1:" + secure, Token: adminToken}
	api := s.API(t)
	until := time.Now().Add(readyWithin)
	for {
		_, err := api.Get(t.Context(), "/api/v1/namespaces/default")
		if err == nil {
			return s
		}
		if time.Now().After(until) {
			log, _ := os.ReadFile(filepath.Join(dir, "kube-apiserver.log")) //nolint:gosec // of the test
			t.Fatalf("the API server is not ready: %v\n%s", err, log[max(len(log)-4000, 0):])
		}
		if err := clock.Pause(t.Context(), 100*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// API is that of the server, as its administrator.
func (s *Server) API(t testing.TB) *kubeapi.API {
	t.Helper()
	api, err := kubeapi.New(&rest.Config{
		Host: s.URL, BearerToken: s.Token, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// Kubeconfig is a file with the context "test" for the server.
func (s *Server) Kubeconfig(t testing.TB, namespace string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: %q}}]
contexts: [{name: test, context: {cluster: test, user: admin, namespace: %q}}]
`, s.URL, s.Token, namespace))
	return path
}

func port(t testing.TB) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // the port is what is wanted
	_, p, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func write(t testing.TB, path string, body []byte) {
	t.Helper()
	if err := os.WriteFile(path, body, 0o600); err != nil {
		t.Fatal(err)
	}
}

// run has a program run until the test ends. What it says lies in a file of its name.
func run(t testing.TB, dir, program string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, filepath.Base(program)+".log")) //nolint:gosec // of the test
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...) //nolint:gosec // as scripts/kube.sh built it
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
	})
}

func signingKey(t testing.TB) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := pem.Encode(&b, &pem.Block{Type: "EC PRIVATE KEY", Bytes: der}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
