package kubetest

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tradewind-broker/tradewind/internal/base/freeport"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// Version is the Kubernetes version that scripts/kube.sh builds.
const Version = "v1.36.3"

// Required is the environment variable that makes a test without a control plane fail instead of being skipped.
const Required = "TRADEWIND_REQUIRE_KUBERNETES"

// ErrNotBuilt means that the control plane is missing.
var ErrNotBuilt = errors.New("the Kubernetes control plane is not built: run `make kube` (takes a quarter of an hour)")

// Cluster is a running control plane.
type Cluster struct {
	Config     *rest.Config // with administrator rights
	Client     kubernetes.Interface
	Kubeconfig string // a file, with the context Name
	Name       string

	dir, bin, token string
	etcd, api       string // ports
	options         Options
	mu              sync.Mutex
	running         map[string]*exec.Cmd
}

// Options of a cluster.
type Options struct {
	// NodeGrace is the time for which a node may be silent before it counts as dead; 0 means 12 s.
	NodeGrace time.Duration
	// Gangs enables the scheduler's own gangs (scheduling.k8s.io/v1alpha2), which are off in Kubernetes 1.36.
	Gangs bool
}

// New starts a cluster without nodes for a test. It skips the test if the control plane is not built.
func New(t testing.TB, name string) *Cluster {
	t.Helper()
	return NewWith(t, name, Options{})
}

// NewWith is New with options.
func NewWith(t testing.TB, name string, o Options) *Cluster {
	t.Helper()
	c, err := StartWith(t.Context(), t.TempDir(), name, o)
	if errors.Is(err, ErrNotBuilt) && os.Getenv(Required) == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

// Start starts a cluster in a folder. Its context is called name.
func Start(ctx context.Context, dir, name string) (*Cluster, error) {
	return StartWith(ctx, dir, name, Options{})
}

// gangs enables native gangs in the API server and the scheduler.
const gangs = "--feature-gates=GenericWorkload=true,GangScheduling=true"

// StartWith is Start with options.
func StartWith(ctx context.Context, dir, name string, o Options) (*Cluster, error) {
	tools, err := emulator.ToolsDir()
	if err != nil {
		return nil, err
	}
	bin := filepath.Join(tools, "kube", Version)
	if _, err := os.Stat(filepath.Join(bin, "stamp")); err != nil {
		return nil, ErrNotBuilt
	}
	c := &Cluster{Name: name, dir: dir, bin: bin, token: rand.Text(), running: map[string]*exec.Cmd{},
		options: o}
	var ports [3]string
	for i := range ports {
		port, err := freeport.Find()
		if err != nil {
			return nil, err
		}
		ports[i] = strconv.Itoa(port)
	}
	c.etcd, c.api = ports[0], ports[1]
	if err := c.files(); err != nil {
		return nil, err
	}
	peers := "http://127.0.0.1:" + ports[2]
	if err := c.start("etcd", "--data-dir="+c.path("etcd"), "--listen-client-urls=http://127.0.0.1:"+c.etcd,
		"--advertise-client-urls=http://127.0.0.1:"+c.etcd, "--listen-peer-urls="+peers,
		"--initial-advertise-peer-urls="+peers, "--initial-cluster=default="+peers,
		"--unsafe-no-fsync=true"); err != nil {
		return nil, err
	}
	if err := c.StartAPI(ctx); err != nil {
		c.Stop()
		return nil, err
	}
	scheduler := []string{"--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=2000"}
	manager := []string{"--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000",
		"--service-account-private-key-file=" + c.path("sa.key"),
		"--node-monitor-period=1s", "--node-monitor-grace-period=" + cmp.Or(o.NodeGrace, 12*time.Second).String(),
		"--root-ca-file=" + c.path("certs/apiserver.crt")}
	if o.Gangs {
		scheduler, manager = append(scheduler, gangs), append(manager, gangs)
	}
	for _, program := range []struct {
		name string
		args []string
	}{
		{"kube-scheduler", scheduler},
		{"kube-controller-manager", manager},
	} {
		args := append([]string{"--kubeconfig=" + c.Kubeconfig, "--leader-elect=false"}, program.args...)
		if err := c.start(program.name, args...); err != nil {
			c.Stop()
			return nil, err
		}
	}
	return c, c.await(ctx, func(ctx context.Context) bool { // without a service account, pods are rejected
		_, err := c.Client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
}

func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }

// files writes the files that the programs read.
func (c *Cluster) files() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	c.Kubeconfig = c.path("kubeconfig")
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	for name, text := range map[string]string{
		"sa.key": string(pem.EncodeToMemory(block)), "tokens": c.token + ",admin,1,system:masters\n",
		"kubeconfig": fmt.Sprintf(kubeconfig, c.api, c.Name, c.token),
	} {
		if err := os.WriteFile(c.path(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	c.Config = &rest.Config{
		Host: "https://127.0.0.1:" + c.api, BearerToken: c.token, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		QPS: 1000, Burst: 2000,
	}
	c.Client, err = kubernetes.NewForConfig(c.Config)
	return err
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: it, cluster: {server: "https://127.0.0.1:%s", insecure-skip-tls-verify: true}}]
contexts: [{name: %[2]s, context: {cluster: it, user: admin}}]
users: [{name: admin, user: {token: %[3]s}}]
current-context: %[2]s
`

// StartAPI starts the API server and returns when it is ready.
func (c *Cluster) StartAPI(ctx context.Context) error {
	args := []string{"--etcd-servers=http://127.0.0.1:" + c.etcd, "--bind-address=127.0.0.1",
		"--secure-port=" + c.api, "--cert-dir=" + c.path("certs"), "--token-auth-file=" + c.path("tokens"),
		"--authorization-mode=RBAC", "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.path("sa.key"), "--service-account-signing-key-file=" + c.path("sa.key"),
		"--service-cluster-ip-range=10.96.0.0/16", "--enable-priority-and-fairness=false"}
	if c.options.Gangs {
		args = append(args, gangs, "--runtime-config=scheduling.k8s.io/v1alpha2=true")
	}
	if err := c.start("kube-apiserver", args...); err != nil {
		return err
	}
	return c.await(ctx, func(ctx context.Context) bool {
		_, err := c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil
	})
}

// KWOK starts KWOK, which simulates the nodes with the annotation KWOKNode: they are ready, and pods bound to them run.
func (c *Cluster) KWOK() error {
	if _, err := os.Stat(filepath.Join(c.bin, "kwok")); err != nil {
		return fmt.Errorf("KWOK is not built: run `scripts/kube.sh kwok`: %w", err)
	}
	if err := os.WriteFile(c.path("kwok.yaml"), []byte(kwok), 0o600); err != nil {
		return err
	}
	return c.start("kwok", "--config="+c.path("kwok.yaml"), "--kubeconfig="+c.Kubeconfig,
		"--manage-all-nodes=false", "--server-address=127.0.0.1:0",
		"--manage-nodes-with-annotation-selector="+KWOKNode+"=fake", "--node-lease-duration-seconds=120")
}

//go:embed kwok.yaml
var kwok string

// KWOKNode marks a node that KWOK simulates; the value is "fake".
const KWOKNode = "kwok.x-k8s.io/node"

// Program returns the path of a program that scripts/kube.sh builds; it may not exist.
func (c *Cluster) Program(name string) string { return filepath.Join(c.bin, name) }

// StopAPI kills the API server.
func (c *Cluster) StopAPI() { c.kill("kube-apiserver") }

// Stop stops all programs.
func (c *Cluster) Stop() {
	for _, name := range []string{"kwok", "kube-controller-manager", "kube-scheduler", "kube-apiserver", "etcd"} {
		c.kill(name)
	}
}

// Log returns the log of a program.
func (c *Cluster) Log(program string) string {
	text, _ := os.ReadFile(c.path(program + ".log"))
	return string(text)
}

func (c *Cluster) start(program string, args ...string) error {
	log, err := os.OpenFile(c.path(program+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()                                           //nolint:errcheck // the process has its own copy
	cmd := exec.Command(filepath.Join(c.bin, program), args...) //nolint:gosec // a built program
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[program] = cmd
	return nil
}

func (c *Cluster) kill(program string) {
	c.mu.Lock()
	cmd := c.running[program]
	delete(c.running, program)
	c.mu.Unlock()
	if cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() //nolint:errcheck // killed
	}
}

// readyWithin limits the time of a start on a busy computer.
const readyWithin = 3 * time.Minute

func (c *Cluster) await(ctx context.Context, ok func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for !ok(ctx) {
		select {
		case <-ctx.Done():
			said := strings.Split(c.Log("kube-apiserver"), "\n")
			return fmt.Errorf("the control plane is not ready: %w\n%s", ctx.Err(),
				strings.Join(said[max(0, len(said)-20):], "\n"))
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// Namespace creates a namespace with a Pod Security Standard: "restricted", "baseline" or "privileged".
func (c *Cluster) Namespace(ctx context.Context, name, standard string) error {
	_, err := c.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": standard},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return c.await(ctx, func(ctx context.Context) bool {
		_, err := c.Client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
}

// Pods returns the names of all pods of a namespace, sorted.
func (c *Cluster) Pods(ctx context.Context, namespace string) ([]string, error) {
	list, err := c.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names, nil
}
