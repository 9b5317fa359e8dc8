package kubetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrCannot means that this computer cannot run a real kubelet.
var ErrCannot = errors.New("a real kubelet cannot run here")

// The network of a real node: its bridge, this computer's address on it, by which pods reach servers here, and its
// subnet.
const (
	bridge  = "twkube0"
	Gateway = "10.244.77.1"
	subnet  = "10.244.77.0/24"
)

// The images of a real node. They are imported because there is no registry.
const (
	ToolsImage = "localhost/tools:1"
	pauseImage = "localhost/pause:1"
)

// Real is a node of a cluster with containerd and the kubelet of Kubernetes.
type Real struct {
	c          *Cluster
	dir        string
	containerd string // the program; its shim is in the same folder
	running    []*exec.Cmd
}

// CheckReal returns ErrCannot with the missing parts if this computer cannot run a real kubelet; otherwise nil.
func (c *Cluster) CheckReal() error { _, err := c.programs(); return err }

// programs returns the path of containerd: the computer's own, or the one in the folder TRADEWIND_CONTAINERD.
func (c *Cluster) programs() (containerd string, err error) {
	lack := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrCannot, fmt.Sprintf(format, args...))
	}
	if os.Geteuid() != 0 {
		return "", lack("it needs root, for namespaces and cgroups")
	}
	systems, _ := os.ReadFile("/proc/filesystems")
	if !strings.Contains(string(systems), "overlay") {
		return "", lack("the kernel has no overlayfs")
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		if _, err := os.Stat("/sys/fs/cgroup/memory"); err != nil {
			return "", lack("no cgroups are mounted")
		}
	}
	for _, program := range []string{"kubelet", "bridge", "host-local", "loopback"} {
		if _, err := os.Stat(c.Program(program)); err != nil {
			return "", lack("%s is not built: scripts/kube.sh kubelet bridge host-local loopback", program)
		}
	}
	for _, program := range []string{"runc", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", lack("%s is missing", program)
		}
	}
	if containerd = filepath.Join(os.Getenv("TRADEWIND_CONTAINERD"), "containerd"); containerd == "containerd" {
		if containerd, err = exec.LookPath("containerd"); err != nil {
			return "", lack("containerd is missing: install it, or unpack its package and set TRADEWIND_CONTAINERD " +
				"to the folder of its programs")
		}
	}
	for _, program := range []string{containerd, filepath.Join(filepath.Dir(containerd), "ctr")} {
		if _, err := os.Stat(program); err != nil { //nolint:gosec // the developer names the folder
			return "", lack("%s is missing", program)
		}
	}
	return containerd, nil
}

// AddReal creates a node with containerd and kubelet, and imports the images of an OCI archive file. It returns
// ErrCannot if the computer does not allow it.
func (c *Cluster) AddReal(ctx context.Context, name, images string) (*Real, error) {
	containerd, err := c.programs()
	if err != nil {
		return nil, err
	}
	r := &Real{c: c, dir: c.path("real-" + name), containerd: containerd}
	if err := r.open(ctx, name, images); err != nil {
		text, _ := os.ReadFile(r.path("kubelet.log"))
		said := strings.Split(string(text), "\n")
		r.Close()
		return nil, fmt.Errorf("%w\n%s", err, strings.Join(said[max(0, len(said)-10):], "\n"))
	}
	return r, nil
}

func (r *Real) path(name string) string { return filepath.Join(r.dir, name) }

func (r *Real) open(ctx context.Context, name, images string) error {
	if err := os.MkdirAll(r.path("cni"), 0o700); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"link", "add", bridge, "type", "bridge"}, {"addr", "add", Gateway + "/24", "dev", bridge},
		{"link", "set", bridge, "up"},
	} {
		if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil { //nolint:gosec // ours
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	for file, text := range map[string]string{
		"containerd.toml":      fmt.Sprintf(containerdFile, r.dir, pauseImage, r.c.bin),
		"cni/10-real.conflist": fmt.Sprintf(cniFile, bridge, r.dir, subnet),
		"kubelet.yaml":         fmt.Sprintf(kubeletFile, r.dir),
	} {
		if err := os.WriteFile(r.path(file), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := r.start(r.containerd, "-c", r.path("containerd.toml")); err != nil {
		return err
	}
	ctr := filepath.Join(filepath.Dir(r.containerd), "ctr")
	if err := r.c.await(ctx, func(ctx context.Context) bool {
		return exec.CommandContext(ctx, ctr, "-a", r.path("containerd.sock"), "-n", "k8s.io", //nolint:gosec // ours
			"images", "import", images).Run() == nil
	}); err != nil {
		return fmt.Errorf("containerd imports no images: %w", err)
	}
	if err := r.start(r.c.Program("kubelet"), "--config="+r.path("kubelet.yaml"), "--kubeconfig="+r.c.Kubeconfig,
		"--root-dir="+r.path("kubelet"), "--cert-dir="+r.path("pki"), "--hostname-override="+name,
		"--node-ip="+Gateway, "--node-labels="+corev1.LabelInstanceTypeStable+"=real.large"); err != nil {
		return err
	}
	return r.c.await(ctx, func(ctx context.Context) bool {
		n, err := r.c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err == nil && len(n.Spec.Taints) == 0 && ready(n)
	})
}

func ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (r *Real) start(program string, args ...string) error {
	log, err := os.OpenFile(r.path(filepath.Base(program)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()                     //nolint:errcheck // the process has its own copy
	cmd := exec.Command(program, args...) //nolint:gosec // a built program
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(r.containerd)+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	r.running = append(r.running, cmd)
	return nil
}

// Close stops the node. All its pods must be gone before: containers outlive kubelet and containerd.
func (r *Real) Close() {
	for i := len(r.running) - 1; i >= 0; i-- {
		cmd := r.running[i]
		_ = cmd.Process.Signal(syscall.SIGTERM)
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait() //nolint:errcheck // ended
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	}
	if _, err := net.InterfaceByName(bridge); err == nil {
		_ = exec.Command("ip", "link", "del", bridge).Run()
	}
}

const containerdFile = `version = 2
root = "%[1]s/root"
state = "%[1]s/state"
[grpc]
  address = "%[1]s/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%[2]s"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "%[3]s"
    conf_dir = "%[1]s/cni"
`

const cniFile = `{"cniVersion": "0.4.0", "name": "real", "plugins": [{"type": "bridge", "bridge": %[1]q,
"isGateway": true, "ipam": {"type": "host-local", "dataDir": "%[2]s/ipam", "ranges": [[{"subnet": %[3]q}]],
"routes": [{"dst": "0.0.0.0/0"}]}}]}
`

const kubeletFile = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
enforceNodeAllocatable: []
containerRuntimeEndpoint: unix://%s/containerd.sock
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
address: 127.0.0.1
port: 10277
healthzPort: 0
readOnlyPort: 0
evictionHard: {memory.available: 1Mi, nodefs.available: 1%%, imagefs.available: 1%%}
resolvConf: ""
`
