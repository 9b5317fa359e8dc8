package notices

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/clock"
)

// Kubernetes names the watcher of a pod.
const Kubernetes = "kubernetes"

// podGrace is a pod's where nothing else is said.
const podGrace = 30 * time.Second

// pod takes SIGTERM for a notice: the kubelet sends it, and kills what is left after the grace period.
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
		<-ctx.Done() // further ones say the same
	case <-ctx.Done():
	}
}
