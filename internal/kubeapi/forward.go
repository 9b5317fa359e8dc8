package kubeapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// forwardWithin limits the time until a port of a pod is reachable.
const forwardWithin = 30 * time.Second

// Forward forwards a port of this computer's loopback interface to a port of a pod, until ctx ends. It returns the
// local port.
func (a *API) Forward(ctx context.Context, namespace, pod string, port int) (int, error) {
	transport, upgrader, err := spdy.RoundTripperFor(a.config)
	if err != nil {
		return 0, err
	}
	at, err := url.Parse(a.base + Path("v1", "pods", namespace, pod) + "/portforward")
	if err != nil {
		return 0, err
	}
	stop, ready, failed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)
	f, err := portforward.NewOnAddresses(
		dialer,
		[]string{"127.0.0.1"},
		[]string{fmt.Sprintf("0:%d", port)},
		stop,
		ready,
		io.Discard,
		io.Discard,
	)
	if err != nil {
		return 0, err
	}
	go func() { failed <- f.ForwardPorts() }()
	patience := time.NewTimer(forwardWithin)
	defer patience.Stop()
	select {
	case <-ready:
	case err := <-failed:
		return 0, fmt.Errorf("cannot reach pod %s in namespace %s: %w", pod, namespace, err)
	case <-patience.C:
		close(stop)
		return 0, fmt.Errorf("pod %s in namespace %s did not answer within %v", pod, namespace, forwardWithin)
	case <-ctx.Done():
		close(stop)
		return 0, ctx.Err()
	}
	ports, err := f.GetPorts()
	if err != nil || len(ports) == 0 {
		close(stop)
		return 0, fmt.Errorf("pod %s in namespace %s has no port %d: %w", pod, namespace, port, err)
	}
	context.AfterFunc(ctx, func() { close(stop) })
	return int(ports[0].Local), nil
}
