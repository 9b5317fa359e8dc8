// Command kube-real runs a job on a real node: the kubelet of Kubernetes with containerd and runc, on the real control
// plane that scripts/kube.sh builds. If the computer does not allow that, it prints why and skips.
//
//	make kube-real
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tradewind-broker/tradewind/internal/kubetest"
)

func main() {
	r := &real{}
	flag.StringVar(&r.program, "program", "bin/tradewind", "the command line")
	flag.StringVar(&r.agents, "agents", "dist/agent", "folder of the agents' programs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	err := r.run(ctx)
	switch {
	case errors.Is(err, kubetest.ErrCannot), errors.Is(err, kubetest.ErrNotBuilt):
		fmt.Println("kube-real: skipped:", err)
	case err != nil:
		fmt.Fprintln(os.Stderr, "kube-real:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	default:
		fmt.Printf("all steps succeeded, in %.0f s\n", time.Since(began).Seconds())
	}
}

// real is one run.
type real struct {
	program, agents, dir string
	cluster              *kubetest.Cluster
}

const namespace = "batch"

func (r *real) run(ctx context.Context) (err error) {
	if r.dir, err = os.MkdirTemp("", "tradewind-kube-real-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.dir) //nolint:errcheck // a temporary folder
	if r.cluster, err = kubetest.Start(ctx, r.dir, "real"); err != nil {
		return err
	}
	defer r.cluster.Stop()
	if err := r.cluster.CheckReal(); err != nil {
		return err
	}
	certificate, authority, err := certify(kubetest.Gateway)
	if err != nil {
		return err
	}
	if err := kubetest.Images(ctx, filepath.Join(r.dir, "images.tar"), authority); err != nil {
		return err
	}
	node, err := r.cluster.AddReal(ctx, "real", filepath.Join(r.dir, "images.tar"))
	if err != nil {
		return err
	}
	defer node.Close()
	fmt.Println("a kubelet with containerd is ready")
	if err := r.cluster.Namespace(ctx, namespace, "restricted"); err != nil {
		return err
	}
	if _, err := r.tradewind().Run(ctx, "cloud", "add", "kubernetes",
		"--kubeconfig", r.cluster.Kubeconfig, "--context", "real",
		"--namespace", namespace, "--agent-image", kubetest.ToolsImage); err != nil {
		return err
	}
	stop, err := r.up(ctx, certificate)
	if err != nil {
		return err
	}
	defer stop()
	if err := r.job(ctx); err != nil {
		log, _ := os.ReadFile(filepath.Join(r.dir, "broker.log"))
		return fmt.Errorf("%w\n%s", err, log[max(0, len(log)-3000):])
	}
	return r.nothing(ctx)
}

// story is a task whose output is read by a gang of two pods, all running as a user without privileges.
const story = `apiVersion: tradewind/v1
name: real
tasks:
  make:
    run: echo "made by $(id -u)" > $TRADEWIND_OUTPUT/made
    outputs: [{name: made, size: 1MiB}]
    time: 1m
    resources: {cpus: 0.25, memory: 0.5}
  read:
    after: [make]
    nodes: 2
    run: |
      grep -q "made by 10001" "$(ls -d $TRADEWIND_INPUTS/*/made $TRADEWIND_INPUTS/*/*/made 2>/dev/null | head -1)"
      ! touch /etc/x 2>/dev/null
      echo "rank $TRADEWIND_RANK" > $TRADEWIND_OUTPUT/rank-$TRADEWIND_RANK
    outputs: [{name: ranks, size: 1MiB}]
    time: 1m
    resources: {cpus: 0.25, memory: 0.5}
`

func (r *real) job(ctx context.Context) error {
	file := filepath.Join(r.dir, "real.yaml")
	if err := os.WriteFile(file, []byte(story), 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	said, err := r.tradewind().Run(ctx, "run", file, "--yes")
	if err != nil {
		why, _ := r.tradewind().Run(context.WithoutCancel(ctx), "explain", "last")
		return fmt.Errorf("%w\n%s", err, why)
	}
	fmt.Print(said)
	return nil
}

// nothing waits until no pod and no secret of the job remains.
func (r *real) nothing(ctx context.Context) error {
	for range 600 {
		pods, err := r.cluster.Pods(ctx, namespace)
		if err != nil {
			return err
		}
		secrets, err := r.cluster.Client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(pods)+len(secrets.Items) == 0 {
			fmt.Println("nothing remains: no pod, no secret")
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return errors.New("pods or secrets remain")
}

// up starts the broker on loopback, and a TLS proxy on the bridge through which pods reach it.
func (r *real) up(ctx context.Context, certificate tls.Certificate) (stop func(), err error) {
	door, err := tls.Listen("tcp", kubetest.Gateway+":0", &tls.Config{
		Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(r.dir, "broker.log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, r.program, "up", "--clouds", "kubernetes", //nolint:gosec // as it was built
		"--addr", "127.0.0.1:0", "--public-url", "https://"+door.Addr().String(), "--agents", r.agents, "-o", "json")
	cmd.Env, cmd.Stderr = r.tradewind().Env(), log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() //nolint:errcheck // killed
		_ = door.Close()
		_ = log.Close()
	}
	var first struct {
		URL string `json:"url"`
	}
	if err := json.NewDecoder(out).Decode(&first); err != nil {
		stop()
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("the broker does not start: %w\n%s", err, text)
	}
	to, err := url.Parse(first.URL)
	if err != nil {
		stop()
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(to)
			p.Out.Host = p.In.Host
		},
	}}
	go func() { _ = server.Serve(door) }()
	return stop, nil
}

func (r *real) tradewind() kubetest.CLI {
	return kubetest.CLI{Program: r.program, State: filepath.Join(r.dir, "state")}
}

// certify creates a self-signed certificate for an address, in PEM.
func certify(address string) (c tls.Certificate, authority []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tradewind kube-real"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.ParseIP(address)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return c, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
