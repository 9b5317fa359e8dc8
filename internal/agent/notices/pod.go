package notices

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
)

// Kubernetes is the name of the watcher for pods.
const Kubernetes = "kubernetes"

// podGrace is a pod's default grace period.
const podGrace = 30 * time.Second

// pod treats SIGTERM as a notice: the kubelet sends it, and kills the remaining processes after the grace period.
type pod struct {
	grace time.Duration
	clock clock.Clock
}

// Watch implements Watcher.
func (p *pod) Watch(ctx context.Context, tell func(Notice)) {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	defer signal.Stop(told)
	select {
	case <-told:
		tell(Notice{Kind: Interruption, ID: "SIGTERM", At: p.clock.Now().Add(p.grace)})
		<-ctx.Done() // ignore further signals
	case <-ctx.Done():
	}
}
