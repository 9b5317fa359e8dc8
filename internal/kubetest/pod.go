package kubetest

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// running is a pod on a node.
type running struct {
	k       *Kubelet
	pod     *corev1.Pod
	dir     string
	address string
	end     chan time.Duration // receives the grace period when the pod shall end

	mu    sync.Mutex
	asked bool
	over  bool              // its containers ended without a request
	place map[string]string // folder by mount path
}

// requestEnd requests that the pod ends within its grace period.
func (r *running) requestEnd(grace time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.asked {
		r.asked = true
		r.end <- grace
	}
}

func (r *running) run(ctx context.Context) {
	code, err := r.containers(ctx)
	select {
	case <-r.k.dead:
		return
	default:
	}
	ctx = context.WithoutCancel(ctx)
	r.report(ctx, func(s *corev1.PodStatus) {
		s.Phase = corev1.PodSucceeded
		if code != 0 || err != nil {
			s.Phase = corev1.PodFailed
		}
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: r.pod.Spec.Containers[0].Name,
			Image: r.pod.Spec.Containers[0].Image, State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code), Reason: "Completed"}}}} //nolint:gosec // 8 bits
	})
	if r.ended() {
		r.k.remove(ctx, r.pod)
	}
}

// ended records that the containers ended, and reports whether that was requested.
func (r *running) ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = !r.asked
	return r.asked
}

func (r *running) hasEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

// containers runs the containers in order and returns the exit code of the last.
func (r *running) containers(ctx context.Context) (code int, err error) {
	for _, image := range r.images() {
		if slices.Contains(r.k.node.Refuses, image) {
			return r.refused(ctx, image)
		}
	}
	if r.k.node.Idle {
		r.started(ctx)
		select {
		case <-r.end:
		case <-ctx.Done():
		}
		return 0, nil
	}
	if err := r.volumes(ctx); err != nil {
		return 1, err
	}
	for i := range r.pod.Spec.InitContainers {
		if code, err := r.process(ctx, &r.pod.Spec.InitContainers[i]); err != nil || code != 0 {
			return code, err
		}
	}
	r.started(ctx)
	return r.process(ctx, &r.pod.Spec.Containers[0])
}

func (r *running) images() (all []string) {
	for _, list := range [][]corev1.Container{r.pod.Spec.InitContainers, r.pod.Spec.Containers} {
		for i := range list {
			all = append(all, list[i].Image)
		}
	}
	return all
}

func (r *running) refused(ctx context.Context, image string) (int, error) {
	r.report(ctx, func(s *corev1.PodStatus) {
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: r.pod.Spec.Containers[0].Name, Image: image,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff",
				Message: `Back-off pulling image "` + image + `": not found`}}}}
	})
	select {
	case <-r.end:
	case <-ctx.Done():
	}
	return 0, nil
}

func (r *running) started(ctx context.Context) {
	now := metav1.Now()
	r.report(ctx, func(s *corev1.PodStatus) {
		s.Phase, s.PodIP, s.StartTime = corev1.PodRunning, r.address, &now
		s.PodIPs = []corev1.PodIP{{IP: r.address}}
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: r.pod.Spec.Containers[0].Name, Ready: true,
			Image: r.pod.Spec.Containers[0].Image,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}}}
	})
}

func (r *running) report(ctx context.Context, change func(*corev1.PodStatus)) {
	pods := r.k.c.Client.CoreV1().Pods(r.pod.Namespace)
	for range 20 { // an unavailable API server comes back
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			p, err := pods.Get(ctx, r.pod.Name, metav1.GetOptions{})
			if err != nil || p.UID != r.pod.UID {
				return err
			}
			change(&p.Status)
			_, err = pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "connection refused") {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// volumes creates the folders that the containers mount.
func (r *running) volumes(ctx context.Context) error {
	r.place = map[string]string{}
	folders := map[string]string{}
	for _, v := range r.pod.Spec.Volumes {
		dir := filepath.Join(r.dir, v.Name)
		if v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumMemory {
			continue // shared memory: this computer's own
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		folders[v.Name] = dir
		if v.Projected != nil {
			if err := r.tokens(ctx, dir, v.Projected.Sources); err != nil {
				return err
			}
		}
		if v.Secret == nil {
			continue
		}
		s, err := r.k.c.Client.CoreV1().Secrets(r.pod.Namespace).Get(ctx, v.Secret.SecretName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, item := range v.Secret.Items {
			if err := os.WriteFile(filepath.Join(dir, item.Path), s.Data[item.Key], 0o600); err != nil {
				return err
			}
		}
	}
	for _, m := range r.pod.Spec.Containers[0].VolumeMounts {
		if dir, ok := folders[m.Name]; ok {
			r.place[m.MountPath] = dir
		}
	}
	return nil
}

// tokens writes the service account tokens of a volume, which the API server creates.
func (r *running) tokens(ctx context.Context, dir string, sources []corev1.VolumeProjection) error {
	for _, s := range sources {
		t := s.ServiceAccountToken
		if t == nil {
			continue
		}
		made, err := r.k.c.Client.CoreV1().ServiceAccounts(r.pod.Namespace).CreateToken(ctx,
			cmp.Or(r.pod.Spec.ServiceAccountName, "default"), &authenticationv1.TokenRequest{
				Spec: authenticationv1.TokenRequestSpec{
					Audiences: []string{t.Audience}, ExpirationSeconds: t.ExpirationSeconds,
					BoundObjectRef: &authenticationv1.BoundObjectReference{
						APIVersion: "v1", Kind: "Pod", Name: r.pod.Name, UID: r.pod.UID,
					},
				},
			}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, t.Path), []byte(made.Status.Token), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// here replaces mount paths by the paths of the folders on this computer.
func (r *running) here(text string) string {
	paths := make([]string, 0, len(r.place))
	for p := range r.place {
		paths = append(paths, p)
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	var pairs []string
	for _, p := range paths {
		pairs = append(pairs, p, r.place[p])
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// process runs a container to its end.
func (r *running) process(ctx context.Context, c *corev1.Container) (code int, err error) {
	console, err := os.OpenFile(filepath.Join(r.dir, "console.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 1, err
	}
	defer console.Close() //nolint:errcheck // the process has its own copy
	var args []string
	for _, a := range append(slices.Clone(c.Command), c.Args...) {
		args = append(args, r.here(a))
	}
	cmd := exec.Command(args[0], args[1:]...) //nolint:gosec // the pod's command
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + r.dir}
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			value = map[string]string{"metadata.uid": string(r.pod.UID), "metadata.name": r.pod.Name,
				"metadata.namespace": r.pod.Namespace, "status.podIP": r.address}[e.ValueFrom.FieldRef.FieldPath]
		}
		cmd.Env = append(cmd.Env, e.Name+"="+r.here(value))
	}
	cmd.Dir = r.dir
	if dir := r.here(c.WorkingDir); c.WorkingDir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return 1, err
		}
		cmd.Dir = dir
	}
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() //nolint:errcheck // the exit code is read below
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		r.signal(cmd, syscall.SIGKILL)
		<-ended
		return 137, errEnded
	case grace := <-r.end:
		r.signal(cmd, syscall.SIGTERM)
		select {
		case <-ended:
		case <-ctx.Done():
		case <-time.After(grace):
		}
		r.signal(cmd, syscall.SIGKILL)
		<-ended
	}
	if cmd.ProcessState.ExitCode() < 0 {
		return 137, nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

func (r *running) signal(cmd *exec.Cmd, s syscall.Signal) {
	if err := syscall.Kill(-cmd.Process.Pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		_ = cmd.Process.Kill()
	}
}
